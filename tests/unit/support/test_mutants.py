"""The rooms of mutation testing, which runs too seldom to notice a folder or a test that moved."""

import pytest

from tests.mutants.rooms import ROOMS, Room
from tests.support.paths import ROOT


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.folder)
def test_a_room_and_its_tests_exist(room: Room) -> None:
    scripts = list((ROOT / room.folder).rglob("*.lua" if room.is_lua else "*.py"))
    assert scripts
    assert [name for name in room.tests if not (ROOT / name).exists()] == []
