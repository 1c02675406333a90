"""deploy/compose.yaml, read as `docker compose` reads it without variables and files of a user."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import ROOT

PATH = ROOT / "deploy" / "compose.yaml"


def interpolated(text: str) -> str:
    """Variables take the defaults that the file gives them."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def read(path: Path = PATH) -> dict[str, Any]:
    file: dict[str, Any] = yaml.safe_load(interpolated(path.read_text()))
    return file


def command(service: Mapping[str, Any]) -> list[str]:
    """Two dollars are one: compose takes a single one for a variable of its own."""
    return [word.replace("$$", "$") for word in service["command"]]


def health_check(service: Mapping[str, Any]) -> Sequence[str]:
    """The command of a service's health check."""
    kind, *words = service["healthcheck"]["test"]
    assert kind in ("CMD", "CMD-SHELL"), kind
    return words if kind == "CMD" else ("sh", "-c", words[0].replace("$$", "$"))


FILE = read()
#: The services that are processes of Penstock.
PROCESSES: dict[str, dict[str, Any]] = {
    name: service for name, service in FILE["services"].items() if service["image"].startswith("penstock:")
}
