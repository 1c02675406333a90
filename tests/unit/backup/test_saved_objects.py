"""The objects of a backup: every key is in exactly one of them."""

from collections import Counter

from deploy.backup import saved_objects
from deploy.backup.saved_objects import CHUNK
from scheduler.keys import Keys

KEYS = Keys("penstock")


def test_a_key_that_a_scan_names_twice_is_in_one_object() -> None:
    """SCAN may name a key again while the server's table of keys grows or shrinks."""
    names = [f"{KEYS.tag}:decision:default/{number:04}" for number in range(2 * CHUNK)]
    objects = saved_objects.grouped(KEYS, sorted([*names, names[CHUNK - 1]]), {})
    assert Counter(key for each in objects for key in each.keys) == Counter(names)
