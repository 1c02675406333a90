"""Manifests and command lines of the pages are what Penstock takes: no unknown kind, field, command or flag."""

import asyncio
import io
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
import yaml

from deploy.cli import main
from deploy.cli.check import inventory, judgment
from deploy.cli.manifests import Manifest, read
from tests.support.paths import ROOT
from tests.support.tables import for_each
from workers.api import kinds
from workers.api.kinds import EVENT_JOB, Ref
from workers.api.penstock_dev import eventjob
from workers.settings import Settings

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
#: Pages that are made from the commands themselves.
MADE = {"command.md"}
#: By page, the command lines that are no whole ones, on purpose.
ALLOWED = {"observability.md": {"penstock push --gateway"}}

_BLOCK = re.compile(r"^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"(?<!`)`(?P<text>penstock [^`]+)`(?!`)")
_LINE = re.compile(r"(?:^|\|)\s*\$?\s*(?P<text>penstock .+)$")
#: Words of a shell that end a command.
_ENDS = re.compile(r"^(\d?[<>|&;].*|[<>|&;)]+.*)$")


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def manifests(page: Path) -> Iterator[Manifest]:
    """Yields the objects of a page's YAML; a text without apiVersion or kind is a part of one."""
    for match in _BLOCK.finditer(page.read_text()):
        if match["language"] == "yaml":
            for document in yaml.safe_load_all(match["text"]):
                if isinstance(document, dict) and {"apiVersion", "kind"} <= document.keys():
                    yield from read(["-"], stdin=io.StringIO(yaml.safe_dump(document)))


def lines(page: Path) -> Iterator[str]:
    """Yields the `penstock` command lines of a page: those of its blocks and of its sentences."""
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        joined = match["text"].replace("\\\n", " ")
        for line in joined.splitlines():
            if found := _LINE.search(line):
                yield found["text"]
    for match in _SPAN.finditer(_BLOCK.sub("", text)):
        yield " ".join(match["text"].split())


def words(line: str) -> list[str]:
    """Returns the words of the first command of a line."""
    found = []
    for word in shlex.split(line, comments=True):
        if _ENDS.match(word):
            break
        if word.startswith("[") or word in ("…", "..."):
            continue  # an optional part, or what is left out
        found.append(word)
    return found[1:]


def check_line(line: str) -> None:
    """Raises click.UsageError for an unknown command or flag, and for a value that a flag does not know."""
    name, *rest = words(line) or [""]
    if name in ("", "--help", "-h", "--debug"):
        return
    command: click.Command | None = main.command_of(name) if name in main.LISTED | main.HIDDEN else None
    if command is None:
        raise click.UsageError(f"there is no command {name}")
    context = click.Context(command, info_name=name, **command.context_settings)
    values, rest, _ = command.make_parser(context).parse_args(rest)
    if isinstance(command, click.Group):
        if not rest:
            return
        verb = command.get_command(context, rest[0])
        if verb is None:
            raise click.UsageError(f"{name} has no command {rest[0]}")
        command, context = verb, click.Context(verb, parent=context, info_name=rest[0])
        values, _, _ = verb.make_parser(context).parse_args(rest[1:])
    for parameter in command.params:
        given = values.get(str(parameter.name))
        for one in given if isinstance(given, list | tuple) else [given]:
            if isinstance(parameter.type, click.Choice) and isinstance(one, str):
                parameter.type.convert(one, parameter, context)


def refusals(found: Sequence[Manifest]) -> Iterator[str]:
    """Yields what Penstock does not take of the objects of one page."""
    known = inventory.of_manifests(found, "default")
    for each in found:
        kind = kinds.by_manifest(each.api_version, each.kind)
        if kind is None:
            yield f"{each.kind}/{each.name}: the kind is unknown"
            continue
        candidate = inventory.Candidate(
            Ref(kind, "default" if kind.namespaced else "", each.name), each.body, each.where
        )
        judged = asyncio.run(judgment.judge(candidate, known, Settings()))
        yield from (
            f"{each.kind}/{each.name}: {point.field}: {point.text}"
            for point in judged.points
            # A trigger that only a quirk of KEDA lets through is no example.
            if point.verdict == "not supported" or (point.verdict == "differs" and point.field == "spec.triggers")
        )
        if kind == EVENT_JOB:
            eventjob.parse({**each.body, "metadata": {"namespace": "default", **each.body["metadata"]}})


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_yaml_of_a_page_can_be_read_and_its_objects_are_taken_whole(page: Path) -> None:
    assert list(refusals(list(manifests(page)))) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in MADE], ids=page_id)
def test_commands_of_a_page_exist_with_their_flags(page: Path) -> None:
    wrong = []
    for line in lines(page):
        if line in ALLOWED.get(page.name, set()):
            continue
        try:
            check_line(line)
        except (click.UsageError, ValueError) as error:
            wrong.append(f"{line}: {error}")
    assert wrong == []


@for_each(
    "penstock upp",
    "penstock up --no-such-flag",
    "penstock events lst orders",
    "penstock events list orders --state lost",
    "penstock delete jobs --cascade sometimes",
    "penstock push orders --data",
)
def test_a_wrong_command_line_is_found(line: str) -> None:
    with pytest.raises(click.UsageError):
        check_line(line)


def test_a_wrong_field_is_found() -> None:
    text = "apiVersion: keda.sh/v1alpha1\nkind: ScaledJob\nmetadata: {name: a}\nspec: {maxReplicas: 3}"
    assert any("maxReplicas" in one for one in refusals(read(["-"], stdin=io.StringIO(text))))
