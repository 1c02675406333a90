"""The observed cluster, as far as rules need it beside the judged object."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workers.api.kinds import Kind, Object, Ref


class Unseen(LookupError):  # noqa: N818 - says what it is
    """Raised for an object that was not observed. Unknown is not absent: the caller has to observe it first."""


class Lookup(Protocol):
    """The observed cluster; both methods raise Unseen."""

    def get(self, ref: Ref) -> Object | None:
        """Returns the object, None if it is known not to exist."""

    def every(self, kind: Kind) -> Sequence[Object]:
        """Returns all objects of a kind, of all namespaces."""


@dataclass(frozen=True, slots=True)
class Known:
    """Objects observed beforehand. objects: single ones, None for absent ones. whole: all objects by kind id."""

    objects: Mapping[Ref, Object | None] = field(default_factory=dict)
    whole: Mapping[str, Sequence[Object]] = field(default_factory=dict)

    def get(self, ref: Ref) -> Object | None:
        """Returns the object, None if it is known not to exist. Raises Unseen."""
        if ref in self.objects:
            return self.objects[ref]
        if ref.kind.id not in self.whole:
            raise Unseen(str(ref))
        return next((body for body in self.whole[ref.kind.id] if _is(body, ref)), None)

    def every(self, kind: Kind) -> Sequence[Object]:
        """Returns all objects of a kind. Raises Unseen."""
        if kind.id not in self.whole:
            raise Unseen(kind.id)
        return self.whole[kind.id]


def _is(body: Object, ref: Ref) -> bool:
    metadata = body["metadata"]
    return bool(metadata["name"] == ref.name) and metadata.get("namespace", "") == ref.namespace
