"""The page docs/add-a-scaler.md, followed to the letter."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.connections import Connections
from penstock.scaler import Scaler
from scalers.scaler_registry import GROUP, REGISTRY
from scalers.triggers.parse import Triggers
from tests.support.paths import ROOT
from workers.api.kinds import SCALED_JOB, Object, Ref

PAGE = (ROOT / "docs" / "add-a-scaler.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def _followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's class is registered, and forgotten afterwards."""
    monkeypatch.setattr(REGISTRY, "_classes", dict(REGISTRY._classes))
    [code] = blocks("python")
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "docs/add-a-scaler.md", "exec"), names)
    [(type_, class_name)] = re.findall(r'^([a-z-]+) = "[a-z_.]+:(\w+)"$', blocks("toml")[0], re.MULTILINE)
    REGISTRY.register(type_)(names[class_name])


async def parse(**metadata: str) -> Any:
    [spec] = [yaml.safe_load(block) for block in blocks("yaml")]
    spec["triggers"][0]["metadata"].update(metadata)
    body: Object = {"metadata": {"namespace": "team", "name": "work", "uid": "u"}, "spec": spec}
    return await Triggers().parse(Ref(SCALED_JOB, "team", "work"), body)


@pytest.mark.usefixtures("_followed")
async def test_the_pages_scaler_measures(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    parsed = await parse(path=str(tmp_path))
    [probe] = parsed.probes
    scaler: Scaler = probe.scaler
    assert (probe.type, scaler.target, scaler.activation) == ("directory", 10, 0)
    assert await type(scaler).read([scaler], Connections()) == [3]


@pytest.mark.usefixtures("_followed")
async def test_the_pages_scaler_refuses_what_the_page_says_it_does() -> None:
    assert (await parse(filesPerJob="0")).problem == (
        "trigger 0 (directory): filesPerJob: must be greater than or equal to 1"
    )
    assert "did you mean filesPerJob?" in (await parse(filePerJob="1")).problem


def test_the_pages_entry_point_group_is_the_one_that_is_read() -> None:
    [block] = blocks("toml")
    assert f'[project.entry-points."{GROUP}"]' in block


def test_the_page_imports_the_public_package_alone() -> None:
    [code] = blocks("python")
    assert set(re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE)) == {"pathlib", "penstock"}


def test_the_files_the_page_names_are_there() -> None:
    named = re.findall(r"`((?:tests|scalers|docs)/[\w/.-]+)`", PAGE)
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []
