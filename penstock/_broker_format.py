"""The format of Penstock's data in the broker: which formats this release reads, and when it refuses.

The number stands in the key ``{prefix}:format``. It rises with a change that an earlier release would misread. Releases
before the first that wrote it left no such key: their data is format 0, laid out as format 1. Format 2 adds the logs of
children (workers/lua/child_log.lua), in which readers would miss what an earlier release writes; data without them is
read whole. Format 3 compresses large objects (workers/cache/codec.py), which earlier releases cannot read. While a
backup is restored a word stands in the number's place, which every release refuses: half of a backup must not be worked
on.
"""

from collections.abc import Mapping
from enum import Enum

from penstock.errors import UserError

#: The format that this release writes.
FORMAT = 3

#: What stands in place of the number while a backup is restored (deploy/backup/restoring.py).
RESTORING = "restoring"


class Handling(Enum):
    """The verdict of this release on data of another format."""

    #: Our scripts read it as it is: only the number changes.
    ADOPT = "adopt"


#: Every other format that this release takes over, and how.
OTHERS: Mapping[int, Handling] = dict.fromkeys((0, 1, 2), Handling.ADOPT)


class FormatRefused(UserError):  # noqa: N818 - what happened
    """The broker's data has a format that this release does not read, or is half of a backup."""


def adoptable(others: Mapping[int, Handling] = OTHERS) -> tuple[int, ...]:
    """Returns the formats whose number may be replaced by our own."""
    return tuple(sorted(number for number, handling in others.items() if handling is Handling.ADOPT))


def check(found: bytes | str | None, *, own: int = FORMAT, others: Mapping[int, Handling] = OTHERS) -> int:
    """Returns the number of a format that this release reads.

    found: the content of the key, None without one. Raises FormatRefused, with what to do.
    """
    text = (found.decode(errors="replace") if isinstance(found, bytes) else found) or "0"
    number = int(text) if text.isascii() and text.isdecimal() else None
    if number is not None and number in {own, *others}:
        return number
    if text == RESTORING:
        raise FormatRefused("the broker has half of a backup: finish it with `penstock restore FILE`, then start again")
    *most, last = map(str, sorted({own, *others}))
    reads = f"{', '.join(most)} and {last}" if most else last
    if number is None:
        advice = "This is no number: another program wrote it, or this is not Penstock's broker"
    elif number > own:
        advice = "A newer release wrote it: start that release or a later one, or use another broker or prefix"
    else:
        advice = "A release too old for this one wrote it: start a release between the two first"
    raise FormatRefused(f"the broker's data has format {text[:40]}; this release reads {reads}. {advice}")
