"""Names of claims' Jobs: exact, for after an upgrade a claim whose Job exists must find it under the same name."""

from tests.support.tables import cases, for_each
from workers.decision import claim_names

LEDGER = "11aa22bb33cc44dd"
LONG = "w" * 44


@cases(
    ("the first attempt", ("work", "1790000000000-0", 0), "work-11aa-mubbs7i8-0"),
    ("a further one", ("work", "1790000000000-0", 2), "work-11aa-mubbs7i8-0-2"),
    ("an object whose name is no label", ("a.b", "5", 1), "a-b-31d1e1bc-11aa-5-1"),
    ("the longest name that stays whole", (LONG, "36", 0), f"{LONG}-11aa-10"),
    ("one that is longer", (LONG + "w", "36", 0), f"{'w' * 35}-362046d6-11aa-10"),
    ("capital letters", ("Work", "0", 0), "Work-6de8ff36-11aa-0"),
    ("an id that fits", (LONG, "1790000000000-0", 7), f"{LONG}-11aa-mubbs7i8-0-7"),
    ("an id that does not", (LONG, "1790000000000-123456", 7), f"{LONG}-3aeaad2b8d03-7"),
)
def test_a_name_follows_from_object_ledger_claim_and_attempt(claim: tuple[str, str, int], name: str) -> None:
    owner, id, attempt = claim
    assert claim_names.claimed(owner, LEDGER, id, attempt) == name


def test_a_job_of_an_event_is_named_after_its_eventjobs_uid() -> None:
    assert claim_names.of_event("mail", "uid", "1-0", 1) == "mail-e425-1-0-1"
    assert claim_names.of_event("mail", "another", "1-0", 1) != "mail-e425-1-0-1"


@cases(
    ("dots become hyphens", "a.b." * 12 + "c", "a-b-a-b-a-b-a-b-a-b-a-b-a-b-a-b-a-b-01cc54a6"),
    ("no hyphen remains before the hash", "a" * 33 + ".." + "c" * 40, "a" * 33 + "-834ba1fe"),
)
def test_the_stem_of_a_name_that_is_no_short_label(owner: str, stem: str) -> None:
    assert claim_names.stem(owner) == stem


@for_each("work", "w" * 253, "a.b." * 50 + "c")
@for_each("1790000000000000", "1790000000000-0-3", f"{2**64 - 1}-{2**64 - 1}-99")
def test_names_are_short_and_differ(id: str, owner: str) -> None:
    made = [claim_names.claimed(owner, of, id, attempt) for of in (LEDGER, "ffff0000") for attempt in (0, 1, 100)]
    assert len(set(made)) == len(made)
    assert all(len(each) <= 63 for each in made)
