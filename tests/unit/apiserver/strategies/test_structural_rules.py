"""The schemas of CustomResourceDefinitions."""

from typing import Any

import pytest

from deploy.local.apiserver.strategies import structural_rules
from tests.unit.apiserver.schema_faults import FAULTS
from workers.api import crds


@pytest.mark.parametrize(("form", "fields"), FAULTS.values(), ids=FAULTS)
def test_a_schema_is_structural_and_its_defaults_keep_it(form: Any, fields: list[str]) -> None:
    assert {error.field for error in structural_rules.problems(form, "schema")} == {f"schema.{name}" for name in fields}


def test_schemas_of_our_own_kinds_are_structural() -> None:
    for definition in crds.all_crds(volcano=True):
        for version in definition["spec"]["versions"]:
            assert not list(structural_rules.problems(version["schema"]["openAPIV3Schema"], "schema"))
