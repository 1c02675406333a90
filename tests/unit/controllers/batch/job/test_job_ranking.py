"""The deletion order of surplus pods of a Job."""

from tests.unit.controllers.factories import at, condition, pod
from tests.unit.tables import cases
from workers.controllers.batch.job.pods import rank

PLACED = {"nodeName": "n1"}
SIDECARS = {"nodeName": "n1", "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "setup"}]}
READY = {"spec": PLACED, "conditions": [condition("Ready", at_=-30)]}


def restarted(times, name="main"):
    return [{"name": name, "restartCount": times}]


def ready(since, **more):
    return {"spec": PLACED, **more, "conditions": [condition("Ready", at_=since)]}


@cases(
    ("goes", "stays"),
    {
        "no node, whatever its phase": ({}, {"spec": PLACED, "phase": "Pending"}),
        "pending": ({"spec": PLACED, "phase": "Pending"}, {"spec": PLACED, "phase": "Unknown"}),
        "unknown": ({"spec": PLACED, "phase": "Unknown"}, {"spec": PLACED}),
        "not ready": ({"spec": PLACED}, READY),
        "ready for a shorter time": (ready(-10), ready(-30)),
        "since when unset": ({"spec": PLACED, "conditions": [{"type": "Ready", "status": "True"}]}, READY),
        "more restarts": (ready(-30, containerStatuses=restarted(3)), ready(-30, containerStatuses=restarted(2))),
        "the container that restarted most": (
            ready(-30, containerStatuses=[*restarted(3), *restarted(0)]),
            ready(-30, containerStatuses=[*restarted(2), *restarted(2)]),
        ),
        "more restarts of one that runs beside them": (
            ready(-30, spec=SIDECARS, initContainerStatuses=restarted(2, "side")),
            ready(-30, spec=SIDECARS, initContainerStatuses=restarted(1, "side")),
        ),
        "regular containers before those": (
            ready(-30, spec=SIDECARS, containerStatuses=restarted(2)),
            ready(-30, spec=SIDECARS, containerStatuses=restarted(1), initContainerStatuses=restarted(9, "side")),
        ),
        "not those that only set up": (
            ready(-30, spec=SIDECARS, initContainerStatuses=restarted(1, "side")),
            ready(-30, spec=SIDECARS, initContainerStatuses=restarted(9, "setup")),
        ),
        "younger": (
            {**READY, "metadata": {"creationTimestamp": at(-40)}},
            {**READY, "metadata": {"creationTimestamp": at(-50)}},
        ),
        "created nobody knows when": (
            {**READY, "metadata": {"creationTimestamp": None}},
            {**READY, "metadata": {"creationTimestamp": at(-40)}},
        ),
        "nulls, and then the name": (ready(-30, containerStatuses=None, initContainerStatuses=None), READY),
    },
)
def test_the_pod_that_goes_first(goes, stays):
    first, second = dict(goes), dict(stays)
    a = pod("a", first.pop("phase", "Running"), **first).body
    b = pod("b", second.pop("phase", "Running"), **second).body
    assert rank(a) < rank(b)
