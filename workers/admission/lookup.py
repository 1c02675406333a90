"""What rules may know of the cluster beside the object they judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workers.api.kinds import Kind, Object, Ref


class Unseen(LookupError):  # noqa: N818 - says what it is
    """Asked for something nobody has looked at. Unknown is not absent: whoever judges has to look first."""


class Lookup(Protocol):
    """Answers from what is known already; both raise Unseen for what is not."""

    def get(self, ref: Ref) -> Object | None:
        """The object, None when it is known not to exist."""

    def every(self, kind: Kind) -> Sequence[Object]:
        """All objects of a kind, of all namespaces."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was looked at beforehand. objects: single ones, None for what does not exist. whole: by kind id, all."""

    objects: Mapping[Ref, Object | None] = field(default_factory=dict)
    whole: Mapping[str, Sequence[Object]] = field(default_factory=dict)

    def get(self, ref: Ref) -> Object | None:
        """The object, None when it is known not to exist. Raises Unseen."""
        if ref in self.objects:
            return self.objects[ref]
        if ref.kind.id not in self.whole:
            raise Unseen(str(ref))
        return next((body for body in self.whole[ref.kind.id] if _is(body, ref)), None)

    def every(self, kind: Kind) -> Sequence[Object]:
        """All objects of a kind. Raises Unseen."""
        if kind.id not in self.whole:
            raise Unseen(kind.id)
        return self.whole[kind.id]


def _is(body: Object, ref: Ref) -> bool:
    metadata = body["metadata"]
    return bool(metadata["name"] == ref.name) and metadata.get("namespace", "") == ref.namespace
