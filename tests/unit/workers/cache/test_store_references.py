"""References in the store: referrers are found by the name alone, and their changes mark the object they name."""

from typing import Any

import pytest

from scheduler.keys import Keys
from tests.support.tables import cases, for_each
from tests.unit.workers.cache.test_store import SECOND, StoreRig, rig
from tests.unit.workers.objects import job, key, naming, ref, refers_to, scaled_job
from workers.api.kinds import JOB, POD_GROUP, SCALED_JOB, Object, Ref
from workers.cache.observations import ObserveRequest
from workers.cache.store import ObjectVersion, Store

__all__ = ["rig"]

ONE, TWO = scaled_job("one", 1), scaled_job("two", 1)


async def referrers(rig: StoreRig, name: str) -> list[str]:
    observed = await rig.store.observe([ObserveRequest(ref(SCALED_JOB, name), referrers=(JOB,))])
    return sorted(entry.ref.name for entry in observed.observations[0].referrers[JOB.id])


GONE = ObjectVersion.gone(ref(JOB, "a"), "uid-a")


def a_names(version: int, name: str | None, **metadata: Any) -> ObjectVersion:
    """Returns this version of the Job a, which names a ScaledJob or none."""
    body = job("a", version, **metadata) if name is None else naming("a", version, name, **metadata)
    return ObjectVersion(body)


def deleted(version: int, name: str) -> ObjectVersion:
    return ObjectVersion.deleted(JOB, naming("a", version, name))


@cases(
    ("appears", [a_names(2, "one")], {"one": ["a"]}, {"one"}),
    ("owned by another", [a_names(2, "one", owner=TWO)], {"one": ["a"]}, {"one", "two"}),
    ("names none", [a_names(2, None)], {}, set()),
    ("names one that does not exist", [a_names(2, "nobody")], {"nobody": ["a"]}, set()),
    ("names another", [a_names(2, "one"), a_names(3, "two")], {"two": ["a"]}, {"one", "two"}),
    ("names none any more", [a_names(2, "one"), a_names(3, None)], {}, {"one"}),
    ("names one late", [a_names(2, None), a_names(3, "one")], {"one": ["a"]}, {"one"}),
    ("an older echo", [a_names(3, "two"), a_names(2, "one")], {"two": ["a"]}, {"two"}),
    ("gone", [a_names(2, "one"), GONE], {}, {"one"}),
    ("its deletion was watched", [a_names(2, "one"), deleted(3, "one")], {}, {"one"}),
    ("changed unwatched and gone", [a_names(2, "one"), deleted(4, "two")], {}, {"one", "two"}),
    ("made again", [a_names(2, "one"), GONE, a_names(5, "two", uid="new")], {"two": ["a"]}, {"one", "two"}),
    (
        "made again, and a late event of its predecessor",
        [a_names(2, "one"), a_names(5, "two", uid="new"), GONE],
        {"two": ["a"]},
        {"one", "two"},
    ),
)
@cases(("one batch", True), ("one by one", False))
async def test_a_named_object_has_all_living_referrers_and_is_marked_by_their_changes(
    at_once: bool, changes: list[ObjectVersion], found: dict[str, list[str]], marked: set[str], rig: StoreRig
) -> None:
    await rig.put(ONE, TWO)
    await rig.marked()
    for batch in [changes] if at_once else [[change] for change in changes]:
        await rig.store.apply(JOB, batch)
    for name in ("one", "two", "nobody", "on", "one2"):
        assert await referrers(rig, name) == found.get(name, [])
    assert {each for each in await rig.marked() if each.startswith(SCALED_JOB.id)} == {
        key(SCALED_JOB, name) for name in marked
    }
    indexed = [member async for member, _ in rig.client.zscan_iter(rig.store.keys.owners(JOB.id))]
    assert sum(member.startswith(b"@") for member in indexed) == len(found)


async def test_a_move_while_it_was_marked_before_marks_again(rig: StoreRig) -> None:
    await rig.put(ONE, naming("a", 2, "one"))
    await rig.marked()
    await rig.put(naming("a", 3, "one", labels={"news": "yes"}))
    assert key(SCALED_JOB, "one") in await rig.marked()
    await rig.store.apply(JOB, [GONE])
    assert key(SCALED_JOB, "one") in await rig.marked()
    await rig.store.apply(JOB, [GONE])
    assert await rig.marked() == set()


async def test_a_reference_is_to_the_current_object_of_the_name(rig: StoreRig) -> None:
    await rig.put(naming("a", 2, "one"), ONE)
    assert await referrers(rig, "one") == ["a"]
    await rig.store.apply(SCALED_JOB, [ObjectVersion(scaled_job("one", 9, uid="another"))])
    await rig.marked()
    await rig.put(naming("a", 10, "one"))
    assert key(SCALED_JOB, "one") in await rig.marked()


async def test_a_plan_wakes_whom_its_children_name_but_not_itself(rig: StoreRig) -> None:
    await rig.put(ONE, TWO)
    await rig.marked()
    await rig.put(naming("a", 2, "two", owner=ONE), acting=key(SCALED_JOB, "one"))
    assert key(SCALED_JOB, "two") in (marked := await rig.marked())
    assert key(SCALED_JOB, "one") not in marked
    await rig.put(naming("a", 3, "two", owner=ONE), acting=key(SCALED_JOB, "two"))
    assert key(SCALED_JOB, "one") in (marked := await rig.marked())
    assert key(SCALED_JOB, "two") not in marked


@for_each("two words", "two\nlines", "tab\there", "a\x00b")
async def test_a_malformed_name_refers_to_no_object(name: str, rig: StoreRig) -> None:
    await rig.put(naming("a", 2, name))
    assert await rig.version("a") == "2"
    assert await referrers(rig, name) == []


async def test_an_answer_in_pieces_has_every_tie_in_its_place(rig: StoreRig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.put(*(naming(f"{name}{n}", 2 + n, name) for name in ("one", "two") for n in range(3)), job("c", 9))
    monkeypatch.setattr("workers.cache.observations.ANSWER", 1)
    requests = [
        ObserveRequest(ref(SCALED_JOB, "one"), referrers=(JOB,)),
        ObserveRequest(ref(SCALED_JOB, "three"), unowned=(JOB,)),
        ObserveRequest(ref(SCALED_JOB, "two"), children=(JOB,), referrers=(JOB,)),
    ]
    first, second, third = (await rig.store.observe(requests)).observations
    assert sorted(entry.ref.name for entry in first.referrers[JOB.id]) == ["one0", "one1", "one2"]
    assert second.referrers == {}
    assert sorted(entry.ref.name for entry in third.referrers[JOB.id]) == ["two0", "two1", "two2"]


async def test_kinds_without_a_reference_function_are_not_indexed(rig: StoreRig) -> None:
    await rig.store.apply(SCALED_JOB, [ObjectVersion(scaled_job("s", 1, annotations={"names": "one"}))])
    assert await rig.client.zcard(rig.store.keys.owners(SCALED_JOB.id)) == 0


@cases(("not asked before", False), ("asked before", True))
async def test_a_listing_puts_right_what_other_controllers_than_these_wrote(before: bool, rig: StoreRig) -> None:
    def store(asked: bool) -> Store:
        return Store(
            rig.client, Keys("test"), {}, references={JOB.id: refers_to} if asked else {}, clock=lambda: rig.now
        )

    known = [naming("a", 2, "one"), naming("b", 3, "two")]
    await store(before).apply(JOB, [ObjectVersion(body) for body in known])
    rig.now += SECOND
    after = store(not before)
    listing = await after.begin(JOB, epoch=1)
    await after.apply(JOB, [ObjectVersion(body) for body in known], listing=listing)
    await after.finish(listing, {"": "10"})
    assert [await referrers(rig, name) for name in ("one", "two")] == ([[], []] if before else [["a"], ["b"]])


async def test_a_listing_buries_ties_with_what_it_does_not_name(rig: StoreRig) -> None:
    await rig.put(ONE, naming("a", 2, "one"), naming("b", 3, "one"))
    await rig.marked()
    rig.now += SECOND
    await rig.list(naming("b", 3, "one"), version="10")
    assert await referrers(rig, "one") == ["b"]
    assert key(SCALED_JOB, "one") in await rig.marked()


@for_each("", "default")
async def test_a_cluster_scoped_object_is_named_from_all_namespaces(namespace: str, rig: StoreRig) -> None:
    target = Ref(POD_GROUP, namespace, "g")
    store = Store(rig.client, Keys("test"), {}, references={JOB.id: lambda _body: target})
    elsewhere: Object = job("b", 3)
    elsewhere["metadata"]["namespace"] = "elsewhere"
    await store.apply(JOB, [ObjectVersion(job("a", 2)), ObjectVersion(elsewhere)])
    [one] = (await store.observe([ObserveRequest(target, referrers=(JOB,))])).observations
    assert sorted(str(entry.ref) for entry in one.referrers[JOB.id]) == ["Job default/a", "Job elsewhere/b"]
