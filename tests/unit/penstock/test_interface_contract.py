"""The import contract of the public interface names every module of it."""

import tomllib

from tests.support.paths import ROOT

#: What starts our processes, which nothing of the interface may lead to.
STARTS = {"penstock.app", "penstock.__main__"}


def test_the_contract_names_every_module_of_the_public_interface() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each["name"].startswith("the public interface stands by itself")]
    modules = {f"penstock.{path.stem}" for path in (ROOT / "penstock").glob("*.py")} - {"penstock.__init__"}
    assert sorted(contract["source_modules"]) == sorted(modules - STARTS)
    assert set(contract["forbidden_modules"]) >= STARTS
