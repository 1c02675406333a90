"""docs/kinds.md, and who has which field."""

from deploy import generated_docs, kinds_reference
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "kinds.md"


def test_the_page_is_in_step_with_the_models() -> None:
    assert PAGE.read_text() == generated_docs.filled(PAGE.name, kinds_reference.render()), (
        "run: python -m deploy.kinds_reference"
    )


def test_every_field_that_is_said_to_be_ours_exists() -> None:
    page = kinds_reference.render()
    for fields in kinds_reference._OURS.values():
        for each in fields:
            assert f"`{each}`" in page, each


#: Fields that Kubernetes' own pages describe.
PLAIN = {"template", "labels", "annotations"}


def test_every_field_has_a_meaning() -> None:
    cells = [
        [cell.strip(" *`") for cell in line.split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith(("| `", "| **`"))
    ]
    assert {cell[1] for cell in cells if not cell[5] and cell[1].rpartition(".")[2] not in PLAIN} == set()


def test_a_field_of_a_cron_job_is_told_from_one_of_ours() -> None:
    rows = {line.split("|")[1].strip(" *`"): line.split("|")[4].strip() for line in _section("ScheduledJob")}
    assert (rows["spec.schedule"], rows["spec.jitterSeconds"]) == ("Kubernetes", "Penstock")


def _section(kind: str) -> list[str]:
    text = kinds_reference.render().partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    return [line for line in text.splitlines() if line.startswith("|") and "`" in line]
