"""The rooms and the list of mutation testing, which runs too seldom to notice a folder, a test or a line that moved."""

import pytest

from tests.mutants.mutant import accepted
from tests.mutants.rooms import ROOMS, Room
from tests.support.paths import ROOT


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.folder)
def test_a_room_and_its_tests_exist(room: Room) -> None:
    scripts = list((ROOT / room.folder).rglob("*.lua" if room.is_lua else "*.py"))
    assert scripts
    assert [name for name in room.tests if not (ROOT / name).exists()] == []


def test_what_is_accepted_is_a_line_of_its_file() -> None:
    gone = [key for key in accepted() if not _stands(*key.partition(" => ")[0].split(": ", 1))]
    assert gone == []


def _stands(file: str, line: str) -> bool:
    return line in (" ".join(each.split()) for each in (ROOT / file).read_text().splitlines())
