"""What pod specs must be, in pods and in templates."""

import re
from collections.abc import Collection, Iterator, Sequence

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies import metadata
from workers.api import names, quantities
from workers.api.kinds import Object

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELD_PATHS = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"}
    | {"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
)
_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['[^']+'\]")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
#: What a variable may hold of its container's resources, and the divisors: as they are, and as they are listed.
_AMOUNTS = tuple(
    sorted(f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage"))
)
_BYTES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_UNITS = {"cpu": (("1m", "1"), "1m and 1"), "memory": (_BYTES, ", ".join(_BYTES))}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PORT_RANGE = "must be between 1 and 65535, inclusive"


def template(body: Object, path: str) -> list[FieldError]:
    """What is wrong with a pod template."""
    own = body.get("metadata") or {}
    return [
        *metadata.labels(own.get("labels") or {}, f"{path}.labels"),
        *metadata.annotations(own.get("annotations") or {}, f"{path}.annotations"),
        *spec(body.get("spec") or {}, f"{path}.spec"),
    ]


def spec(body: Object, path: str) -> list[FieldError]:
    """What is wrong with a defaulted pod spec."""
    known, errors = _volumes(body.get("volumes") or (), f"{path}.volumes")
    if not body.get("containers"):
        errors.append(field_errors.required(f"{path}.containers"))
    taken: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(body.get(field) or ()):
            errors += _container(container, f"{path}.{field}[{index}]", known, taken)
    errors += _choice(body, path, "restartPolicy", RESTART_POLICIES)
    errors += _choice(body, path, "dnsPolicy", _DNS_POLICIES)
    errors += metadata.labels(body.get("nodeSelector") or {}, f"{path}.nodeSelector")
    errors += _formats(body, path)
    errors += _tolerations(body.get("tolerations") or (), f"{path}.tolerations")
    errors += _affinity(body.get("affinity") or {}, f"{path}.affinity")
    errors += _gates(body.get("schedulingGates") or (), f"{path}.schedulingGates")
    deadline = body.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        place = f"{path}.activeDeadlineSeconds"
        errors.append(field_errors.invalid(place, deadline, f"must be between 1 and {2**31 - 1}, inclusive"))
    return errors


def _formats(body: Object, path: str) -> Iterator[FieldError]:
    for field, rule in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
        ("hostname", names.dns_label),
        ("subdomain", names.dns_label),
        ("priorityClassName", names.dns_subdomain),
    ):
        if text := body.get(field):
            yield from (field_errors.invalid(f"{path}.{field}", text, problem) for problem in rule(text))


def _choice(body: Object, path: str, field: str, allowed: Sequence[str]) -> Iterator[FieldError]:
    """A required field that must have one of a few values."""
    value = body.get(field)
    if not value:
        yield field_errors.required(f"{path}.{field}")
    elif value not in allowed:
        yield field_errors.not_supported(f"{path}.{field}", value, allowed)


def _container(body: Object, path: str, known: Collection[str], taken: set[str]) -> Iterator[FieldError]:
    name = body.get("name", "")
    if not name:
        yield field_errors.required(f"{path}.name")
    else:
        yield from (field_errors.invalid(f"{path}.name", name, problem) for problem in names.dns_label(name))
    if name in taken:
        yield field_errors.duplicate(f"{path}.name", name)
    taken.add(name)
    if not body.get("image"):
        yield field_errors.required(f"{path}.image")
    yield from _ports(body.get("ports") or (), f"{path}.ports")
    yield from _env(body.get("env") or (), f"{path}.env")
    yield from _env_from(body.get("envFrom") or (), f"{path}.envFrom")
    yield from _mounts(body.get("volumeMounts") or (), f"{path}.volumeMounts", known)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        yield from _probe(body.get(probe) or {}, f"{path}.{probe}")
        if probe != "readinessProbe" and (body.get(probe) or {}).get("successThreshold", 1) != 1:
            value = body[probe]["successThreshold"]
            yield field_errors.invalid(f"{path}.{probe}.successThreshold", value, "must be 1")
    for hook, handler in (body.get("lifecycle") or {}).items():
        if isinstance(handler, dict):
            yield from _handler(handler, f"{path}.lifecycle.{hook}", ("exec", "httpGet", "tcpSocket", "sleep"))
    if (policy := body.get("terminationMessagePolicy")) not in ("File", "FallbackToLogsOnError"):
        detail = "must be 'File' or 'FallbackToLogsOnError'"
        yield field_errors.invalid(f"{path}.terminationMessagePolicy", policy or "", detail)
    yield from _choice(body, path, "imagePullPolicy", _PULL_POLICIES)
    yield from _resources(body.get("resources") or {}, f"{path}.resources")


def _ports(ports: Sequence[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        if name := port.get("name"):
            yield from (field_errors.invalid(f"{place}.name", name, problem) for problem in names.port_name(name))
            if name in seen:
                yield field_errors.duplicate(f"{place}.name", name)
            seen.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            yield field_errors.required(f"{place}.containerPort")
        elif not 1 <= number <= 65535:
            yield field_errors.invalid(f"{place}.containerPort", number, _PORT_RANGE)
        if (host := port.get("hostPort")) and not 1 <= host <= 65535:
            yield field_errors.invalid(f"{place}.hostPort", host, _PORT_RANGE)
        yield from _choice(port, place, "protocol", _PROTOCOLS)


def _env(env: Sequence[Object], path: str) -> Iterator[FieldError]:
    for index, item in enumerate(env):
        place, name = f"{path}[{index}]", item.get("name", "")
        if not name:
            yield field_errors.required(f"{place}.name")
        else:
            yield from (field_errors.invalid(f"{place}.name", name, problem) for problem in names.env_name(name))
        if (source := item.get("valueFrom")) is not None:
            yield from _env_source(source, f"{place}.valueFrom", has_value=bool(item.get("value")))


def _env_source(source: Object, path: str, *, has_value: bool) -> Iterator[FieldError]:
    given = [field for field in _ENV_SOURCES if field in source]
    if not given:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield field_errors.invalid(path, "", detail)
    elif has_value:
        yield field_errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield field_errors.invalid(path, "", "may not have more than one field specified at a time")
    if "fieldRef" in source:
        yield from _field_path(source["fieldRef"].get("fieldPath", ""), f"{path}.fieldRef.fieldPath")
    if "resourceFieldRef" in source:
        yield from _resource_field(source["resourceFieldRef"], f"{path}.resourceFieldRef")
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            name, key = source[field].get("name", ""), source[field].get("key", "")
            yield from (
                field_errors.invalid(f"{path}.{field}.name", name, problem) for problem in names.dns_subdomain(name)
            )
            if not key:
                yield field_errors.required(f"{path}.{field}.key")
            else:
                yield from (
                    field_errors.invalid(f"{path}.{field}.key", key, problem) for problem in names.config_key(key)
                )


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


def _env_from(sources: Sequence[Object], path: str) -> Iterator[FieldError]:
    for index, source in enumerate(sources):
        place = f"{path}[{index}]"
        if prefix := source.get("prefix"):
            yield from (field_errors.invalid(f"{place}.prefix", prefix, problem) for problem in names.env_name(prefix))
        given = [field for field in ("configMapRef", "secretRef") if field in source]
        if not given:
            yield field_errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield field_errors.invalid(path, "", "may not have more than one field specified at a time")
        for field in given:
            if not (name := source[field].get("name")):
                yield field_errors.required(f"{place}.{field}.name")
            else:
                problems = names.dns_subdomain(name[:-1] + name[-1].replace("-", "a"))  # it may be a beginning only
                yield from (field_errors.invalid(f"{place}.{field}.name", name, problem) for problem in problems)


def _mounts(mounts: Sequence[Object], path: str, known: Collection[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        place, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield field_errors.required(f"{place}.name")
        if name not in known:
            yield field_errors.not_found(f"{place}.name", name)
        if not target:
            yield field_errors.required(f"{place}.mountPath")
        elif target in seen:
            yield field_errors.invalid(f"{place}.mountPath", target, "must be unique")
        seen.add(target)


def _probe(probe: Object, path: str) -> Iterator[FieldError]:
    if not probe:
        return
    yield from _handler(probe, path, ("exec", "httpGet", "tcpSocket", "grpc"))
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        yield from field_errors.non_negative(f"{path}.{field}", probe.get(field))


def _handler(body: Object, path: str, kinds: Sequence[str]) -> Iterator[FieldError]:
    """What a probe or a hook does: exactly one thing, of those there are."""
    given = [field for field in kinds if field in body]
    if not given:
        yield field_errors.required(path, "must specify a handler type")
    for extra in given[1:]:
        yield field_errors.forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    if "exec" in body and not body["exec"].get("command"):
        yield field_errors.required(f"{path}.exec.command")
    for field in ("httpGet", "tcpSocket"):
        if field in body:
            yield from _target(body[field].get("port", 0), f"{path}.{field}.port")


def _target(port: int | str, path: str) -> Iterator[FieldError]:
    if isinstance(port, str):
        yield from (field_errors.invalid(path, port, problem) for problem in names.port_name(port))
    elif not 1 <= port <= 65535:
        yield field_errors.invalid(path, port, _PORT_RANGE)


def _resource_name(name: str, path: str) -> Iterator[FieldError]:
    problems = names.qualified_name(name)
    yield from (field_errors.invalid(path, name, problem) for problem in problems)
    if problems or name in _RESOURCES or name.startswith("hugepages-") or "/" in name:
        return
    yield field_errors.invalid(path, name, "must be a standard resource type or fully qualified")
    yield field_errors.invalid(path, name, "must be a standard resource for containers")


def _resources(resources: Object, path: str) -> Iterator[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            place = f"{path}.{part}[{name}]"
            yield from _resource_name(name, place)
            if quantities.parse(amount) < 0:
                yield field_errors.invalid(place, amount, field_errors.NON_NEGATIVE)
    for name, amount in requests.items():
        if name in limits and quantities.parse(amount) > quantities.parse(limits[name]):
            yield field_errors.invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit")


def _tolerations(items: Sequence[Object], path: str) -> Iterator[FieldError]:
    """What is wrong with tolerations."""
    for index, item in enumerate(items):
        place, key, operator = f"{path}[{index}]", item.get("key", ""), item.get("operator", "")
        effect, value = item.get("effect", ""), item.get("value", "")
        if key:
            yield from (field_errors.invalid(f"{place}.key", key, problem) for problem in names.qualified_name(key))
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield field_errors.invalid(f"{place}.operator", operator, detail)
        if item.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield field_errors.invalid(f"{place}.effect", effect, detail)
        if operator in ("", "Equal"):
            problems = names.label_value(value)
            yield from (field_errors.invalid(f"{place}.operator", value, problem) for problem in problems)
        elif operator != "Exists":
            yield field_errors.not_supported(f"{place}.operator", operator, ("Equal", "Exists"))
        elif value:
            yield field_errors.invalid(f"{place}.operator", item, "value must be empty when `operator` is 'Exists'")
        if effect and effect not in _EFFECTS:
            yield field_errors.not_supported(f"{place}.effect", effect, _EFFECTS)


def _affinity(body: Object, path: str) -> Iterator[FieldError]:
    """What is wrong with the wishes about nodes; those about other pods are kept as they are."""
    nodes = body.get("nodeAffinity") or {}
    required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        place = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        if not required.get("nodeSelectorTerms"):
            yield field_errors.required(place, "must have at least one node selector term")
        for index, term in enumerate(required.get("nodeSelectorTerms") or ()):
            yield from _node_term(term, f"{place}[{index}]")
    for index, wish in enumerate(nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        place = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        if not 1 <= (weight := wish.get("weight", 0)) <= 100:
            yield field_errors.invalid(f"{place}.weight", weight, "must be in the range 1-100")
        yield from _node_term(wish.get("preference") or {}, f"{place}.preference")


def _node_term(term: Object, path: str) -> Iterator[FieldError]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        yield from metadata.requirement(expression, f"{path}.matchExpressions[{index}]", numbers=True)


def _gates(items: Sequence[Object], path: str) -> Iterator[FieldError]:
    """What is wrong with scheduling gates."""
    seen: set[str] = set()
    for index, gate in enumerate(items):
        place, name = f"{path}[{index}]", gate.get("name", "")
        yield from (field_errors.invalid(place, name, problem) for problem in names.qualified_name(name))
        if name in seen:
            yield field_errors.duplicate(place, name)
        seen.add(name)


def _volumes(volumes: Sequence[Object], path: str) -> tuple[set[str], list[FieldError]]:
    """The names of the volumes that can be mounted, and everything that is wrong with the others."""
    known: set[str] = set()
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        name = volume.get("name", "")
        found = [*_volume(volume, f"{path}[{index}]", known)]
        if not found:
            known.add(name)
        errors += found
    return known, errors


def _volume(volume: Object, place: str, known: set[str]) -> Iterator[FieldError]:
    sources, name = [field for field in volume if field != "name"], volume.get("name", "")
    if len(sources) > 1:
        yield field_errors.forbidden(f"{place}.{sources[1]}", "may not specify more than 1 volume type")
    if not name:
        yield field_errors.required(f"{place}.name")
    else:
        yield from (field_errors.invalid(f"{place}.name", name, problem) for problem in names.dns_label(name))
    if name in known:
        yield field_errors.duplicate(f"{place}.name", name)
    yield from _volume_source(volume, place)


def _volume_source(volume: Object, place: str) -> Iterator[FieldError]:
    for source, field in (
        ("hostPath", "path"),
        ("secret", "secretName"),
        ("configMap", "name"),
        ("persistentVolumeClaim", "claimName"),
    ):
        if source in volume and not volume[source].get(field):
            yield field_errors.required(f"{place}.{source}.{field}")
    for source in ("secret", "configMap"):
        for index, item in enumerate((volume.get(source) or {}).get("items") or ()):
            yield from _volume_item(item, f"{place}.{source}.items[{index}]")


def _volume_item(item: Object, place: str) -> Iterator[FieldError]:
    path = item.get("path", "")
    if not item.get("key"):
        yield field_errors.required(f"{place}.key")
    if not path:
        yield field_errors.required(f"{place}.path")
    elif path.startswith("/"):
        yield field_errors.invalid(f"{place}.path", path, "must be a relative path")
    elif ".." in path.split("/"):
        yield field_errors.invalid(f"{place}.path", path, "must not contain '..'")
    elif path.startswith(".."):
        yield field_errors.invalid(f"{place}.path", path, "must not start with '..'")
