"""The tree of queues: the place of a queue, and the bounds between its amounts and those above and below."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workers.admission.findings import Finding
from workers.admission.volcano import shares
from workers.admission.volcano.queue_lookup import ROOT, parent_of
from workers.api.kinds import Object

#: Levels below the root.
DEEPEST = 5


@dataclass(frozen=True)
class QueueHierarchy:
    """All queues by name, after the write."""

    queues: Mapping[str, Object]

    def above(self, name: str) -> list[str]:
        """Returns the ancestors without the root, the nearest first; a cycle is followed once."""
        found: list[str] = []
        while (name := parent_of(self.queues[name])) in self.queues and name != ROOT and name not in found:
            found.append(name)
        return found

    def children(self, name: str) -> list[str]:
        """Returns the queues directly below, by name."""
        return sorted(each for each, body in self.queues.items() if each != ROOT and parent_of(body) == name)

    def below(self, name: str) -> list[str]:
        """Returns all queues below."""
        return [each for each in self.queues if each != name and name in self.above(each)]

    def height(self, name: str) -> int:
        """Returns the levels from this queue down, its own included."""
        deep = len(self.above(name))
        return 1 + max((len(self.above(each)) - deep for each in self.below(name)), default=0)

    def amounts(self, name: str, field: str) -> shares.Amounts:
        """Returns the amounts of one field of a queue."""
        return shares.amounts(self.queues[name].get("spec") or {}, field)


def problems(body: Object, old: Object | None, others: Sequence[Object]) -> list[Finding]:
    """Returns the findings on the place of a queue and on its amounts there."""
    name = body["metadata"].get("name") or ""
    if name == ROOT:
        return []
    tree = QueueHierarchy({**{queue["metadata"]["name"]: queue for queue in others}, name: body})
    moved = old is None or parent_of(body) != parent_of(old)
    return (list(_place(tree, name)) if moved else []) or [*_capability(tree, name), *_sums(tree, name)]


def _place(tree: QueueHierarchy, name: str) -> Iterator[Finding]:
    parent = parent_of(tree.queues[name])
    if parent == name:
        yield Finding("spec.parent", f"queue {name!r} must not be its own parent")
    elif parent != ROOT and parent not in tree.queues:
        yield Finding("spec.parent", f"there is no queue {parent!r}")
    elif (above := tree.above(name)) and parent_of(tree.queues[above[-1]]) != ROOT:
        yield Finding("spec.parent", f"the queues above do not lead to {ROOT!r}: {' -> '.join(above)}")
    else:
        yield from _depth(tree, name)
        yield from _becoming(tree, name, parent)


def _depth(tree: QueueHierarchy, name: str) -> Iterator[Finding]:
    depth = len(tree.above(name)) + tree.height(name)
    if depth > DEEPEST:
        yield Finding("spec.parent", f"queues must not be deeper than {DEEPEST} levels below {ROOT!r}, {depth}")


def _becoming(tree: QueueHierarchy, name: str, parent: str) -> Iterator[Finding]:
    """Refuses a child below a queue that runs pods itself."""
    if parent == ROOT or [each for each in tree.children(parent) if each != name]:
        return
    pods = ((tree.queues[parent].get("status") or {}).get("allocated") or {}).get("pods")
    if pods is not None and str(pods) != "0":
        yield Finding("spec.parent", f"queue {parent!r} runs pods itself ({pods}): there must be no queue below it")


def _capability(tree: QueueHierarchy, name: str) -> Iterator[Finding]:
    own = tree.amounts(name, "capability")
    for resource, number in own.items():
        for above in tree.above(name):
            limit = tree.amounts(above, "capability").get(resource)
            if limit is not None:
                if number > limit:
                    text = f"must not be greater than that of queue {above!r} above it"
                    yield Finding(f"spec.capability[{resource}]", text)
                break
        for below in tree.below(name):
            if tree.amounts(below, "capability").get(resource, 0) > number:
                text = f"must not be smaller than that of queue {below!r} below it"
                yield Finding(f"spec.capability[{resource}]", text)


def _sums(tree: QueueHierarchy, name: str) -> Iterator[Finding]:
    """Yields guarantees and deserved shares whose sum on one level exceeds the parent's."""
    parent = parent_of(tree.queues[name])
    for field in ("guarantee", "deserved"):
        if parent != ROOT and parent in tree.queues:
            for resource in _overdrawn(tree, parent, field):
                text = f"the queues below {parent!r} must not have more of it together than {parent!r} has"
                yield Finding(f"{shares.path(field)}[{resource}]", text)
        for resource in _overdrawn(tree, name, field):
            text = f"must not be less than what the queues below {name!r} have together"
            yield Finding(f"{shares.path(field)}[{resource}]", text)


def _overdrawn(tree: QueueHierarchy, parent: str, field: str) -> list[str]:
    total: dict[str, int] = {}
    for child in tree.children(parent):
        for resource, number in tree.amounts(child, field).items():
            total[resource] = total.get(resource, 0) + number
    own = tree.amounts(parent, field)
    return sorted(resource for resource, number in total.items() if number > own.get(resource, 0))
