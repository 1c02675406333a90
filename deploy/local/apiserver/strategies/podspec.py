"""The rules of pod specs, in pods and in templates."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError, Rule, between, each, formatted, judge, named, one_of
from deploy.local.apiserver.strategies import metadata
from workers.api import names, quantities
from workers.api.kinds import Object
from workers.controllers.volcano import amounts, pod_requests

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELD_PATHS = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"}
    | {"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
)
_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['[^']+'\]")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
#: Resources of a container that a variable may show, and the divisors of each: as they are, and as they are listed.
_AMOUNTS = tuple(sorted(f"{part}.{name}" for part in ("limits", "requests") for name in _RESOURCES))
_BYTES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_UNITS = {"cpu": (("1m", "1"), "1m and 1"), "memory": (_BYTES, ", ".join(_BYTES))}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_port = between(1, 65535)


def template(body: Object, path: str) -> list[FieldError]:
    """Returns the errors of a pod template."""
    own = body.get("metadata") or {}
    return [
        *metadata.labels(own.get("labels") or {}, f"{path}.labels"),
        *metadata.annotations(own.get("annotations") or {}, f"{path}.annotations"),
        *spec(body.get("spec") or {}, f"{path}.spec"),
    ]


def spec(body: Object, path: str) -> list[FieldError]:
    """Returns the errors of a defaulted pod spec."""
    mountable, errors = _volumes(body.get("volumes") or (), f"{path}.volumes")
    errors += field_errors.present(f"{path}.containers", body.get("containers"))
    taken: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(body.get(field) or ()):
            errors += _container(container, f"{path}.{field}[{index}]", mountable, taken)
    return [*errors, *judge(body, path, _POD), *_of_whole_pod(body, f"{path}.resources")]


def _unique(name: str, seen: set[str], path: str) -> Iterator[FieldError]:
    """Refuses a name that is in `seen`, and adds it there."""
    if name in seen:
        yield field_errors.duplicate(path, name)
    seen.add(name)


def _container(body: Object, path: str, mountable: Collection[str], taken: set[str]) -> Iterator[FieldError]:
    name = body.get("name", "")
    yield from named(names.dns_label)(f"{path}.name", name)
    yield from _unique(name, taken, f"{path}.name")
    yield from field_errors.present(f"{path}.image", body.get("image"))
    yield from _ports(body.get("ports") or (), f"{path}.ports")
    yield from each(_env)(f"{path}.env", body.get("env"))
    for index, source in enumerate(body.get("envFrom") or ()):
        yield from _env_from(source, f"{path}.envFrom", index)
    yield from _mounts(body.get("volumeMounts") or (), f"{path}.volumeMounts", mountable)
    yield from judge(body, path, _CONTAINER)


def _ports(ports: Sequence[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        if name := port.get("name"):
            yield from formatted(names.port_name)(f"{place}.name", name)
            yield from _unique(name, seen, f"{place}.name")
        yield from field_errors.present(f"{place}.containerPort", port.get("containerPort"))
        yield from _port(f"{place}.containerPort", port.get("containerPort") or None)
        yield from _port(f"{place}.hostPort", port.get("hostPort") or None)
        yield from one_of("SCTP", "TCP", "UDP")(f"{place}.protocol", port.get("protocol"))


def _env(path: str, item: Object) -> Iterator[FieldError]:
    yield from named(names.env_name)(f"{path}.name", item.get("name", ""))
    source, place = item.get("valueFrom"), f"{path}.valueFrom"
    if source is None:
        return
    given = [field for field in _ENV_SOURCES if field in source]
    if not given:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield field_errors.invalid(place, "", detail)
    elif item.get("value"):
        yield field_errors.invalid(place, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield field_errors.invalid(place, "", "may not have more than one field specified at a time")
    if "fieldRef" in source:
        yield from _field_path(source["fieldRef"].get("fieldPath", ""), f"{place}.fieldRef.fieldPath")
    if "resourceFieldRef" in source:
        yield from _resource_field(source["resourceFieldRef"], f"{place}.resourceFieldRef")
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            name = source[field].get("name", "")
            yield from field_errors.malformed(f"{place}.{field}.name", name, names.dns_subdomain)
            yield from named(names.config_key)(f"{place}.{field}.key", source[field].get("key"))


def _resource_field(body: Object, path: str) -> Iterator[FieldError]:
    """A container's own request or limit, in units that make sense for it."""
    resource, divisor = body.get("resource", ""), str(body.get("divisor", "0"))
    if not resource:
        yield field_errors.required(f"{path}.resource")
        return
    if resource not in _AMOUNTS and not resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        yield field_errors.not_supported(f"{path}.resource", resource, _AMOUNTS)
        return
    kind = "cpu" if resource.endswith(".cpu") else "memory"
    units, listed = _UNITS[kind]
    if divisor not in ("0", *units):
        name = kind if kind == "cpu" else resource.partition(".")[2]
        detail = f"only divisor's values {listed} are supported with the {name} resource"
        yield field_errors.invalid(f"{path}.divisor", resource, detail)


def _field_path(text: str, path: str) -> Iterator[FieldError]:
    if not text:
        yield field_errors.required(path)
    elif text not in _FIELD_PATHS and not _KEYED_FIELD.fullmatch(text):
        yield field_errors.invalid(path, text, f"error converting fieldPath: field label not supported: {text}")


def _env_from(source: Object, path: str, index: int) -> Iterator[FieldError]:
    yield from formatted(names.env_name)(f"{path}[{index}].prefix", source.get("prefix"))
    given = [field for field in ("configMapRef", "secretRef") if field in source]
    if not given:
        yield field_errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
    elif len(given) > 1:
        yield field_errors.invalid(path, "", "may not have more than one field specified at a time")
    for field in given:
        place = f"{path}[{index}].{field}.name"
        if not (name := source[field].get("name")):
            yield field_errors.required(place)
        else:
            problems = names.dns_subdomain(name[:-1] + name[-1].replace("-", "a"))  # it may be a beginning only
            yield from (field_errors.invalid(place, name, problem) for problem in problems)


def _mounts(mounts: Sequence[Object], path: str, mountable: Collection[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        place, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        yield from field_errors.present(f"{place}.name", name)
        if name not in mountable:
            yield field_errors.not_found(f"{place}.name", name)
        yield from field_errors.present(f"{place}.mountPath", target)
        if target and target in seen:
            yield field_errors.invalid(f"{place}.mountPath", target, "must be unique")
        seen.add(target)


def _probe(successes: int | None, path: str, probe: Object | None) -> Iterator[FieldError]:
    """A probe. successes: the one success threshold that is allowed, None for any."""
    if probe:
        yield from _handler(("exec", "httpGet", "tcpSocket", "grpc"), path, probe)
        yield from judge(probe, path, _PROBE)
    if successes and (value := (probe or {}).get("successThreshold", successes)) != successes:
        yield field_errors.invalid(f"{path}.successThreshold", value, f"must be {successes}")


def _hooks(path: str, hooks: Object | None) -> Iterator[FieldError]:
    for hook, handler in (hooks or {}).items():
        if isinstance(handler, dict):
            yield from _handler(("exec", "httpGet", "tcpSocket", "sleep"), f"{path}.{hook}", handler)


def _handler(kinds: Sequence[str], path: str, body: Object) -> Iterator[FieldError]:
    """The action of a probe or a hook: exactly one of these kinds."""
    given = [field for field in kinds if field in body]
    if not given:
        yield field_errors.required(path, "must specify a handler type")
    for extra in given[1:]:
        yield field_errors.forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    if "exec" in body:
        yield from field_errors.present(f"{path}.exec.command", body["exec"].get("command"))
    for field in ("httpGet", "tcpSocket"):
        if field in body:
            place, port = f"{path}.{field}.port", body[field].get("port", 0)
            if isinstance(port, str):
                yield from field_errors.malformed(place, port, names.port_name)
            else:
                yield from _port(place, port)


def _message_policy(path: str, policy: str | None) -> Iterator[FieldError]:
    if policy not in ("File", "FallbackToLogsOnError"):
        yield field_errors.invalid(path, policy or "", "must be 'File' or 'FallbackToLogsOnError'")


def _resource_name(name: str, path: str) -> Iterator[FieldError]:
    problems = names.qualified_name(name)
    yield from (field_errors.invalid(path, name, problem) for problem in problems)
    if problems or name in _RESOURCES or name.startswith("hugepages-") or "/" in name:
        return
    yield field_errors.invalid(path, name, "must be a standard resource type or fully qualified")
    yield field_errors.invalid(path, name, "must be a standard resource for containers")


def _pod_resource_name(name: str, path: str) -> Iterator[FieldError]:
    problems = names.qualified_name(name)
    yield from (field_errors.invalid(path, name, problem) for problem in problems)
    if problems or pod_requests.is_of_pods(name):
        return
    if name in _RESOURCES or "/" in name:
        yield field_errors.not_supported(path, name, ("cpu", "hugepages-", "memory"))
    else:
        yield field_errors.invalid(path, name, "must be a standard resource type or fully qualified")


def _of_whole_pod(spec: Object, path: str) -> Iterator[FieldError]:
    """The resources of a pod as a whole cover those of its containers."""
    if not (resources := spec.get("resources")):
        return
    if resources.get("claims"):
        yield field_errors.forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    problems = [*_resources(path, resources, _pod_resource_name)]
    yield from problems
    if problems:
        return
    requests, limits = (amounts.parse(resources.get(part)) for part in ("requests", "limits"))
    for name, whole in sorted(pod_requests.of_containers(spec).items()):
        if name in requests and whole.value > requests[name].value:
            detail = f"must be greater than or equal to aggregate container requests of {whole}"
            yield field_errors.invalid(f"{path}.requests[{name}]", str(requests[name]), detail)
    for index, container in enumerate(spec.get("containers") or ()):
        own = amounts.parse((container.get("resources") or {}).get("limits"))
        for name, limit in sorted(own.items()):
            if name in limits and limit.value > limits[name].value:
                # The path is Kubernetes' own: it begins at the resources of the pod.
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                yield field_errors.invalid(f"{path}.containers[{index}][{name}].limits", str(limit), detail)


def _resources(
    path: str, resources: Object | None, check_name: Callable[[str, str], Iterable[FieldError]] = _resource_name
) -> Iterator[FieldError]:
    limits, requests = ((resources or {}).get(part) or {} for part in ("limits", "requests"))
    for part, listed in (("limits", limits), ("requests", requests)):
        for name, amount in listed.items():
            place = f"{path}.{part}[{name}]"
            yield from check_name(name, place)
            if quantities.parse(amount) < 0:
                yield field_errors.invalid(place, amount, field_errors.NON_NEGATIVE)
    for name, amount in requests.items():
        if name in limits and quantities.parse(amount) > quantities.parse(limits[name]):
            yield field_errors.invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit")


def _toleration(path: str, item: Object) -> Iterator[FieldError]:
    key, operator, effect, value = (item.get(field, "") for field in ("key", "operator", "effect", "value"))
    if key:
        yield from formatted(names.qualified_name)(f"{path}.key", key)
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield field_errors.invalid(f"{path}.operator", operator, detail)
    if item.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield field_errors.invalid(f"{path}.effect", effect, detail)
    if operator in ("", "Equal"):
        yield from formatted(names.label_value)(f"{path}.operator", value)
    elif operator != "Exists":
        yield field_errors.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    elif value:
        yield field_errors.invalid(f"{path}.operator", item, "value must be empty when `operator` is 'Exists'")
    if effect and effect not in _EFFECTS:
        yield field_errors.not_supported(f"{path}.effect", effect, _EFFECTS)


def _affinity(path: str, body: Object | None) -> Iterator[FieldError]:
    """Affinity to nodes; affinity to other pods is stored unread."""
    nodes = (body or {}).get("nodeAffinity") or {}
    required = nodes.get(_REQUIRED)
    if required is not None:
        place, terms = f"{path}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms", required.get("nodeSelectorTerms")
        if not terms:
            yield field_errors.required(place, "must have at least one node selector term")
        yield from each(_node_term)(place, terms)
    for index, wish in enumerate(nodes.get(_PREFERRED) or ()):
        place = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
        if not 1 <= (weight := wish.get("weight", 0)) <= 100:
            yield field_errors.invalid(f"{place}.weight", weight, "must be in the range 1-100")
        yield from _node_term(f"{place}.preference", wish.get("preference") or {})


def _node_term(path: str, term: Object) -> Iterator[FieldError]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        yield from metadata.requirement(expression, f"{path}.matchExpressions[{index}]", numbers=True)


def _gates(path: str, items: Sequence[Object] | None) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, gate in enumerate(items or ()):
        place, name = f"{path}[{index}]", gate.get("name", "")
        yield from field_errors.malformed(place, name, names.qualified_name)
        yield from _unique(name, seen, place)


def _volumes(volumes: Sequence[Object], path: str) -> tuple[set[str], list[FieldError]]:
    """Returns the names of the volumes that can be mounted, and the errors of the others."""
    mountable: set[str] = set()
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        found = [*_volume(volume, f"{path}[{index}]", mountable)]
        if not found:
            mountable.add(volume.get("name", ""))
        errors += found
    return mountable, errors


def _volume(volume: Object, path: str, known: set[str]) -> Iterator[FieldError]:
    sources, name = [field for field in volume if field != "name"], volume.get("name", "")
    if len(sources) > 1:
        yield field_errors.forbidden(f"{path}.{sources[1]}", "may not specify more than 1 volume type")
    yield from named(names.dns_label)(f"{path}.name", name)
    if name in known:
        yield field_errors.duplicate(f"{path}.name", name)
    for source, field in _VOLUME_FIELDS:
        if source in volume:
            yield from field_errors.present(f"{path}.{source}.{field}", volume[source].get(field))
    for source in ("secret", "configMap"):
        yield from each(_volume_item)(f"{path}.{source}.items", (volume.get(source) or {}).get("items"))


def _volume_item(path: str, item: Object) -> Iterator[FieldError]:
    place, target = f"{path}.path", item.get("path", "")
    yield from judge(item, path, (("key", field_errors.present), ("path", field_errors.present)))
    if target.startswith("/"):
        yield field_errors.invalid(place, target, "must be a relative path")
    elif ".." in target.split("/"):
        yield field_errors.invalid(place, target, "must not contain '..'")
    elif target.startswith(".."):
        yield field_errors.invalid(place, target, "must not start with '..'")


#: The field that each kind of volume must name its source by.
_VOLUME_FIELDS = (
    *(("hostPath", "path"), ("secret", "secretName"), ("configMap", "name")),
    ("persistentVolumeClaim", "claimName"),
)
_PROBE: tuple[tuple[str, Rule], ...] = tuple(
    (field, field_errors.non_negative)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
)
_CONTAINER: tuple[tuple[str, Rule], ...] = (
    ("livenessProbe", partial(_probe, 1)),
    ("readinessProbe", partial(_probe, None)),
    ("startupProbe", partial(_probe, 1)),
    ("lifecycle", _hooks),
    ("terminationMessagePolicy", _message_policy),
    ("imagePullPolicy", one_of("Always", "IfNotPresent", "Never")),
    ("resources", _resources),
)
_POD: tuple[tuple[str, Rule], ...] = (
    ("restartPolicy", one_of(*RESTART_POLICIES)),
    ("dnsPolicy", one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")),
    ("nodeSelector", lambda path, value: metadata.labels(value or {}, path)),
    ("serviceAccountName", formatted(names.dns_subdomain)),
    ("nodeName", formatted(names.dns_subdomain)),
    ("hostname", formatted(names.dns_label)),
    ("subdomain", formatted(names.dns_label)),
    ("priorityClassName", formatted(names.dns_subdomain)),
    ("tolerations", each(_toleration)),
    ("affinity", _affinity),
    ("schedulingGates", _gates),
    ("activeDeadlineSeconds", between(1, 2**31 - 1)),
)
