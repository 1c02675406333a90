"""Names of generated pods: a deterministic sequence for each owner and slot."""

from collections.abc import Iterator, Set
from hashlib import blake2b

from workers.api.kinds import Object

#: The alphabet of generated names, the API server's: no vowels, so that no words appear.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
#: Most characters before the five letters. A pod's name is its host name too, so longer names of owners are cut.
_STEM = 58


def pod_name(owner: Object, slot: str, ordinal: int) -> str:
    """Returns ``<owner><slot>-<5 letters>``; the letters derive from the owner's uid, the slot and the ordinal.

    Names are deterministic, so that a plan that was cut short before the store saw its pods asks for the same names
    again and creates no pod twice. slot: ``-<index>`` for the pods of one index, else empty.
    """
    metadata = owner["metadata"]
    seed = f"{metadata['uid']}{slot}/{ordinal}"
    stem = metadata["name"][: _STEM - 1 - len(slot)].rstrip("-.")
    return f"{stem}{slot}-{letters(seed, 5)}"


def free(owner: Object, slot: str, taken: Set[str], number: int) -> Iterator[str]:
    """Yields the first so many names of the slot's sequence that are not taken, each once."""
    used: set[str] = set()
    ordinal = 0
    while len(used) < number:
        name = pod_name(owner, slot, ordinal)
        if name not in taken and name not in used:
            used.add(name)
            yield name
        ordinal += 1


def letters(text: str, number: int) -> str:
    """Returns a hash of the text in so many letters (at most 13)."""
    rest = int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
    word = ""
    for _ in range(number):
        rest, letter = divmod(rest, len(_LETTERS))
        word += _LETTERS[letter]
    return word
