"""Strategies of Deployments, ReplicaSets, StatefulSets and ControllerRevisions."""

import re
from collections.abc import Iterator

from deploy.local.apiserver.codec import field_errors, selectors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies import metadata
from deploy.local.apiserver.strategies.base import Strategy
from deploy.local.apiserver.strategies.pod_specs import podspec
from workers.api.kinds import Kind, Object

_STATEFUL_CHANGES = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
# No more digits than a number is read from.
_PERCENT = re.compile(r"[0-9]{1,18}%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or  '93%', "
    "regex used for validation is '[0-9]+%')"
)
_NUMBERS = tuple(
    (field, field_errors.non_negative) for field in ("replicas", "minReadySeconds", "revisionHistoryLimit")
)
_RETENTION = tuple((field, field_errors.one_of("Delete", "Retain")) for field in ("whenDeleted", "whenScaled"))
_STATEFUL_FIXED = ("serviceName", "podManagementPolicy", "volumeClaimTemplates", "selector")


class WorkloadStrategy(Strategy):
    """The strategy of the kinds of apps/v1 that keep a number of pods running."""

    generation, status = True, True

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.initial = {} if kind.kind == "Deployment" else {"replicas": 0}

    def declared(self, body: Object) -> Object:
        found = super().declared(body)
        # Kubernetes counts the changes of a Deployment's annotations, too, unless they come with the status.
        return (
            {**found, "annotations": body["metadata"].get("annotations")} if self.kind.kind == "Deployment" else found
        )

    def validate(self, body: Object) -> list[FieldError]:
        own = body["spec"]
        template = own.get("template") or {}
        errors = list(field_errors.judge(own, "spec", _NUMBERS))
        errors += _selector(own.get("selector"), (template.get("metadata") or {}).get("labels") or {})
        errors += podspec.template(_with_claims(template, own), "spec.template")
        policy = (template.get("spec") or {}).get("restartPolicy")
        if policy and policy != "Always" and policy in podspec.RESTART_POLICIES:
            errors.append(field_errors.not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
        if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None:
            kind = "StatefulSet" if self.kind.kind == "StatefulSet" else "ReplicaSet"
            detail = f"activeDeadlineSeconds in {kind} is not Supported"
            errors.append(field_errors.forbidden("spec.template.spec.activeDeadlineSeconds", detail))
        if self.kind.kind == "Deployment":
            errors += [*_strategy(own), *_deadline(own)]
        if self.kind.kind == "StatefulSet":
            errors += _order(own)
            policy = own["persistentVolumeClaimRetentionPolicy"]
            errors += field_errors.judge(policy, "spec.persistentVolumeClaimRetentionPolicy", _RETENTION)
        return errors

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        if self.kind.kind == "StatefulSet":
            changed = any(new["spec"].get(field) != old["spec"].get(field) for field in _STATEFUL_FIXED)
            return [field_errors.forbidden("spec", _STATEFUL_CHANGES)] if changed else []
        return field_errors.immutable("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))


class RevisionStrategy(Strategy):
    """ControllerRevisions: what a controller remembers of earlier versions of its object."""

    def validate(self, body: Object) -> list[FieldError]:
        return field_errors.non_negative("revision", body.get("revision"))

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        return field_errors.immutable("data", new.get("data"), old.get("data"))


def _with_claims(template: Object, own: Object) -> Object:
    """Returns the template with a volume for every volumeClaimTemplate: the controller puts them into the pods."""
    body = template.get("spec") or {}
    known = {volume.get("name") for volume in body.get("volumes") or ()}
    claims = [(each.get("metadata") or {}).get("name", "") for each in own.get("volumeClaimTemplates") or ()]
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims if name not in known]
    return {**template, "spec": {**body, "volumes": [*(body.get("volumes") or ()), *added]}} if added else template


def _selector(selector: Object | None, labels: Object) -> Iterator[FieldError]:
    if selector is None:
        yield field_errors.required("spec.selector")
        return
    if not selector:
        yield field_errors.invalid("spec.selector", {}, "empty selector is invalid for deployment")
        return
    problems = list(metadata.selector(selector, "spec.selector"))
    yield from problems
    if not problems and not selectors.selects(selector)(labels):
        yield field_errors.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )


def _order(own: Object) -> Iterator[FieldError]:
    """The order in which a StatefulSet makes its pods, and that in which it replaces them."""
    order, update, path = own.get("podManagementPolicy"), own["updateStrategy"], "spec.updateStrategy"
    if order not in ("OrderedReady", "Parallel"):
        yield field_errors.invalid("spec.podManagementPolicy", order, "must be 'OrderedReady' or 'Parallel'")
    rolling = update.get("rollingUpdate")
    match update.get("type"):
        case "RollingUpdate":
            yield from field_errors.non_negative(f"{path}.rollingUpdate.partition", (rolling or {}).get("partition"))
        case "OnDelete":
            if rolling is not None:
                only = "only allowed for updateStrategy 'RollingUpdate'"
                yield field_errors.invalid(f"{path}.rollingUpdate", rolling, only)
        case _:
            yield field_errors.invalid(path, update, "must be 'RollingUpdate' or 'OnDelete'")


def _strategy(own: Object) -> Iterator[FieldError]:
    kind = own["strategy"].get("type")
    if kind not in ("Recreate", "RollingUpdate"):
        yield field_errors.not_supported("spec.strategy", own["strategy"], ("Recreate", "RollingUpdate"))
    elif kind == "Recreate" and own["strategy"].get("rollingUpdate") is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield field_errors.forbidden("spec.strategy.rollingUpdate", detail)
    elif kind == "RollingUpdate":
        yield from _limits(own["strategy"].get("rollingUpdate") or {}, "spec.strategy.rollingUpdate")


def _limits(own: Object, path: str) -> Iterator[FieldError]:
    """The limits of a rolling update: maxUnavailable and maxSurge."""
    found = [*_amount(own.get("maxUnavailable"), f"{path}.maxUnavailable")]
    found += _amount(own.get("maxSurge"), f"{path}.maxSurge")
    yield from found
    if found:
        return
    if all(_number(own.get(field)) == 0 for field in ("maxUnavailable", "maxSurge")):
        unavailable = own.get("maxUnavailable")
        yield field_errors.invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    if isinstance(own.get("maxUnavailable"), str) and _number(own["maxUnavailable"]) > 100:
        yield field_errors.invalid(f"{path}.maxUnavailable", own["maxUnavailable"], "must not be greater than 100%")


def _amount(value: int | str | None, path: str) -> Iterator[FieldError]:
    if isinstance(value, str) and not _PERCENT.fullmatch(value):
        yield field_errors.invalid(path, value, _PERCENT_RULE)
    elif isinstance(value, int):
        yield from field_errors.non_negative(path, value)


def _number(value: int | str | None) -> int:
    return int(str(value or 0).removesuffix("%"))


def _deadline(own: Object) -> Iterator[FieldError]:
    path, seconds = "spec.progressDeadlineSeconds", own.get("progressDeadlineSeconds")
    if seconds is None:
        return
    yield from field_errors.non_negative(path, seconds)
    if seconds <= (own.get("minReadySeconds") or 0):
        yield field_errors.invalid(path, seconds, "must be greater than minReadySeconds")
