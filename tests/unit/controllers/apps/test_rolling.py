"""The arithmetic of rollouts, number by number."""

from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.support.tables import cases
from workers.controllers.apps.rolling import Part, RolloutLimits, new_size, old_sizes, share


@cases(
    ("as much as the surge allows", 10, 3, 0, 10, 3),
    ("no surge: an old one must go first", 10, 0, 0, 10, 0),
    ("room that old ones left", 10, 0, 0, 8, 2),
    ("no more than wanted", 10, 3, 9, 10, 10),
    ("too many are taken back", 5, 2, 8, 8, 5),
    ("no room", 3, 1, 0, 9, 0),
)
def test_the_size_of_the_new_set(wanted: int, surge: int, new: int, total: int, size: int):
    assert new_size(wanted, RolloutLimits(surge, 0), new, total) == size


@cases(
    ("as many as may be unavailable", 10, RolloutLimits(0, 2), Part(0, 0), [Part(10, 10)], [8]),
    ("new ones do not serve yet", 10, RolloutLimits(3, 0), Part(3, 0), [Part(10, 10)], [10]),
    ("new ones serve", 10, RolloutLimits(3, 0), Part(3, 3), [Part(10, 10)], [7]),
    ("the limit is used up", 10, RolloutLimits(0, 2), Part(2, 0), [Part(8, 8)], [8]),
    ("what does not serve goes first", 4, RolloutLimits(1, 1), Part(1, 0), [Part(4, 0)], [3]),
    ("of whichever set", 4, RolloutLimits(1, 1), Part(1, 1), [Part(2, 0), Part(2, 2)], [0, 2]),
    ("the oldest first", 4, RolloutLimits(0, 1), Part(0, 0), [Part(1, 1), Part(3, 3)], [0, 3]),
    ("a late status counts what is gone", 4, RolloutLimits(0, 2), Part(2, 2), [Part(2, 4)], [0]),
    ("none wanted", 0, RolloutLimits(0, 0), Part(0, 0), [Part(3, 3)], [0]),
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


@cases(
    ("each its share", [5, 8], [13, 13], 20, [8, 12]),
    ("of equals the newest grows first", [5, 5], [10, 10], 11, [6, 5]),
    ("of equals the oldest shrinks first", [5, 5], [10, 10], 9, [5, 4]),
    ("none wanted", [2, 10], [12, 12], 0, [0, 0]),
    ("an empty set stays empty", [3, 0, 9], [12, 12, 12], 24, [6, 0, 18]),
    ("nothing to share", [4, 4], [8, 8], 8, [4, 4]),
    ("the size before is unknown", [1, 1], [None, None], 4, [2, 2]),
    ("a part that rounds to nothing", [5, 1, 1, 1, 1], [9] * 5, 11, [7, 1, 1, 1, 1]),
    ("no sets", [], [], 4, []),
)
def test_sets_share_by_their_sizes(sizes: list[int], most: list[int | None], allowed: int, shared: list[int]):
    assert share(sizes, most, allowed) == shared


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5), allowed=st.integers(0, 100))
@example(sizes=[1, 1, 1, 1], allowed=2)
def test_what_is_shared_comes_to_what_is_allowed(sizes: list[int], allowed: int):
    assume(allowed > 0)
    shared = share(sizes, [sum(sizes)] * len(sizes), allowed)
    assert sum(shared) == allowed
    assert min(shared) >= 0
    grown = [after - before for before, after in zip(sizes, shared, strict=True)]
    assert all(each >= 0 for each in grown) or all(each <= 0 for each in grown)
