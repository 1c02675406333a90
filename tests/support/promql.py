"""The metrics and labels that a PromQL expression names, as far as ours are written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_METRIC = re.compile(r"\b(?P<name>(?:penstock|keda|volcano|rest_client|process)_[a-z_]+)(?P<selector>\{[^}]*\})?")
_LABEL = re.compile(r"([A-Za-z_]+)\s*(?:=~|!~|!=|=)")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")


@dataclass(frozen=True)
class NamedMetric:
    """A metric without the suffix of a histogram's series, and the labels that are asked of it."""

    name: str
    labels: frozenset[str]


def metrics(expression: str) -> Iterator[NamedMetric]:
    """The metrics of an expression, each with the labels of its selector and of all groupings."""
    grouped = {label.strip() for match in _GROUPED.finditer(expression) for label in match[1].split(",")} - {"le"}
    for match in _METRIC.finditer(expression):
        name = re.sub("_(bucket|sum|count)$", "", match["name"]) if "_seconds_" in match["name"] else match["name"]
        yield NamedMetric(name, frozenset(grouped | set(_LABEL.findall(match["selector"] or ""))))
