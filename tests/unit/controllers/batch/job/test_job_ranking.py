"""The deletion order of surplus pods of a Job."""

import pytest

from tests.unit.controllers.factories import at, condition, pod
from workers.controllers.batch.job.pods import rank

PLACED = {"nodeName": "n1"}
SIDECARS = {"nodeName": "n1", "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "setup"}]}
READY = {"spec": PLACED, "conditions": [condition("Ready", at_=-30)]}


def restarted(times, name="main"):
    return [{"name": name, "restartCount": times}]


def ready(since, **more):
    return {"spec": PLACED, **more, "conditions": [condition("Ready", at_=since)]}


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        pytest.param({}, {"spec": PLACED, "phase": "Pending"}, id="no node, whatever its phase"),
        pytest.param({"spec": PLACED, "phase": "Pending"}, {"spec": PLACED, "phase": "Unknown"}, id="pending"),
        pytest.param({"spec": PLACED, "phase": "Unknown"}, {"spec": PLACED}, id="unknown"),
        pytest.param({"spec": PLACED}, READY, id="not ready"),
        pytest.param(ready(-10), ready(-30), id="ready for a shorter time"),
        pytest.param(
            {"spec": PLACED, "conditions": [{"type": "Ready", "status": "True"}]}, READY, id="since when unset"
        ),
        pytest.param(
            ready(-30, containerStatuses=restarted(3)), ready(-30, containerStatuses=restarted(2)), id="more restarts"
        ),
        pytest.param(
            ready(-30, containerStatuses=[*restarted(3), *restarted(0)]),
            ready(-30, containerStatuses=[*restarted(2), *restarted(2)]),
            id="the container that restarted most",
        ),
        pytest.param(
            ready(-30, spec=SIDECARS, initContainerStatuses=restarted(2, "side")),
            ready(-30, spec=SIDECARS, initContainerStatuses=restarted(1, "side")),
            id="more restarts of one that runs beside them",
        ),
        pytest.param(
            ready(-30, spec=SIDECARS, containerStatuses=restarted(2)),
            ready(-30, spec=SIDECARS, containerStatuses=restarted(1), initContainerStatuses=restarted(9, "side")),
            id="regular containers before those",
        ),
        pytest.param(
            ready(-30, spec=SIDECARS, initContainerStatuses=restarted(1, "side")),
            ready(-30, spec=SIDECARS, initContainerStatuses=restarted(9, "setup")),
            id="not those that only set up",
        ),
        pytest.param(
            {**READY, "metadata": {"creationTimestamp": at(-40)}},
            {**READY, "metadata": {"creationTimestamp": at(-50)}},
            id="younger",
        ),
        pytest.param(
            {**READY, "metadata": {"creationTimestamp": None}},
            {**READY, "metadata": {"creationTimestamp": at(-40)}},
            id="created nobody knows when",
        ),
        pytest.param(
            ready(-30, containerStatuses=None, initContainerStatuses=None), READY, id="nulls, and then the name"
        ),
    ],
)
def test_the_pod_that_goes_first(goes, stays):
    first, second = dict(goes), dict(stays)
    a = pod("a", first.pop("phase", "Running"), **first).body
    b = pod("b", second.pop("phase", "Running"), **second).body
    assert rank(a) < rank(b)
