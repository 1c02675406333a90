"""Every trigger type of KEDA's list is either measured, or refused by a name that the user knows."""

import pytest

from scalers.scaler_registry import ScalerRegistry
from scalers.triggers.keda_types import TYPES
from workers.errors import UserError

MISSING = sorted(TYPES.difference(ScalerRegistry().known()))


@pytest.mark.parametrize("type_", MISSING)
def test_a_type_that_is_missing_is_refused_as_not_supported_yet(type_: str) -> None:
    with pytest.raises(UserError, match=rf"^trigger type {type_} is not supported yet; supported are "):
        ScalerRegistry().find(type_)


@pytest.mark.parametrize("type_", sorted(TYPES.difference(MISSING)))
def test_all_others_are_measured(type_: str) -> None:
    assert ScalerRegistry().find(type_).model_fields
