"""Actions: which a kind has, and the change that each makes."""

import json
from typing import Any

import pytest

from deploy.page import page_actions
from deploy.page.page_actions import Change, DeliveryChange, ObjectDeletion
from workers.api.kinds import (
    CRON_JOB,
    EVENT_JOB,
    JOB,
    JOB_FLOW,
    POD,
    SCALED_JOB,
    SCALED_OBJECT,
    SCHEDULED_JOB,
    Kind,
    Ref,
)
from workers.errors import UserError

SUSPENDED = {"spec": {"suspend": True}}
PATCHES: list[tuple[Kind, str, dict[str, Any]]] = [
    (SCHEDULED_JOB, "suspend", SUSPENDED),
    (SCHEDULED_JOB, "resume", {"spec": {"suspend": False, "suspendUntil": None}}),
    (CRON_JOB, "resume", {"spec": {"suspend": False}}),
    (JOB, "suspend", SUSPENDED),
    (EVENT_JOB, "resume", {"spec": {"suspend": False}}),
    (JOB_FLOW, "suspend", SUSPENDED),
    (JOB_FLOW, "resume", {"spec": {"suspend": None}}),
    (SCALED_JOB, "pause", {"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}}),
    (SCALED_OBJECT, "unpause", {"metadata": {"annotations": {"autoscaling.keda.sh/paused": None}}}),
]


def ref(kind: Kind) -> Ref:
    return Ref(kind, "shop", "it")


@pytest.mark.parametrize(("kind", "action", "patch"), PATCHES, ids=lambda each: getattr(each, "kind", None))
def test_the_patch_of_an_action(kind: Kind, action: str, patch: dict[str, Any]) -> None:
    change = page_actions.planned(action, ref(kind), {})
    assert isinstance(change, Change)
    assert change.patch == patch


def test_a_run_is_asked_for_by_an_annotation_with_its_variables() -> None:
    change = page_actions.planned("run", ref(CRON_JOB), {"environment": {"DAY": "2026-03-01"}})
    assert isinstance(change, Change)
    [(name, value)] = change.patch["metadata"]["annotations"].items()
    assert name.startswith("penstock.dev/run.")
    assert json.loads(value) == {"env": {"DAY": "2026-03-01"}}
    again = page_actions.planned("run", ref(CRON_JOB), {})
    assert isinstance(again, Change)
    assert name not in again.patch["metadata"]["annotations"]


def test_deliveries_are_named_or_all_that_are_parked() -> None:
    assert page_actions.planned("replay", ref(EVENT_JOB), {"state": "parked"}) == DeliveryChange("replay", None)
    entries = ["1700000000000-0", "1700000000000-1"]
    assert page_actions.planned("drop", ref(EVENT_JOB), {"entries": entries}) == DeliveryChange("drop", tuple(entries))
    assert page_actions.planned("delete", ref(POD), {}) == ObjectDeletion()


REFUSED: dict[str, tuple[Kind, str, Any]] = {
    "has no action": (POD, "suspend", {}),
    "suspend has no 'until'": (JOB, "suspend", {"until": "x"}),
    "environment: an object": (CRON_JOB, "run", {"environment": {"A": 1}}),
    "no name of a variable": (CRON_JOB, "run", {"environment": {"1 A": "x"}}),
    "one of entries and state": (EVENT_JOB, "replay", {}),
    "entries and state": (EVENT_JOB, "replay", {"entries": ["1-0"], "state": "parked"}),
    "parked is the one": (EVENT_JOB, "drop", {"state": "waiting"}),
    "a list of 1": (EVENT_JOB, "drop", {"entries": []}),
    "an entry looks like": (EVENT_JOB, "drop", {"entries": ["*"]}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_wrong_action_is_refused_with_the_field(message: str) -> None:
    kind, action, parameters = REFUSED[message]
    with pytest.raises(UserError, match=message):
        page_actions.planned(action, ref(kind), parameters)
