"""Volcano's Queue: what a new one is filled in with, what of it is refused, and which must stay."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workers.admission.findings import Finding
from workers.admission.lookup import Lookup
from workers.admission.volcano import shares
from workers.admission.volcano.queue_lookup import OPEN, ROOT, parent_of
from workers.api.kinds import POD_GROUP, QUEUE, Object
from workers.api.references import DEFAULT_QUEUE

#: Annotations of Volcano's older hierarchy: a path, and a weight per level.
HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"
#: Most names in a message.
_NAMED = 3
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

    def bounds(self, name: str) -> shares.Amounts:
        """Returns the amounts of a queue's capability that are a bound."""
        return shares.bounds(self.amounts(name, "capability"))


def defaulted(body: Object) -> Object:
    """The Queue with everything that its author left to Volcano. Doing so twice changes nothing more."""
    spec = body.get("spec")
    if spec is None:
        spec = {}
    if not isinstance(spec, dict):
        return body
    filled = {**spec}
    if spec.get("reclaimable") is None:
        filled["reclaimable"] = True
    if spec.get("weight") in (None, 0):
        filled["weight"] = 1
    annotations = body["metadata"].get("annotations") or {}
    tree, weights = annotations.get(HIERARCHY), annotations.get(WEIGHTS)
    result = {**body, "spec": filled}
    if tree and weights and tree.split("/")[0] != ROOT:
        rooted = {**annotations, HIERARCHY: f"{ROOT}/{tree}", WEIGHTS: f"1/{weights}"}
        result["metadata"] = {**body["metadata"], "annotations": rooted}
    return result


def problems(body: Object, old: Object | None, lookup: Lookup) -> list[Finding]:
    """Everything that is wrong with a Queue. old: what it replaces, None for a new one."""
    spec, before = body.get("spec") or {}, (old or {}).get("spec") or {}
    others = [queue for queue in lookup.every(QUEUE) if queue["metadata"]["name"] != body["metadata"].get("name")]
    found = [*_state(body, old)]
    if old is None or _trees(body) != _trees(old):
        found += _annotations(body, others)
    if old is None or parent_of(body) != parent_of(old) or _amounts(spec) != _amounts(before):
        found += _protected(body, old) or shares.problems(spec)
        found += [] if found else tree_problems(body, old, others)
    return found


def removal(body: Object, lookup: Lookup) -> list[Finding]:
    """Returns the reasons why a Queue must not be deleted."""
    name = body["metadata"]["name"]
    if name in (ROOT, DEFAULT_QUEUE):
        return [Finding("metadata.name", f"queue {name!r} must not be deleted: work that names no queue needs it")]
    found = []
    below = [queue["metadata"]["name"] for queue in lookup.every(QUEUE) if parent_of(queue) == name]
    if below:
        found.append(Finding("metadata.name", f"queue {name!r} must not be deleted: below it are {_some(below)}"))
    inside = [
        f"{group['metadata']['namespace']}/{group['metadata']['name']}"
        for group in lookup.every(POD_GROUP)
        if (group.get("spec") or {}).get("queue") == name and not _over(group)
    ]
    if inside:
        text = f"queue {name!r} must not be deleted: PodGroups are in it, {_some(inside)}"
        found.append(Finding("metadata.name", text))
    return found


def _over(group: Object) -> bool:
    leaving = "deletionTimestamp" in group["metadata"]
    return leaving or (group.get("status") or {}).get("phase") == "Completed"


def _some(names: list[str]) -> str:
    shown = sorted(names)[:_NAMED]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _state(body: Object, old: Object | None) -> Iterator[Finding]:
    """Yields a state set by hand other than Open and Closed; the controller sets the others."""
    state = (body.get("status") or {}).get("state")
    before = ((old or {}).get("status") or {}).get("state")
    if state not in (None, "", OPEN, "Closed", before):
        yield Finding("status.state", f"{state!r} is not set by hand; there are {OPEN} and Closed")


def _protected(body: Object, old: Object | None) -> list[Finding]:
    """Yields changes of the root queue's amounts: it has the whole cluster."""
    if old is None or body["metadata"]["name"] != ROOT:
        return []
    new, before = body.get("spec") or {}, old.get("spec") or {}
    return [
        Finding(f"spec.{field}", f"of queue {ROOT!r} this must not change")
        for field in shares.FIELDS
        if new.get(field) != before.get(field)
    ]


def _amounts(spec: Object) -> list[object]:
    return [spec.get(field) for field in shares.FIELDS]


def _trees(body: Object) -> tuple[str, str]:
    annotations = body["metadata"].get("annotations") or {}
    return annotations.get(HIERARCHY) or "", annotations.get(WEIGHTS) or ""


def _annotations(body: Object, others: list[Object]) -> Iterator[Finding]:
    tree, weights = _trees(body)
    if not tree and not weights:
        return
    path, parts = tree.split("/"), weights.split("/")
    if len(path) != len(parts):
        text = f"{tree!r} and {weights!r} must have as many parts"
        yield Finding(f"metadata.annotations[{HIERARCHY}]", text)
        return
    for weight in parts:
        if not _positive(weight):
            yield Finding(f"metadata.annotations[{WEIGHTS}]", f"{weight!r} is not a number above 0")
    for other in others:
        theirs = _trees(other)[0].split("/")
        if len(theirs) > len(path) and theirs[: len(path)] == path:
            text = f"{tree!r} must not be above that of queue {other['metadata']['name']!r}, {'/'.join(theirs)!r}"
            yield Finding(f"metadata.annotations[{HIERARCHY}]", text)


def _positive(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def tree_problems(body: Object, old: Object | None, others: Sequence[Object]) -> list[Finding]:
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
    for resource, number in tree.bounds(name).items():
        for above in tree.above(name):
            limit = tree.bounds(above).get(resource)
            if limit is not None:
                if number > limit:
                    text = f"must not be greater than that of queue {above!r} above it"
                    yield Finding(f"spec.capability[{resource}]", text)
                break
        for below in tree.below(name):
            if tree.bounds(below).get(resource, 0) > number:
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
