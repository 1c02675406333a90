"""Every deliberate difference from KEDA: the page says what the code has, and no flag is without effect."""

from typing import get_args

import pytest

from tests.support.paths import ROOT
from workers.api import keda_compat
from workers.api.keda_compat import FLAGS, Quirk
from workers.controllers import registry
from workers.settings import Settings

PAGE = (ROOT / "docs" / "beyond-keda.md").read_text()
SOURCES = "".join(
    path.read_text()
    for package in ("penstock", "scalers", "workers")
    for path in (ROOT / package).rglob("*.py")
    if path.name != "keda_compat.py"
)


def test_the_page_has_the_table_of_the_code() -> None:
    assert keda_compat.render() in PAGE, "run: python -m workers.api.keda_compat, and put it into docs/beyond-keda.md"


def test_every_difference_without_a_flag_says_what_keda_does_what_penstock_does_and_why() -> None:
    table = PAGE.split("\nThese have no flag:\n\n")[1].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]
    assert len(rows) > 20
    assert all(len(row) == 4 and all(row) for row in rows), rows


def test_every_flag_is_a_row_and_the_setting_names_it() -> None:
    assert set(get_args(Quirk)) == set(FLAGS)
    description = str(Settings.model_fields["keda_quirks"].description)
    assert all(flag in description for flag in FLAGS)


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_has_an_effect_in_the_code(flag: str) -> None:
    assert f'"{flag}"' in SOURCES


def test_the_quirks_reach_every_controller_of_kedas_kinds() -> None:
    quirks = frozenset(get_args(Quirk))
    plain, known = (registry.controllers("managed", cronjobs=False, quirks=each) for each in (frozenset(), quirks))
    changed = {id for id in known if id.endswith("keda.sh") and known[id] != plain[id]}
    assert changed == {"scaledjobs.keda.sh", "scaledobjects.keda.sh"}
