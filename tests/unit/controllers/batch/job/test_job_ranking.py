"""The deletion order of surplus pods of a Job."""

from tests.support.tables import cases
from tests.unit.controllers.factories import at, condition, pod
from workers.controllers.batch.job.pods import rank

PLACED = {"nodeName": "n1"}
SIDECARS = {"nodeName": "n1", "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "setup"}]}
READY = {"spec": PLACED, "conditions": [condition("Ready", at_=-30)]}


def ready(since, **more):
    return {"spec": PLACED, **more, "conditions": [condition("Ready", at_=since)]}


def restarted(*times, **more):
    """A ready pod whose regular containers restarted so often."""
    return ready(-30, containerStatuses=[{"name": "main", "restartCount": number} for number in times], **more)


def sidecars(*times, **of_init):
    """A ready pod with init containers that restarted so often."""
    statuses = [{"name": name, "restartCount": number} for name, number in of_init.items()]
    return restarted(*times, spec=SIDECARS, initContainerStatuses=statuses)


def created(moment):
    return {**READY, "metadata": {"creationTimestamp": moment}}


@cases(
    ("no node, whatever its phase", {}, {"spec": PLACED, "phase": "Pending"}),
    ("pending", {"spec": PLACED, "phase": "Pending"}, {"spec": PLACED, "phase": "Unknown"}),
    ("unknown", {"spec": PLACED, "phase": "Unknown"}, {"spec": PLACED}),
    ("not ready", {"spec": PLACED}, READY),
    ("ready for a shorter time", ready(-10), ready(-30)),
    ("since when unset", {"spec": PLACED, "conditions": [{"type": "Ready", "status": "True"}]}, READY),
    ("more restarts", restarted(3), restarted(2)),
    ("the container that restarted most", restarted(3, 0), restarted(2, 2)),
    ("more restarts of one that runs beside them", sidecars(side=2), sidecars(side=1)),
    ("regular containers before those", sidecars(2), sidecars(1, side=9)),
    ("not those that only set up", sidecars(side=1), sidecars(setup=9)),
    ("younger", created(at(-40)), created(at(-50))),
    ("created at an unknown time", created(None), created(at(-40))),
)
def test_the_pod_that_goes_first(goes, stays):
    first, second = dict(goes), dict(stays)
    # The names are in the other order: what decides is not the name, which comes last.
    b = pod("b", first.pop("phase", "Running"), **first).body
    a = pod("a", second.pop("phase", "Running"), **second).body
    assert rank(b) < rank(a)


def test_nulls_count_as_nothing_and_then_the_name_decides():
    nulls = pod("a", **ready(-30, containerStatuses=None, initContainerStatuses=None)).body
    assert rank(nulls) < rank(pod("b", **READY).body)
