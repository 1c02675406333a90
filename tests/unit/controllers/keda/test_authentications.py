"""Authentications: their finalizer, the Events of both ends, and no secret in the store."""

import orjson
import pytest

from tests.unit.controllers.factories import NOW, at
from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, SCALED_JOB, TRIGGER_AUTHENTICATION, Kind, Object, Ref
from workers.cache import codec
from workers.cache.store import ObjectVersion
from workers.controllers.keda.authentication import CONTROLLERS, decide
from workers.decision.plan import NOTHING, Patch, RecordEvent
from workers.decision.snapshot import Snapshot

KINDS = (TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION)
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def authentication(kind: Kind, *finalizers: str, status: Object | None = None, **metadata: object) -> Object:
    namespace = {"namespace": "team"} if kind.namespaced else {}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": "login",
            **namespace,
            "uid": "u",
            "resourceVersion": "5",
            "finalizers": [*finalizers],
            **metadata,
        },
        "spec": {"hashiCorpVault": {"credential": {"token": "hvs.secret"}}},
        **({"status": status} if status else {}),
    }


def decided(kind: Kind, body: Object | None) -> tuple[list[str] | None, list[tuple[str, str, str]]]:
    """The finalizers afterwards, None if they stay, and the Events."""
    plan = decide(Snapshot(Ref(kind, "team" if kind.namespaced else "", "login"), body), NOW)
    patches = [step.body["metadata"]["finalizers"] for step in plan.steps if isinstance(step, Patch)]
    events = [(step.type, step.reason, step.message) for step in plan.steps if isinstance(step, RecordEvent)]
    return (patches[0] if patches else None), events


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_the_finalizer_is_on_until_the_deletion(kind: Kind) -> None:
    name = kind.kind
    assert decided(kind, authentication(kind, "other")) == (
        ["other", "finalizer.keda.sh"],
        [("Normal", f"{name}Added", f"New {name} configured")],
    )
    assert decided(kind, authentication(kind, "finalizer.keda.sh")) == (None, [])
    going = {"deletionTimestamp": at(-1)}
    assert decided(kind, authentication(kind, "finalizer.keda.sh", "other", **going)) == (
        ["other"],
        [("Normal", f"{name}Deleted", f"{name} was deleted")],
    )
    assert decided(kind, authentication(kind, "other", **going)) == (None, [])
    assert decide(Snapshot(Ref(kind, "", "login"), None), NOW) is NOTHING


def test_a_deletion_while_it_is_used_is_a_warning() -> None:
    body = authentication(
        TRIGGER_AUTHENTICATION,
        "finalizer.keda.sh",
        status={"scaledjobs": "a,b", "scaledobjects": ""},
        deletionTimestamp=at(-1),
    )
    finalizers, ((type_, _, message),) = decided(TRIGGER_AUTHENTICATION, body)
    assert finalizers == []
    assert (type_, message) == ("Warning", "TriggerAuthentication was deleted while it is used by ScaledJobs a,b")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_the_store_does_not_keep_its_spec(kind: Kind) -> None:
    body = authentication(kind, annotations={LAST: '{"token": "hvs.secret"}'}, status={"scaledjobs": "a"})
    for change in (ObjectVersion(body), ObjectVersion.deleted(kind, body)):
        written = codec.arguments(kind, change, lambda _: True, adopted=False, refers_to=None)
        assert "hvs.secret" not in str(written)
    kept = orjson.loads(
        bytes(codec.arguments(kind, ObjectVersion(body), lambda _: True, adopted=False, refers_to=None)[-1])
    )
    assert kept["status"] == {"scaledjobs": "a"}
    assert "spec" not in kept
    other = codec.arguments(SCALED_JOB, ObjectVersion(body), lambda _: True, adopted=False, refers_to=None)
    assert "hvs.secret" in str(other), "of other kinds all is kept"


def test_both_kinds_have_a_controller() -> None:
    assert [controller.kind for controller in CONTROLLERS] == list(KINDS)
