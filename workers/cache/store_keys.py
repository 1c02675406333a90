"""The names of the store's keys in the broker."""

from dataclasses import dataclass

from scheduler.keys import Keys


@dataclass(frozen=True, slots=True)
class StoreKeys:
    """The names of the store's keys in the broker."""

    keys: Keys

    @property
    def freshness(self) -> str:
        """HASH kind id -> its reflector's progress (workers/lua/freshness.lua).

        A channel of this name carries the ids of kinds whose freshness is to be proved, separated by spaces.
        """
        return f"{self.keys.tag}:freshness"

    def objects(self, kind_id: str) -> str:
        """HASH <namespace>/<name> -> header and object (workers/lua/entries.lua).

        A channel of this name carries the fields that changed, one per line.
        """
        return f"{self.keys.tag}:objects:{kind_id}"

    def owners(self, kind_id: str) -> str:
        """ZSET, all scores 0, of '<owner uid> <namespace>/<name>': the index of children, unowned and referrers."""
        return f"{self.keys.tag}:owners:{kind_id}"

    def child_log(self, kind_id: str) -> str:
        """STREAM of the members of `owners` that were stored, or left it: about the last 10,000, for two minutes."""
        return f"{self.keys.tag}:childlog:{kind_id}"

    def gone(self, kind_id: str) -> str:
        """ZSET of tombstones by time of deletion."""
        return f"{self.keys.tag}:gone:{kind_id}"

    @property
    def unreadable(self) -> str:
        """HASH <kind id>/<namespace>/<name> -> a value of an objects hash that could not be read."""
        return f"{self.keys.tag}:unreadable"

    def listed(self, kind_id: str) -> str:
        """SET of the fields that the relist in progress has named so far."""
        return f"{self.keys.tag}:listed:{kind_id}"
