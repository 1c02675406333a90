"""An object that no schema has refused: the field for which it cannot be decided on is told."""

from datetime import timedelta
from typing import Any

import pytest

from tests.support.tables import for_each
from tests.unit.workers.acting import OWNER
from workers.api.kinds import SCALED_JOB
from workers.decision.plan import NOTHING
from workers.errors import UserError
from workers.reconcile import reconciler, unreadable_field

BODY: dict[str, Any] = {
    "metadata": {"name": "a", "annotations": {"n": "1"}},
    "spec": {"slots": [{"at": "1"}, {"at": "2"}], "limit": "3"},
}


def decide(body: dict[str, Any]) -> int:
    slots = sum(int(slot.get("at", 0)) for slot in body.get("spec", {}).get("slots", []))
    return slots + int(body.get("spec", {}).get("limit", 0)) + int(body["metadata"].get("annotations", {}).get("n", 0))


@for_each(
    ({"spec": {**BODY["spec"], "limit": "many"}}, "spec.limit"),
    ({"spec": {**BODY["spec"], "slots": [{"at": "1"}, {"at": "x"}]}}, "spec.slots[1].at"),
    ({"spec": {**BODY["spec"], "slots": 5}}, "spec.slots"),
    ({"metadata": {"name": "a", "annotations": {"n": "x"}}}, "metadata.annotations.n"),
    ({"spec": 5}, "spec"),
    ({}, ""),
)
def test_the_smallest_part_that_is_to_blame_is_named(changed: dict[str, Any], field: str) -> None:
    def raises(body: dict[str, Any]) -> None:
        decide(body)
        if not field:
            raise KeyError("a defect of ours")

    assert unreadable_field.find({**BODY, **changed}, raises) == field


SELECTED: dict[str, Any] = {"selector": {"labels": {"app": "a"}}, "delay": 1, "names": ["a"]}


@for_each(
    ({"delay": 2**63 - 1}, "spec.delay"),
    ({"delay": "soon"}, "spec.delay"),
    ({"names": [7]}, "spec.names[0]"),
    ({"names": 5}, "spec.names"),
    ({"names": {"a": "b"}, "delay": None}, "spec.delay"),
)
def test_a_part_that_must_be_there_is_not_to_blame(changed: dict[str, Any], field: str) -> None:
    """A decision without it ends before it comes to the fault."""

    def decide(body: dict[str, Any]) -> None:
        spec = body["spec"]
        if not (spec.get("selector") or {}).get("labels"):
            return
        timedelta(seconds=spec.get("delay", 1))
        "".join(spec.get("names", ()))

    body = {"metadata": {"name": "a"}, "spec": {**SELECTED, **changed}}
    assert unreadable_field.find(body, decide) == field


async def test_an_event_names_the_field_and_the_key_backs_off(worker: Any) -> None:
    def decide_on(snapshot: Any, _now: Any) -> Any:
        int(snapshot.body["spec"].get("limit", 0))
        return NOTHING

    rig = await worker(decide_on)
    rig.own(spec={"limit": "many"})
    await rig.follow()
    await rig.lane.mark([OWNER.key])
    await rig.consume()
    [(reason, message)] = rig.recorder.records
    assert reason == "Unreadable"
    assert message.startswith("spec.limit: cannot be read: ValueError")
    assert [kind for kind, _ in rig.recorder.regarding] == [SCALED_JOB]
    assert (await rig.lane.stats()).failing == 1


async def test_the_field_is_looked_for_no_longer_than_other_work_can_wait(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide_on(snapshot: Any, _now: Any) -> Any:
        int(snapshot.body["spec"].get("limit", 0))
        return NOTHING

    monkeypatch.setattr(reconciler, "BLAMING", -1.0)
    rig = await worker(decide_on)
    rig.own(spec={"limit": "many"})
    await rig.follow()
    await rig.lane.mark([OWNER.key])
    await rig.consume()
    assert len(rig.snapshots) == 1
    assert not rig.recorder.records
    assert (await rig.lane.stats()).failing == 1


async def test_an_error_that_says_itself_what_is_wrong_has_no_second_event(worker: Any) -> None:
    def decide_on(_snapshot: Any, _now: Any) -> Any:
        raise UserError("this process keeps no limits")

    rig = await worker(decide_on)
    await rig.follow()
    await rig.lane.mark([OWNER.key])
    await rig.consume()
    assert not rig.recorder.records
