"""What of a Job may change once it is there."""

import copy

import pytest

from tests.unit.admission.bodies import fields, job, known, task
from workers.admission.volcano import job as rules

CLAIM = {"accessModes": ["ReadWriteOnce"]}
OLD = rules.defaulted(
    job(
        task("a", 2, policies=[{"event": "PodFailed", "action": "RestartJob"}]),
        task("b", 3, minAvailable=1),
        volumes=[{"mountPath": "/made", "volumeClaim": CLAIM}, {"mountPath": "/there", "volumeClaimName": "claim"}],
        plugins={"env": []},
    )
)


def changed(*path, to):
    """The job with one field of its spec changed."""
    body = copy.deepcopy(OLD)
    place = body["spec"]
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = to
    return body


FORBIDDEN = "must not change"
REFUSED = {
    "queue": (changed("queue", to="other"), "spec.queue", FORBIDDEN),
    "schedulerName": (changed("schedulerName", to="other"), "spec.schedulerName", FORBIDDEN),
    "maxRetry": (changed("maxRetry", to=4), "spec.maxRetry", FORBIDDEN),
    "plugins": (changed("plugins", to={"env": [], "svc": []}), "spec.plugins", FORBIDDEN),
    "policies": (changed("policies", to=[{"exitCode": 1, "action": "AbortJob"}]), "spec.policies", FORBIDDEN),
    "ttl": (changed("ttlSecondsAfterFinished", to=1), "spec.ttlSecondsAfterFinished", FORBIDDEN),
    "minSuccess": (changed("minSuccess", to=1), "spec.minSuccess", FORBIDDEN),
    "a task's name": (changed("tasks", 0, "name", to="c"), "spec.tasks[0].name", FORBIDDEN),
    "a task's template": (changed("tasks", 1, "template", to={}), "spec.tasks[1].template", FORBIDDEN),
    "a task's policies": (changed("tasks", 0, "policies", to=[]), "spec.tasks[0].policies", FORBIDDEN),
    "a task more": (changed("tasks", to=[*OLD["spec"]["tasks"], task("c")]), "spec.tasks", "stay as many"),
    "a task less": (changed("tasks", to=[task("a", 5)]), "spec.tasks", "stay as many"),
    "a claim that was named": (changed("volumes", 1, "volumeClaimName", to="x"), "spec.volumes", FORBIDDEN),
    "a volume's path": (changed("volumes", 0, "mountPath", to="/x"), "spec.volumes", FORBIDDEN),
    "minAvailable over all replicas": (changed("minAvailable", to=6), "spec.minAvailable", "6 > 5"),
    "a task's minAvailable over its replicas": (
        changed("tasks", 1, "minAvailable", to=4),
        "spec.tasks[1].minAvailable",
        "4 > 3",
    ),
    "replicas below minAvailable": (changed("tasks", 0, "replicas", to=1), "spec.tasks[0].minAvailable", "2 > 1"),
    "replicas below 0": (changed("tasks", 1, "replicas", to=-1), "spec.tasks[1].replicas", "greater than"),
}

ACCEPTED = {
    "nothing": OLD,
    "minAvailable": changed("minAvailable", to=1),
    "priorityClassName": changed("priorityClassName", to="high"),
    "a task's replicas": changed("tasks", 1, "replicas", to=30),
    "a task's minAvailable": changed("tasks", 1, "minAvailable", to=0),
    "the name of a claim that was made": changed("volumes", 0, "volumeClaimName", to="crunch-made"),
    "a null inside of what stays": changed("tasks", 0, "policies", 0, "timeout", to=None),
    "a null for what is not there": changed("minSuccess", to=None),
    "Penstock's suspend": changed("suspend", to=True),
    "Penstock's deadline": changed("activeDeadlineSeconds", to=5),
}


@pytest.mark.parametrize(("body", "field", "text"), REFUSED.values(), ids=REFUSED)
def test_what_must_stay_is_refused_by_the_name_of_its_field(body, field, text):
    found = rules.problems(body, OLD, known())
    assert fields(found)[0] == field
    assert text in found[0].message


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_what_may_change_does(body):
    assert rules.problems(body, OLD, known()) == []


def test_a_job_whose_queue_closed_may_still_be_changed():
    assert rules.problems(changed("tasks", 1, "replicas", to=2), OLD, known()) == []


def test_what_was_stored_before_the_rules_were_may_lose_its_finalizers():
    bad = job(task(minAvailable=5), plugins={"teleport": []})
    new = copy.deepcopy(bad)
    bad["metadata"]["finalizers"] = ["example.com/wait"]
    assert rules.problems(new, bad, known()) == []
