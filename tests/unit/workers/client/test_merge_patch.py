"""The smallest merge patch between two objects."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.merging import merged
from tests.support.tables import cases
from workers.api.merge_patch import diff

#: JSON without null: null in a merge patch means "remove", so it cannot be a value.
VALUES = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_the_patch_leads_from_the_old_to_the_new(old, new):
    assert merged(old, diff(old, new)) == new


@given(OBJECTS)
def test_nothing_changed_is_an_empty_patch(value):
    assert diff(value, value) == {}


@cases(
    ("only the leaf that differs", {"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 3}}, {"a": {"y": 3}}),
    ("a removed key becomes null", {"a": 1, "b": 2}, {"b": 2}, {"a": None}),
    ("lists are replaced whole", {"c": [1, 2]}, {"c": [1, 3]}, {"c": [1, 3]}),
)
def test_the_patch_is_small(old, new, patch):
    assert diff(old, new) == patch
