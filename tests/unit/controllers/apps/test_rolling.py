"""The arithmetic of rollouts, number by number."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workers.controllers.apps.rolling import Part, RolloutLimits, new_size, old_sizes, share


@pytest.mark.parametrize(
    ("wanted", "surge", "new", "total", "size"),
    [
        pytest.param(10, 3, 0, 10, 3, id="as much as the surge allows"),
        pytest.param(10, 0, 0, 10, 0, id="no surge: an old one must go first"),
        pytest.param(10, 0, 0, 8, 2, id="room that old ones left"),
        pytest.param(10, 3, 9, 10, 10, id="no more than wanted"),
        pytest.param(5, 2, 8, 8, 5, id="too many are taken back"),
        pytest.param(3, 1, 0, 9, 0, id="no room"),
    ],
)
def test_the_size_of_the_new_set(wanted: int, surge: int, new: int, total: int, size: int):
    assert new_size(wanted, RolloutLimits(surge, 0), new, total) == size


@pytest.mark.parametrize(
    ("wanted", "limits", "new", "old", "sizes"),
    [
        pytest.param(10, RolloutLimits(0, 2), Part(0, 0), [Part(10, 10)], [8], id="as many as may be unavailable"),
        pytest.param(10, RolloutLimits(3, 0), Part(3, 0), [Part(10, 10)], [10], id="new ones do not serve yet"),
        pytest.param(10, RolloutLimits(3, 0), Part(3, 3), [Part(10, 10)], [7], id="new ones serve"),
        pytest.param(10, RolloutLimits(0, 2), Part(2, 0), [Part(8, 8)], [8], id="the limit is used up"),
        pytest.param(4, RolloutLimits(1, 1), Part(1, 0), [Part(4, 0)], [3], id="what does not serve goes first"),
        pytest.param(4, RolloutLimits(1, 1), Part(1, 1), [Part(2, 0), Part(2, 2)], [0, 2], id="of whichever set"),
        pytest.param(4, RolloutLimits(0, 1), Part(0, 0), [Part(1, 1), Part(3, 3)], [0, 3], id="the oldest first"),
        pytest.param(4, RolloutLimits(0, 2), Part(2, 2), [Part(2, 4)], [0], id="a late status counts what is gone"),
        pytest.param(0, RolloutLimits(0, 0), Part(0, 0), [Part(3, 3)], [0], id="none wanted"),
    ],
)
def test_the_sizes_of_the_old_sets(wanted: int, limits: RolloutLimits, new: Part, old: list[Part], sizes: list[int]):
    assert old_sizes(wanted, limits, new, old) == sizes


parts = st.builds(Part, st.integers(0, 20), st.integers(0, 20))


@given(wanted=st.integers(0, 30), surge=st.integers(0, 10), less=st.integers(0, 10), new=parts, old=st.lists(parts))
def test_sets_never_leave_too_few_available_pods(wanted: int, surge: int, less: int, new: Part, old: list[Part]):
    limits = RolloutLimits(surge, min(less, wanted))
    sizes = old_sizes(wanted, limits, new, old)
    assert all(0 <= size <= part.replicas for size, part in zip(sizes, old, strict=True))
    before = new.surely + sum(part.surely for part in old)
    after = new.surely + sum(min(size, part.available) for size, part in zip(sizes, old, strict=True))
    assert after >= min(before, wanted - limits.unavailable)


@pytest.mark.parametrize(
    ("sizes", "most", "allowed", "shared"),
    [
        pytest.param([5, 8], [13, 13], 20, [8, 12], id="each its share"),
        pytest.param([5, 5], [10, 10], 11, [6, 5], id="of equals the newest grows first"),
        pytest.param([5, 5], [10, 10], 9, [5, 4], id="of equals the oldest shrinks first"),
        pytest.param([2, 10], [12, 12], 0, [0, 0], id="none wanted"),
        pytest.param([3, 0, 9], [12, 12, 12], 24, [6, 0, 18], id="an empty set stays empty"),
        pytest.param([4, 4], [8, 8], 8, [4, 4], id="nothing to share"),
        pytest.param([1, 1], [None, None], 4, [2, 2], id="nobody knows what it was"),
        pytest.param([], [], 4, [], id="no sets"),
    ],
)
def test_sets_share_by_their_sizes(sizes: list[int], most: list[int | None], allowed: int, shared: list[int]):
    assert share(sizes, most, allowed) == shared


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5), allowed=st.integers(0, 100))
def test_what_is_shared_comes_to_what_is_allowed(sizes: list[int], allowed: int):
    assume(allowed > 0)
    shared = share(sizes, [sum(sizes)] * len(sizes), allowed)
    assert sum(shared) == allowed
    assert min(shared) >= 0
    grown = [after - before for before, after in zip(sizes, shared, strict=True)]
    assert all(each >= 0 for each in grown) or all(each <= 0 for each in grown)
