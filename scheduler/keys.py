"""The names of the queue's keys in the broker. Nothing else spells them out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaneKeys:
    """The keys of one lane; docs/queue.md says what each holds.

    tag: the hash tag, braces included. name: the lane's name.
    """

    tag: str
    name: str

    def all(self) -> list[str]:
        """Every key of the lane that outlives a call, in the order in which the Lua helper `lane` reads them."""
        return [
            self._of(part)
            for part in (
                "ready",
                "since",
                "tenants",
                "later",
                "leased",
                "leases",
                "dirty",
                "booked",
                "failures",
                "meta",
            )
        ]

    def call(self, id: str) -> str:
        """Where the answer of one call is kept for as long as that call may be replayed."""
        return self._of(f"call:{id}")

    def _of(self, part: str) -> str:
        return f"{self.tag}:lane:{self.name}:{part}"


@dataclass(frozen=True, slots=True)
class Keys:
    """All key names under one prefix.

    Every name starts with the same hash tag, so that one script may touch any of them in a cluster-mode server.
    """

    prefix: str = "penstock"

    @property
    def tag(self) -> str:
        """The hash tag, ``{<prefix>}``: the first part of every key of ours."""
        return f"{{{self.prefix}}}"

    @property
    def generation(self) -> str:
        """The random id of this keyspace; gone after a FLUSHALL, which is how that is noticed."""
        return f"{self.tag}:generation"

    def lane(self, name: str) -> LaneKeys:
        """The keys of the lane of this name."""
        return LaneKeys(self.tag, name)

    def beat(self, part: str) -> str:
        """A key of the beat scheduler."""
        return f"{self.tag}:beat:{part}"
