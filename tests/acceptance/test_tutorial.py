"""docs/tutorial.md, line by line, in an empty folder."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.tables import for_each
from tests.support.terminal import COMMAND, PATIENCE, environment

PAGE = ROOT / "docs" / "tutorial.md"
_BLOCK = re.compile(r"(?:Save this as `(?P<file>[^`]+)`:\n\n)?```(?P<kind>yaml|console)\n(?P<text>.*?)```", re.DOTALL)
#: Commands that change nothing: they are typed again until they print what the page says.
_READS = ("penstock get", "penstock logs", "penstock explain", "penstock events list", "penstock top")


@dataclass(frozen=True)
class Step:
    """A file to save, or a command with what it prints."""

    file: str = ""
    command: str = ""
    text: str = ""


def steps() -> Iterator[Step]:
    for block in _BLOCK.finditer(PAGE.read_text()):
        if block["kind"] == "yaml":
            assert block["file"], f"a manifest without a name: {block['text'][:80]}"
            yield Step(file=block["file"], text=block["text"])
            continue
        for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield Step(command=command, text=printed)


def pattern(printed: str) -> re.Pattern[str]:
    """What the page says that a command prints: a line of `…` is any lines, `…` in a line any text, a space several."""
    lines = []
    for line in printed.splitlines():
        if line == "…":
            lines.append(r"(?:.*\n)*?")
            continue
        parts = (re.escape(part) for part in line.split("…"))
        lines.append(".*".join(re.sub(r"(?:\\ )+", " +", part) for part in parts) + r" *\n")
    return re.compile("".join(lines))


class Shell:
    """A user's shell: the commands of one folder, and what they left in the background."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.started: list[subprocess.Popen[bytes]] = []
        programs = folder.parent / "programs"
        programs.mkdir()
        for name, argv in (("penstock", COMMAND), ("python", (sys.executable,))):
            file = programs / name
            file.write_text(f'#!/bin/sh\nexec {" ".join(argv)} "$@"\n')
            file.chmod(0o755)
        self.variables = environment(PATH=f"{programs}:{os.environ['PATH']}", HOME=str(folder.parent))

    def _bash(self, command: str) -> list[str]:
        text = command.replace("6379", str(self.port)).replace("redis.Redis()", f"redis.Redis(port={self.port})")
        return ["bash", "-c", text]

    def begin(self, command: str) -> None:
        process = subprocess.Popen(
            self._bash(f"exec {command.removesuffix('&')}"),
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
        )
        self.started.append(process)

    def type(self, command: str, printed: str) -> None:
        """A command line; what it prints must be what the page says, at once or after a while where it only reads."""
        wanted, deadline = pattern(printed), time.monotonic() + PATIENCE
        while True:
            done = subprocess.run(
                self._bash(command),
                cwd=self.folder,
                env=self.variables,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            # Notes go to standard error; the page shows results.
            printed_now = done.stdout + ("\n" if done.stdout and not done.stdout.endswith("\n") else "")
            if done.returncode == 0 and wanted.fullmatch(printed_now):
                return
            again = command.startswith(_READS) and time.monotonic() < deadline
            assert again, f"{command}\n--- printed\n{done.stdout}{done.stderr}\n--- the page says\n{printed}"
            time.sleep(0.2)

    def close(self) -> None:
        for process in reversed(self.started):
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    folder = tmp_path / "work"
    folder.mkdir()
    shell = Shell(folder, free_port())
    yield shell
    shell.close()


@pytest.mark.timeout(400)
def test_every_line_of_the_tutorial_does_what_it_says(shell: Shell) -> None:
    for step in steps():
        if step.file:
            (shell.folder / step.file).write_text(step.text.replace("6379", str(shell.port)))
        elif step.command.endswith("&"):
            shell.begin(step.command)
        else:
            shell.type(step.command, step.text)


def test_a_block_that_starts_a_cluster_asks_it_for_nothing() -> None:
    """Who pastes the block would type both in one instant, before there is a cluster to wait for."""
    blocks = [match["text"] for match in _BLOCK.finditer(PAGE.read_text())]
    assert [text.count("\n$ ") for text in blocks if "penstock up" in text] == [0]


@for_each(
    ("one\n", "one\n", True),
    ("one\n", "one\ntwo\n", False),
    ("…\ntwo\n", "one\nand\ntwo\n", True),
    ("a … b\n", "a    x y  b\n", True),
    ("a … b\n", "a x\nb\n", False),
    ("", "", True),
    ("", "x\n", False),
)
def test_what_a_page_says_is_compared_with_what_is_printed(printed: str, text: str, fits: bool) -> None:
    assert bool(pattern(printed).fullmatch(text)) == fits
