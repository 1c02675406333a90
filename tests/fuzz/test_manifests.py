"""Manifests of all kinds, with odd values in them: every controller decides, with a plan that is plain and the same."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.fuzz.manifests import examples, stored
from tests.unit.apiserver.odd import ODD, mutated, places
from tests.unit.controllers.factories import NOW, at, reading, sample
from workers.api.kinds import JOB, QUEUE, SCHEDULED_JOB, VC_CRON_JOB, Kind, Object, ref_of
from workers.controllers.registry import controllers
from workers.decision.controller import Controller
from workers.decision.snapshot import CachedObject, Snapshot
from workers.reconcile import unreadable_field

CONTROLLERS = controllers("all", cronjobs=True, workloads=True, policies=True, volcano=True)
#: Kinds of which objects are there that were written before a definition, or without one.
UNCHECKED = (QUEUE, SCHEDULED_JOB, VC_CRON_JOB)
#: A few of each in the suite; HYPOTHESIS_PROFILE=hunt draws ten times as many.
#: Most changes are refused before anything decides on them.
FEW = settings(
    max_examples=(settings.default.max_examples if settings.default else 100) // 10,
    suppress_health_check=[HealthCheck.filter_too_much],
)
EXAMPLES = {name: (kind, body) for name, kind, body in examples() if kind.id in CONTROLLERS}
#: The statuses that controllers wrote may have been edited, too.
#: Numbers beyond 64 bits become floats when JSON is read.
VALUES = [value for value in ODD if not isinstance(value, int) or -(2**63) <= value < 2**63]
STATUS: Object = {
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(-5), "reason": "R", "message": "m"}],
    "active": [{"kind": "Job", "name": "x", "namespace": "default", "uid": "u"}],
    "lastScheduleTime": at(-70),
    "observedSchedule": "* * * * *",
    "replicas": 1,
    "state": {"phase": "Running", "lastTransitionTime": at(-5)},
}
SAMPLES = st.builds(
    sample,
    st.sampled_from((0.0, 1.0, 0.5, 3.0, 1e18, -1.0)),
    target=st.sampled_from((1.0, 0.1, 5.0)),
    error=st.sampled_from((None, None, "down")),
)
READINGS = st.none() | st.lists(SAMPLES, max_size=2).map(lambda samples: reading(*samples, uid=""))


def odd(body: Object) -> st.SearchStrategy[Object]:
    """The manifest with an odd value or two, and perhaps with a status that has one."""
    whole = {**body, "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, **body["metadata"]}}
    change = st.tuples(st.sampled_from(list(places(whole))), st.sampled_from(VALUES))
    told = st.tuples(st.sampled_from(list(places(STATUS))), st.sampled_from(VALUES))
    statuses = st.just(None) | st.lists(told, max_size=1).map(lambda changes: mutated(STATUS, changes))
    return st.builds(
        lambda changes, status: {**mutated(whole, changes), **({} if status is None else {"status": status})},
        st.lists(change, max_size=2),
        statuses,
    )


def decided(controller: Controller, snapshot: Snapshot) -> bytes:
    """Returns the plan as JSON, after everything that is observed for it."""
    body = snapshot.body
    assert body is not None
    if not controller.accepts(body):
        return b""
    controller.grandchildren(body)
    wanted = [*controller.relatives(body), *controller.optional_relatives(body)]
    controller.scales(body)
    controller.reads_cluster_wide(body)
    plan = controller.decide(snapshot, NOW)
    return orjson.dumps([str(each) for each in wanted]) + orjson.dumps(plan, option=orjson.OPT_NON_STR_KEYS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_manifest_that_is_stored_is_decided_on(name: str) -> None:
    kind, body = EXAMPLES[name]

    @FEW
    @given(odd(body), READINGS)
    def decides(changed: Object, measured: Any) -> None:
        found = stored(kind, changed)
        assume(found is not None)
        assert found is not None
        plan = whole_path(kind, found, measured)
        assert plan == whole_path(kind, copy.deepcopy(found), measured)

    decides()


@pytest.mark.parametrize("name", [name for name, (kind, _) in EXAMPLES.items() if kind in UNCHECKED])
def test_what_no_schema_refused_is_decided_on_or_its_field_is_named(name: str) -> None:
    kind, body = EXAMPLES[name]
    whole = stored(kind, body)
    assert whole is not None
    spots = [place for place in places(whole) if place[0] in ("spec", "status")]

    @FEW
    @given(st.sampled_from(spots), st.sampled_from(VALUES), READINGS)
    def told(spot: Any, value: Any, measured: Any) -> None:
        changed = mutated(whole, [(spot, value)])

        def decide(other: Object) -> Any:
            return whole_path(kind, copy.deepcopy(other), measured)

        try:
            decide(changed)
        except Exception:
            found = unreadable_field.find(changed, decide)
            assert found, (spot, value)
            assert found.startswith(str(spot[0])), (spot, found)

    told()


def whole_path(kind: Kind, body: Object, measured: Any) -> bytes:
    """Returns the plan, and fails if it changed what was observed."""
    if not kind.namespaced:
        body["metadata"].pop("namespace", None)
    before = orjson.dumps(body)
    ref = ref_of(kind, body)
    child = CachedObject(ref_of(JOB, {"metadata": {"name": "gone", "namespace": "default"}}), None, 0)
    snapshot = Snapshot(ref, body, children={JOB.id: (child,)}, reading=measured, at=int(NOW.timestamp() * 1e6))
    plan = decided(CONTROLLERS[kind.id], snapshot)
    assert orjson.dumps(body) == before
    return plan
