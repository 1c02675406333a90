"""Names of Jobs, derived from the reading that asked for them: one reading never makes the same Job twice."""

import re
from dataclasses import dataclass

from workers.decision import claim_names

_BASE36 = re.compile(r"[0-9a-z]+")


@dataclass(frozen=True, slots=True)
class ScaledJobNames:
    """The names of one reading's Jobs: ``<object>-<reading's id in base 36>-<index>``."""

    prefix: str

    def name(self, index: int) -> str:
        """Returns the name of the Job with this index, a DNS label."""
        return f"{self.prefix}{index}"

    def index(self, name: str) -> int | None:
        """Returns the index of a Job that this reading made, None for any other name."""
        digits = name.removeprefix(self.prefix)
        return int(digits) if digits != name and digits.isdecimal() else None


def of(owner: str, reading: int) -> ScaledJobNames:
    """Returns the names for one reading (its id) of the object called `owner`."""
    return ScaledJobNames(f"{claim_names.stem(owner)}-{claim_names.base36(reading)}-")


def reading(owner: str, name: str) -> int | None:
    """Returns the id of the reading that made the Job of this name for `owner`, None for any other name."""
    id, _, index = name.removeprefix(f"{claim_names.stem(owner)}-").rpartition("-")
    if not name.startswith(f"{claim_names.stem(owner)}-") or not index.isdecimal() or not _BASE36.fullmatch(id):
        return None
    return int(id, 36)
