"""What pods may say about the nodes they run on: tolerations, node affinity, scheduling gates."""

from collections.abc import Iterator, Sequence

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies import metadata
from workers.api import names
from workers.api.kinds import Object

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def tolerations(items: Sequence[Object], path: str) -> Iterator[FieldError]:
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


def affinity(body: Object, path: str) -> Iterator[FieldError]:
    """What is wrong with the wishes about nodes; those about other pods are kept as they are."""
    nodes = body.get("nodeAffinity") or {}
    required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        place = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        if not required.get("nodeSelectorTerms"):
            yield field_errors.required(place, "must have at least one node selector term")
        for index, term in enumerate(required.get("nodeSelectorTerms") or ()):
            yield from _term(term, f"{place}[{index}]")
    for index, wish in enumerate(nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        place = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        if not 1 <= (weight := wish.get("weight", 0)) <= 100:
            yield field_errors.invalid(f"{place}.weight", weight, "must be in the range 1-100")
        yield from _term(wish.get("preference") or {}, f"{place}.preference")


def _term(term: Object, path: str) -> Iterator[FieldError]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        yield from metadata.requirement(expression, f"{path}.matchExpressions[{index}]", numbers=True)


def gates(items: Sequence[Object], path: str) -> Iterator[FieldError]:
    """What is wrong with scheduling gates."""
    seen: set[str] = set()
    for index, gate in enumerate(items):
        place, name = f"{path}[{index}]", gate.get("name", "")
        yield from (field_errors.invalid(place, name, problem) for problem in names.qualified_name(name))
        if name in seen:
            yield field_errors.duplicate(place, name)
        seen.add(name)
