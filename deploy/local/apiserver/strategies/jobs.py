"""Jobs: generated selectors, the rules of their spec, and what may change in it."""

import copy
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from deploy.local.apiserver.codec import field_errors, selectors
from deploy.local.apiserver.codec.field_errors import FieldError, judge
from deploy.local.apiserver.schema import defaults
from deploy.local.apiserver.strategies import job_status, metadata
from deploy.local.apiserver.strategies.base import Strategy
from deploy.local.apiserver.strategies.pod_specs import podspec
from workers.api import names
from workers.api.kinds import Object

_UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_INDEXED_ONLY = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
_NUMBERS = tuple(
    (field, field_errors.non_negative)
    for field in (
        *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
        *("backoffLimitPerIndex", "maxFailedIndexes"),
    )
)
_IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_MANY = 100_000


class JobStrategy(Strategy):
    """The strategy of batch/v1 Jobs."""

    generation, status, initial = True, True, {}

    def prepare_create(self, body: Object, now: datetime) -> Object:
        """Generates labels and a selector with the Job's uid and name, unless the author brings a selector."""
        result = super().prepare_create(body, now)
        if not result["spec"].get("manualSelector"):
            result = {**result, "spec": _selected(result["spec"], result["metadata"])}
        return defaults.labelled(result)

    def prepare_update(self, new: Object, old: Object) -> Object:
        return super().prepare_update(defaults.labelled(new), old)

    def validate_create(self, body: Object) -> list[FieldError]:
        own = body["metadata"]
        if own.get("labels") == _labels(body["spec"]):  # taken from the template, where they are judged
            own = {name: value for name, value in own.items() if name != "labels"}
        return [*metadata.validate(own, self.name_rule), *self.validate(body), *_name_fits_pods(body)]

    def validate(self, body: Object) -> list[FieldError]:
        own, job = body["spec"], body["metadata"]
        return [*spec(own, "spec"), *_generated(own, job), *_selector(own)]

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        return [*_completions(new["spec"], old["spec"]), *_frozen(new, old)]

    def validate_status(self, new: Object, old: Object) -> list[FieldError]:
        return job_status.validate(new, old)

    def warnings(self, body: Object, old: Object | None = None) -> list[str]:
        if old is not None:
            return spec_warnings(body["spec"], "spec") if changes_spec(body, old) else []
        return [*names.unusual(body["metadata"].get("name", "")), *spec_warnings(body["spec"], "spec")]


def changes_spec(body: Object, old: Object) -> bool:
    """True if the version `body` of an object declares something else than the version `old`."""
    return bool(body["metadata"].get("generation") != old["metadata"].get("generation"))


def spec_warnings(own: Object, path: str) -> list[str]:
    """Returns the warnings about an acceptable spec of a Job; also for the template of a CronJob."""
    many = (own.get("completions") or 0) > _MANY and (own.get("parallelism") or 0) > _MANY // 10
    if own.get("completionMode") != "Indexed" or not many:
        return []
    return [
        f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
        "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
    ]


def _selected(own: Object, job: Object) -> Object:
    body = own.get("template") or {}
    head = body.get("metadata") or {}
    labels = dict(head.get("labels") or {})
    for key in _UID_LABELS:
        labels.setdefault(key, job.get("uid", ""))
    for key in _NAME_LABELS:
        labels.setdefault(key, job.get("name", ""))
    selector = own.get("selector") or {}
    matched = {**(selector.get("matchLabels") or {}), _UID_LABELS[0]: job.get("uid", "")}
    return {
        **own,
        "selector": {**selector, "matchLabels": matched},
        "template": {**body, "metadata": {**head, "labels": labels}},
    }


def _labels(own: Object) -> Object:
    return ((own.get("template") or {}).get("metadata") or {}).get("labels") or {}


def _generated(own: Object, job: Object) -> Iterator[FieldError]:
    """The generated labels and the selector on them must be what the server makes them."""
    if own.get("manualSelector") or own.get("selector") is None:
        return
    labels = _labels(own)
    for keys, value in ((_UID_LABELS, job.get("uid", "")), (_NAME_LABELS, job.get("name", ""))):
        for key in keys:
            place = f"spec.template.metadata.labels[{key}]"
            if key not in labels:
                yield field_errors.required(place, f"must be '{value}'")
            elif labels[key] != value:
                yield field_errors.invalid(place, labels, f"must be '{value}'")
    expected = {"matchLabels": {_UID_LABELS[0]: job.get("uid", "")}}
    if own["selector"] != expected:
        yield field_errors.invalid("spec.selector", own["selector"], "`selector` not auto-generated")


def _selector(own: Object) -> Iterator[FieldError]:
    selector = own.get("selector")
    problems = [field_errors.required("spec.selector")] if selector is None else []
    problems += metadata.selector(selector or {}, "spec.selector")
    yield from problems
    if selector is None or (not problems and not selectors.selects(selector)(_labels(own))):
        yield field_errors.invalid(
            "spec.template.metadata.labels", _labels(own), "`selector` does not match template `labels`"
        )


def _name_fits_pods(body: Object) -> Iterator[FieldError]:
    """The host name of an Indexed Job's last pod must be a DNS label."""
    own = body["spec"]
    completions = own.get("completions")
    if own.get("completionMode") == "Indexed" and completions:
        name = body["metadata"].get("name", "")
        hostname = f"{name}-{completions - 1}"
        if names.dns_label(hostname):
            detail = f"will not able to create pod with invalid DNS label: {hostname}"
            yield field_errors.invalid("metadata.name", name, detail)


def spec(own: Object, path: str) -> list[FieldError]:
    """Returns the errors of a Job's spec, without those of its selector; also for the template of a CronJob."""
    errors = list(judge(own, path, _NUMBERS))
    errors += _indexed(own, path)
    if (manager := own.get("managedBy")) == "":
        errors.append(field_errors.required(f"{path}.managedBy"))
    elif manager:
        errors += field_errors.malformed(f"{path}.managedBy", manager, names.domain_path)
        if len(manager.encode()) > 63:
            errors.append(field_errors.too_long(f"{path}.managedBy", 63))
    errors += podspec.template(own.get("template") or {}, f"{path}.template")
    errors += _restart_policy(own, path)
    errors += _replacement(own, path)
    if (policy := own.get("podFailurePolicy")) is not None:
        errors += _failure_policy(policy, own, f"{path}.podFailurePolicy")
    if (policy := own.get("successPolicy")) is not None and own.get("completionMode") == "Indexed":
        errors += _success_policy(policy, own, f"{path}.successPolicy")
    return errors


def _restart_policy(own: Object, path: str) -> Iterator[FieldError]:
    place = f"{path}.template.spec.restartPolicy"
    policy = ((own.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy in (None, "", "Always"):
        yield field_errors.required(place, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield field_errors.not_supported(place, policy, ("OnFailure", "Never"))
    elif own.get("podFailurePolicy") is not None and policy != "Never":
        yield field_errors.invalid(place, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _indexed(own: Object, path: str) -> Iterator[FieldError]:
    completions, parallelism = own.get("completions"), own.get("parallelism") or 0
    mode = own.get("completionMode")
    if mode is None:
        mode = "NonIndexed"  # the template of a CronJob is not defaulted
    if mode not in ("NonIndexed", "Indexed"):
        yield field_errors.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if own.get("maxFailedIndexes") is not None and own.get("backoffLimitPerIndex") is None:
        yield field_errors.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if mode != "Indexed":
        for field in _INDEXED_ONLY:
            if (value := own.get(field)) is not None:
                yield field_errors.invalid(f"{path}.{field}", value, "requires indexed completion mode")
        return
    if completions is None:
        yield field_errors.required(f"{path}.completions", "when completion mode is Indexed")
    yield from _at_most(_MANY, f"{path}.parallelism", parallelism, " when completion mode is Indexed")
    yield from _failed_indexes(own, path, completions or 0, parallelism)


def _failed_indexes(own: Object, path: str, completions: int, parallelism: int) -> Iterator[FieldError]:
    limit = own.get("maxFailedIndexes")
    if limit is not None and limit > completions:
        yield field_errors.invalid(f"{path}.maxFailedIndexes", limit, "must be less than or equal to completions")
    yield from _at_most(_MANY, f"{path}.maxFailedIndexes", limit)
    if own.get("backoffLimitPerIndex") is not None and completions > _MANY:
        if limit is None:
            detail = f"must be specified when completions is above {_MANY}"
            yield field_errors.required(f"{path}.maxFailedIndexes", detail)
        when = f" when completions are above {_MANY} and used with backoff limit per index"
        yield from _at_most(_MANY // 10, f"{path}.maxFailedIndexes", limit, when)
        yield from _at_most(_MANY // 10, f"{path}.parallelism", parallelism, when)


def _at_most(limit: int, path: str, value: int | None, when: str = "") -> Iterator[FieldError]:
    """Refuses a number above a limit. when: what is added to the sentence."""
    if value is not None and value > limit:
        yield field_errors.invalid(path, value, f"must be less than or equal to {limit}{when}")


def _replacement(own: Object, path: str) -> Iterator[FieldError]:
    policy = own.get("podReplacementPolicy")
    allowed: tuple[str, ...] = ("Failed", "TerminatingOrFailed")
    if own.get("podFailurePolicy") is not None:
        allowed = allowed[:1]
    if policy is not None and policy not in allowed:
        yield field_errors.not_supported(f"{path}.podReplacementPolicy", policy, allowed)


def _chosen(path: str, value: str | None, allowed: Sequence[str]) -> Iterator[FieldError]:
    """Refuses a value that is not one of these; the error of an absent one lists them."""
    if not value:
        yield field_errors.required(path, f"valid values: {', '.join(map(field_errors.shown, allowed))}")
    elif value not in allowed:
        yield field_errors.not_supported(path, value, allowed)


def _failure_policy(policy: Object, own: Object, path: str) -> Iterator[FieldError]:
    rules = policy.get("rules") or ()
    if len(rules) > 20:
        yield field_errors.too_many(f"{path}.rules", len(rules), 20)
    pod = (own.get("template") or {}).get("spec") or {}
    containers = {c.get("name") for part in ("containers", "initContainers") for c in pod.get(part) or ()}
    for index, rule in enumerate(rules):
        yield from _failure_rule(rule, own, f"{path}.rules[{index}]", containers)


def _failure_rule(rule: Object, own: Object, path: str, containers: set[Any]) -> Iterator[FieldError]:
    actions = ("Count", "FailIndex", "FailJob", "Ignore")
    action = rule.get("action")
    yield from _chosen(f"{path}.action", action, actions)
    if action == "FailIndex" and own.get("backoffLimitPerIndex") is None:
        yield field_errors.invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if codes is not None and conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield field_errors.invalid(path, field_errors.OMITTED, detail)
    if codes is None and not conditions:
        yield field_errors.invalid(
            path, field_errors.OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"
        )
    if codes is not None:
        yield from _exit_codes(codes, f"{path}.onExitCodes", containers)
    if len(conditions) > 20:
        yield field_errors.too_many(f"{path}.onPodConditions", len(conditions), 20)
    for index, pattern in enumerate(conditions):
        yield from _condition_pattern(pattern, f"{path}.onPodConditions[{index}]")


def _exit_codes(codes: Object, path: str, containers: set[Any]) -> Iterator[FieldError]:
    operator, values = codes.get("operator"), codes.get("values") or []
    yield from _chosen(f"{path}.operator", operator, ("In", "NotIn"))
    if (name := codes.get("containerName")) is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield field_errors.invalid(f"{path}.containerName", name, detail)
    if not values:
        yield field_errors.invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > 255:
        # Not looked at one by one: a body may have a million of them.
        yield field_errors.too_many(f"{path}.values", len(values), 255)
        return
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield field_errors.invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield field_errors.duplicate(f"{path}.values[{index}]", value)
    if values != sorted(values):
        yield field_errors.invalid(f"{path}.values", values, "must be ordered")


def _condition_pattern(pattern: Object, path: str) -> Iterator[FieldError]:
    kind, status = pattern.get("type", ""), pattern.get("status")
    yield from field_errors.malformed(f"{path}.type", kind, names.qualified_name)
    yield from _chosen(f"{path}.status", status, ("False", "True", "Unknown"))


def _success_policy(policy: Object, own: Object, path: str) -> Iterator[FieldError]:
    rules: Sequence[Object] = policy.get("rules") or ()
    if not rules:
        yield field_errors.required(
            f"{path}.rules", "at least one rules must be specified when the successPolicy is specified"
        )
    if len(rules) > 20:
        yield field_errors.too_many(f"{path}.rules", len(rules), 20)
    completions = own.get("completions") or 0
    for index, rule in enumerate(rules):
        yield from _success_rule(rule, completions, f"{path}.rules[{index}]")


def _success_rule(rule: Object, completions: int, path: str) -> Iterator[FieldError]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        yield field_errors.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    size = None
    if indexes is not None:
        if len(indexes.encode()) > 64 * 1024:
            yield field_errors.too_long(f"{path}.succeededIndexes", 64 * 1024)
        try:
            size = job_status.index_count(indexes, completions)
        except ValueError as error:
            yield field_errors.invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    yield from field_errors.non_negative(f"{path}.succeededCount", count)
    place = f"{path}.succeededCount"
    yield from _at_most(completions, place, count, " (the number of specified completions)")
    if size is not None:
        yield from _at_most(size, place, count, " (the number of indexes in the specified succeededIndexes field)")


def _completions(new: Object, old: Object) -> Iterator[FieldError]:
    """Completions may change only for an Indexed Job, together with parallelism and to the same number.

    That such a Job needs completions at all has been said before.
    """
    value = new.get("completions")
    if new.get("completionMode") != "Indexed":
        yield from field_errors.immutable("spec.completions", value, old.get("completions"))
    elif value not in (None, old.get("completions"), new.get("parallelism")):
        yield field_errors.invalid("spec.completions", value, "can only be modified in tandem with spec.parallelism")


def _frozen(new: Object, old: Object) -> Iterator[FieldError]:
    yield from field_errors.immutables(new["spec"], old["spec"], "spec", _IMMUTABLE)
    wanted, stored = new["spec"]["template"], old["spec"]["template"]
    if _may_change_template(old):
        wanted, stored = _scheduling_aside(wanted), _scheduling_aside(stored)
    if wanted != stored:
        yield field_errors.invalid("spec.template", new["spec"]["template"], field_errors.IMMUTABLE)


def _may_change_template(job: Object) -> bool:
    """True for a suspended Job without pods: its scheduling constraints may still change."""
    status = job.get("status") or {}
    suspended = job_status.holds(status, "Suspended")
    return bool(job["spec"].get("suspend") and not status.get("active") and ("startTime" not in status or suspended))


def _scheduling_aside(body: Object) -> Object:
    """A pod template without what decides where its pods run."""
    result = copy.deepcopy(body)
    for field in ("labels", "annotations"):
        (result.get("metadata") or {}).pop(field, None)
    pod = result.get("spec") or {}
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        pod.pop(field, None)
    if affinity := pod.get("affinity"):
        affinity.pop("nodeAffinity", None)
        if not affinity:
            del pod["affinity"]
    for part in ("containers", "initContainers"):
        for container in pod.get(part) or ():
            container.pop("resources", None)
    return result
