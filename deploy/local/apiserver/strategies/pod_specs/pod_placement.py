"""The rules of where a pod may run: affinity to nodes and to other pods, and how pods are spread."""

from collections.abc import Iterator, Sequence

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError, each
from deploy.local.apiserver.strategies import metadata
from workers.api import names
from workers.api.kinds import Object

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_POSITIVE = "must be greater than zero"


def affinity(path: str, body: Object | None) -> Iterator[FieldError]:
    """Yields the errors of affinity to nodes, to pods and against pods."""
    body = body or {}
    yield from _to_nodes(f"{path}.nodeAffinity", body.get("nodeAffinity") or {})
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = body.get(kind) or {}
        yield from each(_pod_term)(f"{path}.{kind}.{_REQUIRED}", terms.get(_REQUIRED))
        for index, wish in enumerate(terms.get(_PREFERRED) or ()):
            place = f"{path}.{kind}.{_PREFERRED}[{index}]"
            yield from _weight(place, wish)
            yield from _pod_term(f"{place}.podAffinityTerm", wish.get("podAffinityTerm") or {})


def spread(path: str, constraints: Sequence[Object] | None) -> Iterator[FieldError]:
    """Yields the errors of topology spread constraints."""
    pairs = [f"{{{one.get('topologyKey', '')}, {one.get('whenUnsatisfiable', '')}}}" for one in constraints or ()]
    for index, one in enumerate(constraints or ()):
        place, policy = f"{path}[{index}]", one.get("whenUnsatisfiable", "")
        skew, fewest = one.get("maxSkew", 0), one.get("minDomains")
        if skew <= 0:
            yield field_errors.invalid(f"{place}.maxSkew", skew, _POSITIVE)
        yield from _topology_key(f"{place}.topologyKey", one.get("topologyKey", ""))
        if policy not in _UNSATISFIABLE:
            yield field_errors.not_supported(f"{place}.whenUnsatisfiable", policy, _UNSATISFIABLE)
        if pairs[index] in pairs[index + 1 :]:
            yield field_errors.duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", pairs[index])
        if fewest is not None and fewest <= 0:
            yield field_errors.invalid(f"{place}.minDomains", fewest, _POSITIVE)
        if fewest is not None and policy == "ScheduleAnyway":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {policy}"
            yield field_errors.invalid(f"{place}.minDomains", fewest, detail)


def _to_nodes(path: str, body: Object) -> Iterator[FieldError]:
    required = body.get(_REQUIRED)
    if required is not None:
        place, terms = f"{path}.{_REQUIRED}.nodeSelectorTerms", required.get("nodeSelectorTerms")
        if not terms:
            yield field_errors.required(place, "must have at least one node selector term")
        yield from each(_node_term)(place, terms)
    for index, wish in enumerate(body.get(_PREFERRED) or ()):
        place = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(place, wish)
        yield from _node_term(f"{place}.preference", wish.get("preference") or {})


def _weight(path: str, wish: Object) -> Iterator[FieldError]:
    if not 1 <= (weight := wish.get("weight", 0)) <= 100:
        yield field_errors.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _node_term(path: str, term: Object) -> Iterator[FieldError]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        yield from metadata.requirement(expression, f"{path}.matchExpressions[{index}]", numbers=True)
    for index, expression in enumerate(term.get("matchFields") or ()):
        yield from _node_field(f"{path}.matchFields[{index}]", expression)


def _node_field(path: str, body: Object) -> Iterator[FieldError]:
    key, operator, values = body.get("key", ""), body.get("operator", ""), body.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield field_errors.required(f"{path}.values", detail)
    if key != "metadata.name":
        yield field_errors.invalid(f"{path}.key", key, "not a valid field selector key")


def _pod_term(path: str, term: Object) -> Iterator[FieldError]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from metadata.selector(term.get(name) or {}, f"{path}.{name}")
    for namespace in term.get("namespaces") or ():
        yield from field_errors.malformed(f"{path}.namespace", namespace, names.dns_label)
    place, key = f"{path}.topologyKey", term.get("topologyKey", "")
    yield from _topology_key(place, key)
    yield from field_errors.malformed(place, key, names.qualified_name)


def _topology_key(path: str, key: str) -> Iterator[FieldError]:
    if not key:
        yield field_errors.required(path, "can not be empty")
