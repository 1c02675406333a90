"""Label selectors of the Kubernetes API."""

from collections.abc import Callable, Mapping, Sequence

from workers.api.kinds import Object


def selects(selector: Object) -> Callable[[Object], bool]:
    """Returns a predicate of objects whose labels match the selector; an unknown operator matches nothing."""
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    expressions: Sequence[Object] = selector.get("matchExpressions") or ()

    def matches(body: Object) -> bool:
        labels = body["metadata"].get("labels") or {}
        return all(labels.get(key) == value for key, value in wanted.items()) and all(
            _holds(expression, labels) for expression in expressions
        )

    return matches


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key"), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(key or "") in values
        case "NotIn":
            return labels.get(key or "") not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
