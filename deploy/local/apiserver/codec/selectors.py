"""Label and field selectors: the texts after ``-l`` and ``--field-selector``."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from workers.api import names
from workers.api.kinds import Kind, Object

Labels = Mapping[str, str]

_TOKEN = re.compile(r"\s*(?P<token>==|!=|[=!,()<>]|[^\s=!,()<>]+)")


def label_selector(text: str) -> Callable[[Labels], bool]:
    """Returns the test of a label selector: ``a=b``, ``a!=b``, ``a in (b,c)``, ``a notin (b)``, ``a``, ``!a``, ``a>1``.

    Requirements are joined by commas; an empty text matches everything. Raises ValueError with the API's words.
    """
    requirements = _requirements(_tokens(text))
    if not requirements:
        return lambda _labels: True
    if len(requirements) == 1:
        return requirements[0]
    return lambda labels: all(requirement(labels) for requirement in requirements)


def _tokens(text: str) -> list[str]:
    tokens = [match["token"] for match in _TOKEN.finditer(text.strip())]
    return [*tokens, ""]


def _requirements(tokens: list[str]) -> list[Callable[[Labels], bool]]:
    requirements: list[Callable[[Labels], bool]] = []
    if tokens == [""]:
        return requirements
    while True:
        requirements.append(_requirement(tokens))
        match tokens.pop(0):
            case "":
                return requirements
            case ",":
                if tokens[0] in ("", ","):
                    raise ValueError(f"found '{tokens[0]}', expected: identifier after ','")
            case other:
                raise ValueError(f"found '{other}', expected: ',' or 'end of string'")


def _requirement(tokens: list[str]) -> Callable[[Labels], bool]:
    if absent := tokens[0] == "!":
        tokens.pop(0)
    key = tokens.pop(0)
    if key in ("", "=", "==", "!=", "!", ",", "(", ")", "<", ">"):
        raise ValueError(f"unable to parse requirement: found '{key}', expected: !, identifier, or 'end of string'")
    if problems := names.qualified_name(key):
        raise ValueError(f'unable to parse requirement: <nil>: Invalid value: "{key}": {"; ".join(problems)}')
    if absent:
        return lambda labels: key not in labels
    operator = tokens[0]
    if operator in ("", ","):
        return lambda labels: key in labels
    tokens.pop(0)
    match operator:
        case "=" | "==":
            value = _value(tokens, key)
            return lambda labels: labels.get(key) == value
        case "!=":
            value = _value(tokens, key)
            return lambda labels: labels.get(key) != value
        case "in":
            values = _values(tokens, key)
            return lambda labels: labels.get(key) in values
        case "notin":
            values = _values(tokens, key)
            return lambda labels: labels.get(key) not in values
        case "<" | ">":
            return _comparison(key, operator, _value(tokens, key))
        case _:
            expected = "in, notin, =, ==, !=, gt, lt"
            raise ValueError(f"unable to parse requirement: found '{operator}', expected: {expected}")


def _value(tokens: list[str], key: str) -> str:
    """The value after an operator; nothing means the empty text."""
    if tokens[0] in ("", ","):
        return ""
    return _checked(tokens.pop(0), key)


def _values(tokens: list[str], key: str) -> frozenset[str]:
    if tokens[0] != "(":
        raise ValueError(f"unable to parse requirement: found '{tokens[0]}' expected: '('")
    tokens.pop(0)
    values: list[str] = []
    expect = True
    while True:
        token = tokens.pop(0)
        match token:
            case ")":
                return frozenset([*values, ""] if expect else values)
            case ",":
                if expect:
                    values.append("")
                expect = True
            case "":
                raise ValueError("unable to parse requirement: found '', expected: ',' or ')'")
            case _:
                if not expect:
                    raise ValueError(f"unable to parse requirement: found '{token}', expected: ',' or ')'")
                values.append(_checked(token, key))
                expect = False


def _checked(value: str, key: str) -> str:
    if value in ("=", "==", "!=", "!", "(", ")", "<", ">"):
        raise ValueError(f"unable to parse requirement: found '{value}', expected: identifier")
    if problems := names.label_value(value):
        raise ValueError(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {"; ".join(problems)}'
        )
    return value


def _comparison(key: str, operator: str, text: str) -> Callable[[Labels], bool]:
    try:
        bound = int(text)
    except ValueError:
        raise ValueError(
            f"unable to parse requirement: values[0]: Invalid value: {text!r}: "
            "for 'Gt', 'Lt' operators, the value must be an integer"
        ) from None

    def matches(labels: Labels) -> bool:
        try:
            value = int(labels[key])
        except (KeyError, ValueError):
            return False
        return value > bound if operator == ">" else value < bound

    return matches


def selects(selector: Object) -> Callable[[Labels], bool]:
    """Returns the test of a `LabelSelector` object (matchLabels, matchExpressions); an empty one matches all labels.

    Raises ValueError for an unknown operator.
    """
    tests: list[Callable[[Labels], bool]] = []
    wanted: Labels = selector.get("matchLabels") or {}
    if wanted:
        tests.append(lambda labels: all(labels.get(key) == value for key, value in wanted.items()))
    tests += [
        _expression(expression["key"], expression.get("operator"), expression.get("values") or ())
        for expression in selector.get("matchExpressions") or ()
    ]
    return lambda labels: all(test(labels) for test in tests)


def spelled(selector: Object | None) -> str:
    """A `LabelSelector` object as text, as ``-l`` takes it; an empty text for an empty one."""
    selector = selector or {}
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, operator, values = expression["key"], expression["operator"], sorted(expression.get("values") or ())
        short = {"Exists": key, "DoesNotExist": f"!{key}"}
        terms.append(short.get(operator) or f"{key} {operator.lower()} ({','.join(values)})")
    return ",".join(terms)


def _expression(key: str, operator: Any, values: Any) -> Callable[[Labels], bool]:
    match operator:
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case _:
            raise ValueError(f'"{operator}" is not a valid label selector operator')


_METADATA = ("metadata.name", "metadata.namespace")
#: The fields that can be selected on besides name and namespace, by kind id, as the real server offers them.
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork"),
        *("status.phase", "status.podIP", "status.nominatedNodeName"),
    ),
    "events": (
        *(f"involvedObject.{field}" for field in _REFERENCE),
        *("reason", "reportingComponent", "source", "type"),
    ),
    "events.events.k8s.io": (
        *(f"regarding.{field}" for field in _REFERENCE),
        *("reason", "type", "reportingController"),
    ),
    "jobs.batch": ("status.successful",),
    "namespaces": ("status.phase", "name"),
    "nodes": ("spec.unschedulable",),
    "replicasets.apps": ("status.replicas",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
}
#: The paths of selectable fields whose names are not their paths.
_PATHS = {"status.successful": "status.succeeded", "source": "source.component", "name": "metadata.name"}
_ZEROS = {"status.successful": "0", "status.replicas": "0", "spec.hostNetwork": "false", "spec.unschedulable": "false"}
_TERM = re.compile("(?P<field>.*?)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)
#: The terms of a field selector: a backslash takes the comma behind it into its term.
_TERMS = re.compile(r"(?:\\.|[^\\,]|\\$)+", re.DOTALL)
#: A character of a value: escaped, a backslash that escapes nothing, or one that stands for itself.
_VALUE = re.compile(r"\\(?P<escaped>[\\,=])|(?P<escape>\\.?)|(?P<plain>.)", re.DOTALL)


def field_selector(text: str, kind: Kind) -> Callable[[Object], bool]:
    """Returns the test of a kind's field selector: ``k=v``, ``k==v``, ``k!=v``, joined by commas.

    In a value a backslash escapes a comma, an equals sign or itself. Raises ValueError for a malformed text and for
    a field that cannot be selected on.
    """
    terms = [_term(term, text, kind) for term in _TERMS.findall(text)]
    if not terms:
        return lambda _body: True
    return lambda body: all(
        _at(body, field) == value if equal else _at(body, field) != value for field, equal, value in terms
    )


def _term(text: str, whole: str, kind: Kind) -> tuple[str, bool, str]:
    match = _TERM.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid selector: '{whole}'; can't understand '{text}'")
    field, value = match["field"], _unescaped(match["value"])
    if field not in _METADATA and field not in _FIELDS.get(kind.id, ()):
        raise ValueError(_unknown(field, kind))
    return field, match["operator"] != "!=", value


def _unescaped(text: str) -> str:
    found: list[str] = []
    for match in _VALUE.finditer(text):
        if (escape := match["escape"]) is not None:
            raise ValueError(f"invalid field selector: invalid escape sequence: {escape}")
        if match["plain"] == "=":
            raise ValueError(f"invalid field selector: unescaped character in value: {ord('=')}")
        found.append(match["escaped"] or match["plain"])
    return "".join(found)


def _unknown(field: str, kind: Kind) -> str:
    """Returns the refusal of a field that cannot be selected on, in the real server's words for the kind."""
    if kind.group == "batch":
        return f'field label "{field}" not supported for {kind.group}{kind.version}.{kind.kind}'
    if kind.id in _FIELDS:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _at(body: Object, field: str) -> str:
    """The text a field is compared by; absent is the text of its zero."""
    value: Any = body
    for part in _PATHS.get(field, field).split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return _ZEROS.get(field, "")
    return str(value).lower() if isinstance(value, bool) else str(value)
