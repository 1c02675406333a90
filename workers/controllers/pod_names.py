"""Names of generated pods: a row of them for each owner, the same whenever it is asked for."""

from collections.abc import Iterator, Set
from hashlib import blake2b

from workers.api.kinds import Object

#: The letters of generated names: no vowels, so that no words appear (the API server's own alphabet).
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
#: What comes before the five letters: a pod's name is its host name as well, so longer names of owners are cut.
_STEM = 58


def pod_name(owner: Object, slot: str, ordinal: int) -> str:
    """``<owner><slot>-<5 letters>``, the letters made from the owner's uid, the slot and the ordinal within it.

    A row of names, not chance: a plan that was cut short before its pods became known asks for the same names again,
    and so makes no pod twice. slot: ``-<index>`` for the pods of one index, else empty.
    """
    metadata = owner["metadata"]
    seed = f"{metadata['uid']}{slot}/{ordinal}"
    stem = metadata["name"][: _STEM - 1 - len(slot)].rstrip("-.")
    return f"{stem}{slot}-{letters(seed, 5)}"


def free(owner: Object, slot: str, taken: Set[str], number: int) -> Iterator[str]:
    """The first names of the slot's row that are not taken, each once."""
    used: set[str] = set()
    ordinal = 0
    while len(used) < number:
        name = pod_name(owner, slot, ordinal)
        if name not in taken and name not in used:
            used.add(name)
            yield name
        ordinal += 1


def letters(text: str, number: int) -> str:
    """So many letters (at most 13) that stand for a text."""
    rest = int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
    word = ""
    for _ in range(number):
        rest, letter = divmod(rest, len(_LETTERS))
        word += _LETTERS[letter]
    return word
