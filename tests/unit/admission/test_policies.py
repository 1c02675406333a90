"""Which lifecycle policies may stand in one list."""

import pytest

from tests.unit.admission.bodies import fields, job, known
from workers.admission.volcano import job as rules
from workers.admission.volcano import policies


def on(*events, action="RestartJob", **more):
    """A policy for events."""
    return {"events": list(events), "action": action, **more}


REFUSED = {
    "neither event nor code": ([{"action": "AbortJob"}], "[0]"),
    "both event and code": ([{"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}], "[0]"),
    "both events and code": ([on("PodFailed", exitCode=1)], "[0]"),
    "an event that is none": ([{"event": "Nonsense", "action": "AbortJob"}], "[0].event"),
    "an event of the controller's own": ([on("OutOfSync")], "[0].events"),
    "a command": ([on("CommandIssued")], "[0].events"),
    "PodRunning": ([on("PodRunning")], "[0].events"),
    "an action that is none": ([on("PodFailed", action="Nonsense")], "[0].action"),
    "no action": ([{"event": "PodFailed"}], "[0].action"),
    "an event twice": ([on("PodFailed"), on("PodEvicted", "PodFailed")], "[1].events"),
    "an event twice with different actions": ([on("PodFailed"), on("PodFailed", action="AbortJob")], "[1].events"),
    "exit code 0": ([{"exitCode": 0, "action": "AbortJob"}], "[0].exitCode"),
    "an exit code twice": ([{"exitCode": 1, "action": a} for a in ("AbortJob", "RestartJob")], "[1].exitCode"),
    "an action of a code that is none": ([{"exitCode": 1, "action": "RestartJobs"}], "[0].action"),
    "a queue's action": ([{"exitCode": 1, "action": "OpenQueue"}], "[0].action"),
    "an action for an event that does nothing": ([on("PodFailed", action="SyncJob")], "[0].action"),
    "a timeout below 0": ([on("PodFailed", timeout="-5s")], "[0].timeout"),
    "all events and one of them": ([on("*"), on("PodFailed")], ""),
    "one of all events in the same policy": ([on("*", "PodFailed")], ""),
    "only the first is told": ([{"exitCode": 0, "action": "AbortJob"}, {"action": "AbortJob"}], "[0].exitCode"),
}

ACCEPTED = {
    "none": [],
    **{f"event {event}": [on(event)] for event in policies.EVENTS},
    **{f"action {action}": [on("PodFailed", action=action)] for action in policies.ACTIONS},
    "an event twice in one policy": [{"event": "PodFailed", "events": ["PodFailed"], "action": "AbortJob"}],
    "codes beside all events": [on("*"), {"exitCode": 137, "action": "AbortJob"}],
    "a code whose action does nothing": [{"exitCode": 1, "action": "SyncJob"}, {"exitCode": 2, "action": "EnqueueJob"}],
    "a code without an action": [{"exitCode": 1}],
    **{f"a code's action {action}": [{"exitCode": 1, "action": action}] for action in policies.ACTIONS},
    "a code below 0": [{"exitCode": -1, "action": "AbortJob"}],
    "a timeout of nothing": [on("PodFailed", timeout="0s")],
    "a timeout": [on("PodPending", timeout="10m")],
}


@pytest.mark.parametrize(("found", "place"), REFUSED.values(), ids=REFUSED)
def test_policies_that_contradict_or_say_nothing_are_refused(found, place):
    assert fields(rules.problems(job(policies=found), None, known())) == [f"spec.policies{place}"]


@pytest.mark.parametrize("found", ACCEPTED.values(), ids=ACCEPTED)
def test_policies_that_can_be_followed_are_accepted(found):
    assert rules.problems(job(policies=found), None, known()) == []
