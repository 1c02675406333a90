"""The rules of pod specs, in pods and in templates."""

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError, Rule, between, each, formatted, judge, named, one_of
from deploy.local.apiserver.strategies import metadata
from deploy.local.apiserver.strategies.pod_specs import pod_fields, pod_placement, pod_security, pod_volumes
from workers.api import names, quantities
from workers.api.kinds import Object
from workers.controllers.volcano import amounts, pod_requests

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_SCHEMES = ("HTTP", "HTTPS")
_HEADER = re.compile("[-A-Za-z0-9]+")
_MOST_RULES = 20
_HUGE = "hugepages-"
_PREEMPTIONS = ("PreemptLowerPriority", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
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
    mountable, errors = pod_volumes.volumes(body.get("volumes") or (), f"{path}.volumes")
    errors += field_errors.present(f"{path}.containers", body.get("containers"))
    taken: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(body.get(field) or ()):
            place, waited_for = (
                f"{path}.{field}[{index}]",
                field == "initContainers" and container.get("restartPolicy") != "Always",
            )
            errors += _container(container, place, mountable, taken)
            errors += _short(container, place) if waited_for else _long(container, place, _grace(body))
    return [
        *errors,
        *_host_ports(body, f"{path}.containers"),
        *judge(body, path, _POD),
        *_dns(body, f"{path}.dnsConfig"),
        *pod_security.of_pod(body, f"{path}.securityContext"),
        *_of_whole_pod(body, f"{path}.resources"),
    ]


def _unique(name: str, seen: set[str], path: str) -> Iterator[FieldError]:
    """Refuses a name that is in `seen`, and adds it there."""
    if name in seen:
        yield field_errors.duplicate(path, name)
    seen.add(name)


def _container(body: Object, path: str, mountable: Mapping[str, Object], taken: set[str]) -> Iterator[FieldError]:
    name = body.get("name", "")
    yield from named(names.dns_label)(f"{path}.name", name)
    yield from _unique(name, taken, f"{path}.name")
    yield from field_errors.present(f"{path}.image", body.get("image"))
    yield from _ports(body.get("ports") or (), f"{path}.ports")
    yield from each(_env)(f"{path}.env", body.get("env"))
    for index, source in enumerate(body.get("envFrom") or ()):
        yield from _env_from(source, f"{path}.envFrom", index)
    yield from pod_volumes.mounts(body.get("volumeMounts") or (), f"{path}.volumeMounts", mountable)
    yield from pod_volumes.devices(body.get("volumeDevices") or (), f"{path}.volumeDevices", mountable)
    yield from _restarts(body, path)
    yield from judge(body, path, _CONTAINER)


def _short(body: Object, path: str) -> Iterator[FieldError]:
    """Init containers that end before the next begins have no probes and no hooks."""
    for field in ("lifecycle", *_PROBES):
        if body.get(field) is not None:
            yield field_errors.forbidden(
                f"{path}.{field}", "may not be set for init containers without restartPolicy=Always"
            )


def _long(body: Object, path: str, grace: int | None) -> Iterator[FieldError]:
    """A container that others rely on while it runs. grace: the pod's, in seconds."""
    yield from _hooks(f"{path}.lifecycle", body.get("lifecycle"), grace)
    yield from judge(body, path, _PROBES.items())


def _grace(spec: Object) -> int | None:
    """Returns the grace period, None for one that is wrong itself."""
    grace: int | None = spec.get("terminationGracePeriodSeconds")
    return grace if grace is not None and grace >= 0 else None


def _restarts(body: Object, path: str) -> Iterator[FieldError]:
    """A container's own policy, and its rules for single exit codes."""
    policy, rules = body.get("restartPolicy"), body.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            yield field_errors.required(
                f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"
            )
        return
    if policy not in RESTART_POLICIES:
        yield field_errors.not_supported(f"{path}.restartPolicy", policy, sorted(RESTART_POLICIES))
    if len(rules) > _MOST_RULES:
        yield field_errors.too_many(f"{path}.restartPolicyRules", len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        place, codes = f"{path}.restartPolicyRules[{index}]", rule.get("exitCodes")
        if (action := rule.get("action", "")) != "Restart":
            yield field_errors.not_supported(f"{place}.action", action, ("Restart",))
        if codes is None:
            yield field_errors.required(f"{place}.exitCodes", "must be specified")
        elif (operator := codes.get("operator", "")) not in ("In", "NotIn"):
            yield field_errors.not_supported(f"{place}.exitCodes.operator", operator, ("In", "NotIn"))


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


def _host_ports(spec: Object, path: str) -> Iterator[FieldError]:
    """Each port of the node goes to one container; on the network of the node it is the container's own."""
    seen: set[str] = set()
    for number, container in enumerate(spec.get("containers") or ()):
        for index, port in enumerate(container.get("ports") or ()):
            place, shared = f"{path}[{number}].ports[{index}]", port.get("hostPort") or 0
            if spec.get("hostNetwork") and shared != (own := port.get("containerPort", 0)):
                detail = "must match `hostPort` when `hostNetwork` is true"
                yield field_errors.invalid(f"{place}.containerPort", own, detail)
            if shared:
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{shared}"
                yield from _unique(key, seen, f"{place}.hostPort")


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
        yield from pod_fields.field(f"{place}.fieldRef", source["fieldRef"], pod_fields.OF_VARIABLES)
    if "resourceFieldRef" in source:
        yield from pod_fields.amount(f"{place}.resourceFieldRef", source["resourceFieldRef"])
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            name = source[field].get("name", "")
            yield from field_errors.malformed(f"{place}.{field}.name", name, names.dns_subdomain)
            yield from named(names.config_key)(f"{place}.{field}.key", source[field].get("key"))


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


def _probe(successes: int | None, path: str, probe: Object | None) -> Iterator[FieldError]:
    """A probe. successes: the one success threshold of a probe that may end its container, None for another one."""
    if not probe:
        return
    yield from _handler(("exec", "httpGet", "tcpSocket", "grpc"), path, probe)
    yield from judge(probe, path, _PROBE)
    grace, place = probe.get("terminationGracePeriodSeconds"), f"{path}.terminationGracePeriodSeconds"
    if grace is not None and grace <= 0:
        yield field_errors.invalid(place, grace, "must be greater than 0")
    if successes is None and grace is not None:
        yield field_errors.invalid(place, grace, "must not be set for readinessProbes")
    if successes and (value := probe.get("successThreshold", successes)) != successes:
        yield field_errors.invalid(f"{path}.successThreshold", value, f"must be {successes}")


def _hooks(path: str, hooks: Object | None, grace: int | None) -> Iterator[FieldError]:
    for hook, handler in (hooks or {}).items():
        if isinstance(handler, dict):
            yield from _handler(("exec", "httpGet", "tcpSocket", "sleep"), f"{path}.{hook}", handler)
            seconds = (handler.get("sleep") or {}).get("seconds", 0)
            if grace is not None and not 0 <= seconds <= grace:
                detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                yield field_errors.invalid(f"{path}.{hook}.sleep", seconds, detail)


def _handler(kinds: Sequence[str], path: str, body: Object) -> Iterator[FieldError]:
    """The action of a probe or a hook: exactly one of these kinds."""
    given = [field for field in kinds if field in body]
    if not given:
        yield field_errors.required(path, "must specify a handler type")
    for extra in given[1:]:
        yield field_errors.forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    if "exec" in body:
        yield from field_errors.present(f"{path}.exec.command", body["exec"].get("command"))
    for field in ("httpGet", "tcpSocket", "grpc"):
        if field in body:
            place, port = f"{path}.{field}.port", body[field].get("port", 0)
            if isinstance(port, str):
                yield from field_errors.malformed(place, port, names.port_name)
            else:
                yield from _port(place, port)
    if "httpGet" in body:
        scheme = body["httpGet"].get("scheme", "")
        if scheme not in _SCHEMES:
            yield field_errors.not_supported(f"{path}.httpGet.scheme", scheme, _SCHEMES)
        for header in body["httpGet"].get("httpHeaders") or ():
            if not _HEADER.fullmatch(name := header.get("name", "")):
                detail = (
                    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
                    f"regex used for validation is '{_HEADER.pattern}')"
                )
                yield field_errors.invalid(f"{path}.httpGet.httpHeaders", name, detail)


def _message_policy(path: str, policy: str | None) -> Iterator[FieldError]:
    if policy not in ("File", "FallbackToLogsOnError"):
        yield field_errors.invalid(path, policy or "", "must be 'File' or 'FallbackToLogsOnError'")


def _resource_name(name: str, path: str) -> Iterator[FieldError]:
    problems = names.qualified_name(name)
    yield from (field_errors.invalid(path, name, problem) for problem in problems)
    if problems or name in _RESOURCES or name.startswith(_HUGE) or "/" in name:
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
            if _is_extended(name) and quantities.parse(amount) % quantities.ONE:
                yield field_errors.invalid(place, amount, "must be an integer")
    for name, amount in requests.items():
        shared = not _is_extended(name) and not name.startswith(_HUGE)
        if name not in limits:
            if not shared:
                yield field_errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif not shared and quantities.parse(amount) != quantities.parse(limits[name]):
            detail = f"must be equal to {name} limit of {limits[name]}"
            yield field_errors.invalid(f"{path}.requests", amount, detail)
        elif quantities.parse(amount) > quantities.parse(limits[name]):
            yield field_errors.invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit")
    asked = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in asked) and asked.isdisjoint(("cpu", "memory")):
        yield field_errors.forbidden(path, "HugePages require cpu or memory")


def _is_extended(name: str) -> bool:
    """True for the name of a resource that only whole pieces are given of, such as a card."""
    return "/" in name and "kubernetes.io/" not in name


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


def _dns(spec: Object, path: str) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or ()
    if spec.get("dnsPolicy") == "None" and config is None:
        yield field_errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
    elif spec.get("dnsPolicy") == "None" and not servers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield field_errors.required(f"{path}.nameservers", detail)
    yield from each(_address)(f"{path}.nameservers", servers)


def _address(path: str, text: str) -> Iterator[FieldError]:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield field_errors.invalid(path, text, detail)


def _aliases(path: str, items: Sequence[Object] | None) -> Iterator[FieldError]:
    """Names of other hosts. The paths are Kubernetes' own: they do not say which host."""
    for item in items or ():
        yield from _address(f"{path}.ip", item.get("ip", ""))
        for name in item.get("hostnames") or ():
            yield from field_errors.malformed(f"{path}.hostnames", name, names.dns_subdomain)


def _readiness_gate(path: str, gate: Object) -> Iterator[FieldError]:
    yield from field_errors.malformed(f"{path}.conditionType", gate.get("conditionType", ""), names.qualified_name)


def _preemption(path: str, policy: str | None) -> Iterator[FieldError]:
    if policy is not None and policy not in _PREEMPTIONS:
        yield field_errors.not_supported(path, policy, _PREEMPTIONS)


def _gates(path: str, items: Sequence[Object] | None) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, gate in enumerate(items or ()):
        place, name = f"{path}[{index}]", gate.get("name", "")
        yield from field_errors.malformed(place, name, names.qualified_name)
        yield from _unique(name, seen, place)


_PROBE: tuple[tuple[str, Rule], ...] = tuple(
    (field, field_errors.non_negative)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
)
_PROBES: Mapping[str, Rule] = {
    "livenessProbe": partial(_probe, 1),
    "readinessProbe": partial(_probe, None),
    "startupProbe": partial(_probe, 1),
}
_CONTAINER: tuple[tuple[str, Rule], ...] = (
    ("terminationMessagePolicy", _message_policy),
    ("imagePullPolicy", one_of("Always", "IfNotPresent", "Never")),
    ("resources", _resources),
    ("securityContext", pod_security.of_container),
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
    ("affinity", pod_placement.affinity),
    ("topologySpreadConstraints", pod_placement.spread),
    ("schedulingGates", _gates),
    ("readinessGates", each(_readiness_gate)),
    ("runtimeClassName", formatted(names.dns_subdomain)),
    ("preemptionPolicy", _preemption),
    ("hostAliases", _aliases),
    ("activeDeadlineSeconds", between(1, 2**31 - 1)),
)
