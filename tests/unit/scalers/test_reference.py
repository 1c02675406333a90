"""docs/triggers.md."""

import re

import pytest

from deploy import generated_docs, triggers_reference
from penstock.parameters import Origin
from scalers.scaler_registry import ScalerRegistry
from scalers.triggers.keda_types import TYPES
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "triggers.md"


def test_the_page_is_what_the_scalers_say() -> None:
    assert PAGE.read_text() == generated_docs.filled(PAGE.name, triggers_reference.render()), (
        "run: python -m deploy.triggers_reference"
    )


def test_every_type_is_on_the_page_once_as_supported_or_not() -> None:
    text = PAGE.read_text()
    supported = re.findall(r"^## ([a-z-]+)$", text, re.MULTILINE)
    refused = re.findall(r"`([a-z-]+)`", text.rpartition(triggers_reference.MISSING)[2])
    again = "run: pip install -e '.[dev]', then python -m deploy.triggers_reference"
    assert set(ScalerRegistry().known()) - set(supported) == set(), again
    assert supported == list(ScalerRegistry().known()), again
    assert sorted({*supported, *refused} & TYPES) == sorted(TYPES)
    assert not set(supported) & set(refused)


@pytest.mark.parametrize("type_", ScalerRegistry().known())
def test_every_parameter_has_a_meaning(type_: str) -> None:
    fields = ScalerRegistry().find(type_).model_fields.items()
    assert [name for name, info in fields if Origin.of(name, info).given and not info.description] == []
