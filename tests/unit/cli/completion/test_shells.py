"""The scripts in their shells: the shells of this machine evaluate them and complete a line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.terminal import environment

LIGHT = ("pydantic", "kubernetes", "redis", "celery", "aiohttp", "rich", "textual", "opentelemetry")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PATH with the command of this checkout."""
    folder = tmp_path_factory.mktemp("path")
    command = folder / "penstock"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P {ROOT / "penstock" / "__main__.py"} "$@"\n')
    command.chmod(0o755)
    return folder


def shell(folder: Path, *argv: str) -> str:
    path = f"{folder}:{Path('/usr/bin')}:/bin"
    variables = environment(PATH=path, HOME=str(folder))
    done = subprocess.run(argv, capture_output=True, text=True, env=variables, cwd=folder, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("penstock", "des"), {"describe"}),
        (("penstock", "get", "--wat"), {"--watch"}),
        (("penstock", "completion", ""), {"bash", "zsh", "fish"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bash_completes(folder: Path, words: tuple[str, ...], expected: set[str]) -> None:
    line = " ".join(f"'{word}'" for word in words)
    script = (
        "source <(penstock completion bash)\n"
        f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}\n"
        "_penstock_completion penstock\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert set(shell(folder, "bash", "-c", script).split()) == expected


def installed(name: str) -> str:
    """The path of a shell; skips the test without one."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed: its completion was NOT run")
    return path


def test_zsh_completes(folder: Path) -> None:
    assert shell(folder, "penstock", "completion", "zsh").startswith("#compdef penstock")
    # The function offers what it found with zsh's own builtins, which work in its line editor alone.
    lines = (
        "autoload -U compinit; compinit -u; source <(penstock completion zsh)\n"
        '_describe() { print -l -- "${(P@)3}" }; compadd() { print -l -- "${(P@)@[-1]}" }\n'
        "words=(penstock des); CURRENT=2; _penstock_completion"
    )
    assert [line.partition(":")[0] for line in shell(folder, installed("zsh"), "-c", lines).split("\n") if line] == [
        "describe"
    ]


def test_fish_completes(folder: Path) -> None:
    assert "complete --no-files --command penstock" in shell(folder, "penstock", "completion", "fish")
    lines = 'penstock completion fish | source; complete -C "penstock des"'
    offered = shell(folder, installed("fish"), "-c", lines).splitlines()
    assert [line.partition("\t")[0] for line in offered] == ["describe"]


def test_completion_imports_nothing_heavy(folder: Path) -> None:
    program = (
        "import os, sys; from click.shell_completion import ShellComplete; from deploy.cli.main import cli\n"
        "complete = ShellComplete(cli, {}, 'penstock', '_PENSTOCK_COMPLETE').get_completions\n"
        "complete(['get'], ''); complete(['get', '-n'], '')\n"
        f"print([name for name in {LIGHT!r} if name in sys.modules])"
    )
    assert shell(folder, sys.executable, "-c", program) == "[]\n"
