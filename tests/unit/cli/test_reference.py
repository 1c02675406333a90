"""docs/command.md."""

from deploy import command_reference, generated_docs
from deploy.cli import main
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "command.md"


def test_the_page_matches_the_commands() -> None:
    assert PAGE.read_text() == generated_docs.filled(PAGE.name, command_reference.render()), (
        "run: python -m deploy.command_reference"
    )


def test_the_page_has_every_command_that_is_not_hidden() -> None:
    names = set(main.LISTED)
    assert {
        line.removeprefix("### penstock ") for line in PAGE.read_text().splitlines() if line.startswith("### ")
    } == names
