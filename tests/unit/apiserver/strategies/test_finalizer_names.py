"""Finalizers without a domain's slash: KEDA's `finalizer.keda.sh` is one, and custom resources may carry it."""

from datetime import UTC, datetime

from deploy.local.apiserver.strategies import strategy
from tests.support.tables import cases
from workers.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, SCALED_JOB, Kind

SPEC = {
    "group": "keda.sh",
    "scope": "Namespaced",
    "names": {"plural": "scaledjobs", "kind": "ScaledJob", "listKind": "ScaledJobList", "singular": "scaledjob"},
    "versions": [
        {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    ],
}
CRD = {"metadata": {"name": "scaledjobs.keda.sh"}, "spec": SPEC}


@cases(
    ("a custom resource may", SCALED_JOB, CRD, []),
    ("a definition may", CUSTOM_RESOURCE_DEFINITION, None, []),
    ("a built-in kind may not", CONFIG_MAP, None, ["metadata.finalizers[0]"]),
)
def test_a_finalizer_without_a_slash(kind: Kind, crd: dict[str, object] | None, fields: list[str]) -> None:
    rules = strategy(kind, crd)
    body = {"metadata": {"name": "scaledjobs.keda.sh", "finalizers": ["finalizer.keda.sh"]}, "spec": SPEC}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    stored = rules.prepare_create(body, now)
    assert [error.field for error in rules.validate_create(stored)] == fields
    assert [error.field for error in rules.validate_update(rules.prepare_update(stored, stored), stored)] == fields
