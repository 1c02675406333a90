"""The nodes of a flow: its entries, and each item of an entry with forEach. Names of Jobs are derived here."""

from collections.abc import Iterator
from dataclasses import dataclass

from workers.api.volcano.jobflow import FlowEntry, ForEach, JobFlowSpec


@dataclass(frozen=True, slots=True)
class FlowNode:
    """One node. id: unique in the flow. index, item: of an entry with forEach."""

    entry: FlowEntry
    id: str
    index: int | None = None
    item: str | None = None

    def job(self, flow: str, attempt: int) -> str:
        """Returns the name of the Job of an attempt (from 1)."""
        name = f"{flow}-{self.id}"
        return name if attempt <= 1 else f"{name}-r{attempt - 1}"


def of(spec: JobFlowSpec) -> Iterator[FlowNode]:
    """Yields the nodes in the order of the spec."""
    for entry in spec.flows:
        if entry.for_each is None:
            yield FlowNode(entry, entry.name)
        else:
            for index, item in enumerate(items(entry.for_each, spec)):
                yield FlowNode(entry, f"{entry.name}-{index}", index, item)


def items(each: ForEach, spec: JobFlowSpec) -> tuple[str, ...]:
    """Returns the items of a forEach; a count gives indexes."""
    if each.items is not None:
        return each.items
    if each.parameter is not None:
        text = (spec.parameters or {}).get(each.parameter, "")
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return tuple(map(str, range(each.count or 0)))
