"""Deployments, ReplicaSets and StatefulSets (and their revisions): owners of pods that are told apart by a selector."""

from collections.abc import Iterator

from deploy.local.apiserver import fields, selectors
from deploy.local.apiserver.fields import FieldError
from deploy.local.apiserver.strategies import metadata, podspec
from deploy.local.apiserver.strategies.base import Strategy
from workers.api.kinds import Kind, Object

_STATEFUL_CHANGES = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_FIXED = ("serviceName", "podManagementPolicy", "volumeClaimTemplates", "selector")


class WorkloadStrategy(Strategy):
    """The strategy of the kinds of apps/v1 that keep a number of pods running."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(generation=True, status=True, initial={} if kind.kind == "Deployment" else {"replicas": 0})
        self.kind = kind

    def validate(self, body: Object) -> list[FieldError]:
        own = body["spec"]
        template = own.get("template") or {}
        errors = fields.non_negative("spec.replicas", own.get("replicas"))
        errors += fields.non_negative("spec.minReadySeconds", own.get("minReadySeconds"))
        errors += fields.non_negative("spec.revisionHistoryLimit", own.get("revisionHistoryLimit"))
        errors += _selector(own.get("selector"), (template.get("metadata") or {}).get("labels") or {})
        errors += podspec.template(template, "spec.template")
        policy = (template.get("spec") or {}).get("restartPolicy")
        if policy and policy != "Always" and policy in podspec.RESTART_POLICIES:
            errors.append(fields.not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
        if self.kind.kind == "Deployment":
            errors += _strategy(own)
        return errors

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        if self.kind.kind == "StatefulSet":
            changed = any(new["spec"].get(field) != old["spec"].get(field) for field in _STATEFUL_FIXED)
            return [fields.forbidden("spec", _STATEFUL_CHANGES)] if changed else []
        return fields.immutable("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))


class RevisionStrategy(Strategy):
    """ControllerRevisions: what a controller remembers of earlier versions of its object."""

    def validate(self, body: Object) -> list[FieldError]:
        return fields.non_negative("revision", body.get("revision"))

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        return fields.immutable("data", new.get("data"), old.get("data"))


def _selector(selector: Object | None, labels: Object) -> Iterator[FieldError]:
    if selector is None:
        yield fields.required("spec.selector")
        return
    if not selector:
        yield fields.invalid("spec.selector", {}, "empty selector is invalid for deployment")
        return
    problems = list(metadata.selector(selector, "spec.selector"))
    yield from problems
    if not problems and not selectors.selects(selector)(labels):
        yield fields.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _strategy(own: Object) -> Iterator[FieldError]:
    kind = own["strategy"].get("type")
    if kind not in ("Recreate", "RollingUpdate"):
        yield fields.not_supported("spec.strategy", own["strategy"], ("Recreate", "RollingUpdate"))
    elif kind == "Recreate" and own["strategy"].get("rollingUpdate") is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield fields.forbidden("spec.strategy.rollingUpdate", detail)
