"""KEDA's ScaledObject: invalid manifests, and targets or autoscaler names that are taken."""

from collections.abc import Iterator

from workers.admission.findings import Finding
from workers.admission.lookup import Lookup
from workers.api.keda import scaledobject
from workers.api.keda.scaledobject import ScaledObjectSpec
from workers.api.kinds import SCALED_OBJECT, Object
from workers.api.model import Problems
from workers.api.references import REFERENCES
from workers.errors import UserError
from workers.formula import scaling_modifiers as modifiers


def problems(body: Object, old: Object | None, lookup: Lookup) -> list[Finding]:
    """Returns the findings on a ScaledObject that is new or has another spec; one being deleted is not judged."""
    if old is not None and (old.get("spec") == body.get("spec") or body["metadata"].get("deletionTimestamp")):
        return []
    try:
        own = [*_formula(scaledobject.parse(body).spec)]
    except Problems as error:
        own = [Finding(problem.field, problem.message) for problem in error.found]
    return [*own, *_taken(body, lookup)]


def _formula(spec: ScaledObjectSpec) -> Iterator[Finding]:
    try:
        modifiers.read(spec)
    except UserError as error:
        yield Finding(modifiers.FORMULA_PATH, str(error).removeprefix(f"{modifiers.FORMULA_PATH}: "))


def _taken(body: Object, lookup: Lookup) -> Iterator[Finding]:
    metadata = body["metadata"]
    for other in lookup.every(SCALED_OBJECT):
        its = other["metadata"]
        if its.get("namespace") != metadata.get("namespace") or its["name"] == metadata["name"]:
            continue
        if _target(other) == _target(body):
            yield Finding("spec.scaleTargetRef", f"the target is scaled by ScaledObject {its['name']} already")
        if _autoscaler(other) == _autoscaler(body):
            path = "spec.advanced.horizontalPodAutoscalerConfig.name"
            yield Finding(path, f"{_autoscaler(body)} is the name of ScaledObject {its['name']}'s autoscaler")


def _target(body: Object) -> str | None:
    named = REFERENCES[SCALED_OBJECT.id](body)
    return named.key if named else None


def _autoscaler(body: Object) -> str:
    """Returns the name of its HorizontalPodAutoscaler, as KEDA derives it."""
    advanced = (body.get("spec") or {}).get("advanced") or {}
    name = (advanced.get("horizontalPodAutoscalerConfig") or {}).get("name")
    return name or f"keda-hpa-{body['metadata']['name']}"
