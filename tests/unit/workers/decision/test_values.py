"""Values that decisions and the broker exchange: what is stored comes back, and what is seldom needed is made late."""

import orjson

from tests.support.tables import for_each
from workers.api.kinds import EVENT_JOB, SCALED_JOB, Kind, Object
from workers.decision import claims
from workers.decision.claims import LEDGER, ClaimedItem, ClaimLedger, ClaimOrder, ClaimSettlement
from workers.decision.plan import CountMetric, LaterSteps, Step


@for_each(
    ClaimOrder(7, "ledger", 3),
    ClaimOrder(
        7, "ledger", 3, True, (ClaimSettlement("1-0", "parked", "it failed", 2, 500, "work-1"),), ("2-0", "3-0")
    ),
)
def test_a_stored_order_is_decoded_as_it_was(order: ClaimOrder) -> None:
    assert claims.order(orjson.loads(orjson.dumps(order))) == order


@for_each(
    ClaimLedger("ledger"),
    ClaimLedger("ledger", 0, ()),
    ClaimLedger("ledger", 4, (ClaimedItem("1-0", 1, 3, "a b", "json"), ClaimedItem("2-0")), 7, {"parked": 1}, 99),
)
def test_a_stored_ledger_is_decoded_as_it_was(ledger: ClaimLedger) -> None:
    assert claims.ledger(orjson.loads(orjson.dumps(ledger))) == ledger


@for_each(
    (SCALED_JOB, {}, None),
    (SCALED_JOB, {"annotations": None}, None),
    (SCALED_JOB, {"annotations": {LEDGER: ""}}, None),
    (SCALED_JOB, {"annotations": {LEDGER: 7}}, None),
    (SCALED_JOB, {"annotations": {LEDGER: "{}"}}, "01e7b720ff566d53"),
    (EVENT_JOB, {}, "events"),
)
def test_the_ledger_of_an_object_is_named_after_its_annotation(kind: Kind, metadata: Object, name: str | None) -> None:
    assert claims.ledger_name(kind, {"metadata": metadata}) == name


def test_later_steps_are_made_once_when_they_are_asked_for() -> None:
    steps = (CountMetric("jobflows_failed"), CountMetric("jobflows_succeeded"), CountMetric("jobs_finished"))
    made: list[int] = []

    def make() -> tuple[Step, ...]:
        made.append(1)
        return steps

    later = LaterSteps(make)
    assert not made
    assert (tuple(later), len(later), later[1], later[1:]) == (steps, 3, steps[1], steps[1:])
    assert made == [1]
