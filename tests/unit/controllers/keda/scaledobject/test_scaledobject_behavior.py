"""Scaling behavior: windows, policies, bounds, and the memory of proposals and changes."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controllers.factories import NOW
from workers.api.keda.scaledobject import Behavior
from workers.controllers.keda.scaledobject import behavior
from workers.controllers.keda.scaledobject.behavior import BehaviorAnswer, ReplicaBounds, ScalingMemory
from workers.controllers.keda.scaledobject.trigger_metrics import Tolerance

BOUNDS = ReplicaBounds(1, 100)
NONE = ScalingMemory()


def later(seconds: float):
    return NOW + timedelta(seconds=seconds)


def rules(**directions: object) -> Behavior:
    return Behavior.model_validate(directions)


def proposed(*entries: tuple[float, int], changes: tuple[tuple[float, int], ...] = ()) -> ScalingMemory:
    """Proposals and changes so many seconds ago."""
    known = ScalingMemory()
    for ago, replicas in entries:
        known = known.proposed(replicas, later(-ago))
    for ago, difference in changes:
        known = known.changed(difference, later(-ago))
    return known


PODS = {"type": "Pods", "value": 3, "periodSeconds": 60}
PERCENT = {"type": "Percent", "value": 50, "periodSeconds": 30}
EAGER = {"stabilizationWindowSeconds": 0}


@pytest.mark.parametrize(
    ("given", "current", "proposal", "known", "replicas"),
    [
        pytest.param(None, 5, 5, NONE, 5, id="as it is"),
        pytest.param(None, 5, None, NONE, 5, id="no proposal"),
        pytest.param(None, 1, 50, NONE, 4, id="without rules: up to four at once"),
        pytest.param(None, 5, 50, NONE, 10, id="without rules: at most twice as many"),
        pytest.param(None, 8, 50, proposed(changes=((5, 4),)), 8, id="without rules: twice in fifteen seconds"),
        pytest.param(None, 8, 50, proposed(changes=((15, 4),)), 16, id="without rules: twice again"),
        pytest.param(None, 5, 2, NONE, 2, id="down, with nothing higher in the window"),
        pytest.param(None, 5, 2, None, 5, id="down for the first time: what is there counts"),
        pytest.param(None, 5, 2, proposed((299, 4)), 4, id="down to the highest of the window"),
        pytest.param(None, 5, 2, proposed((300, 4)), 2, id="down when the window is over"),
        pytest.param(None, 5, 2, proposed((100, 9)), 5, id="a higher one does not lead up"),
        pytest.param(None, 200, 150, NONE, 100, id="above the maximum: down at once"),
        pytest.param(None, 5, 1000, NONE, 10, id="the maximum is not in the way yet"),
        pytest.param(None, 80, 1000, NONE, 100, id="never above the maximum"),
        pytest.param(rules(), 1, 50, NONE, 5, id="defaults up: four more"),
        pytest.param(rules(), 8, 50, NONE, 16, id="defaults up: or twice as many"),
        pytest.param(rules(scaleUp={"policies": [PODS]}), 8, 50, NONE, 11, id="pods"),
        pytest.param(
            rules(scaleUp={"policies": [PODS]}), 8, 50, proposed(changes=((59, 2),)), 9, id="pods in the period"
        ),
        pytest.param(
            rules(scaleUp={"policies": [PODS]}), 8, 50, proposed(changes=((60, 2),)), 11, id="pods after the period"
        ),
        pytest.param(
            rules(scaleUp={"policies": [PODS]}), 8, 50, proposed(changes=((9, 5),)), 8, id="never the other way"
        ),
        pytest.param(
            rules(scaleUp={"policies": [PODS]}),
            8,
            50,
            proposed(changes=((9, -2),)),
            13,
            id="what was removed comes back on top",
        ),
        pytest.param(rules(scaleUp={"policies": [PODS, PERCENT]}), 9, 50, NONE, 14, id="the one that allows most"),
        pytest.param(
            rules(scaleUp={"policies": [PODS, PERCENT], "selectPolicy": "Min"}), 9, 50, NONE, 12, id="or least"
        ),
        pytest.param(rules(scaleUp={"selectPolicy": "Disabled"}), 9, 50, NONE, 9, id="never up"),
        pytest.param(
            rules(scaleUp={"stabilizationWindowSeconds": 60}), 5, 9, proposed((30, 6)), 6, id="up to the lowest"
        ),
        pytest.param(
            rules(scaleUp={"stabilizationWindowSeconds": 60}), 5, 9, proposed((60, 6)), 9, id="up after the window"
        ),
        pytest.param(rules(scaleUp={"stabilizationWindowSeconds": 60}), 5, 9, None, 5, id="up for the first time"),
        pytest.param(rules(scaleDown=EAGER), 9, 2, None, 2, id="no window: down at once"),
        pytest.param(rules(scaleDown={**EAGER, "policies": [PODS]}), 9, 2, NONE, 6, id="down: pods"),
        pytest.param(rules(scaleDown={**EAGER, "policies": [PERCENT]}), 9, 2, NONE, 4, id="down: percent, cut off"),
        pytest.param(
            rules(scaleDown={**EAGER, "policies": [PODS, PERCENT]}),
            9,
            2,
            NONE,
            4,
            id="down: the one that allows most",
        ),
        pytest.param(
            rules(scaleDown={**EAGER, "policies": [PODS, PERCENT], "selectPolicy": "Min"}), 9, 2, NONE, 6, id="least"
        ),
        pytest.param(
            rules(scaleDown={**EAGER, "policies": [PODS]}),
            9,
            2,
            proposed(changes=((30, -2),)),
            8,
            id="in the period",
        ),
        pytest.param(
            rules(scaleDown={**EAGER, "policies": [PODS]}),
            9,
            2,
            proposed(changes=((30, -5),)),
            9,
            id="never back up",
        ),
        pytest.param(rules(scaleDown={**EAGER, "selectPolicy": "Disabled"}), 9, 2, NONE, 9, id="never down"),
        pytest.param(
            rules(scaleDown={**EAGER, "selectPolicy": "Disabled"}), 200, 2, NONE, 100, id="but for the maximum"
        ),
    ],
)
def test_replicas(given, current, proposal, known, replicas) -> None:
    answer = behavior.follow(proposal, current, BOUNDS, behavior.read(given), known, NOW)
    assert answer.replicas == replicas


def test_below_the_minimum_it_goes_up_at_once() -> None:
    assert behavior.follow(None, 2, ReplicaBounds(5, 100), behavior.read(None), NONE, NOW).replicas == 5


@pytest.mark.parametrize(
    ("given", "current", "proposal", "known", "again"),
    [
        pytest.param(None, 5, 5, NONE, None, id="nothing held back"),
        pytest.param(None, 5, 2, proposed((100, 5)), 200, id="when the window ends"),
        pytest.param(None, 1, 50, NONE, 15, id="when twice as many are allowed again"),
        pytest.param(None, 8, 50, proposed(changes=((5, 4),)), 10, id="when the last change is long ago"),
        pytest.param(rules(scaleUp={"policies": [PODS]}), 8, 50, NONE, 60, id="when the period ends"),
        pytest.param(
            rules(scaleUp={"policies": [PODS, PERCENT]}),
            9,
            50,
            proposed(changes=((40, 3),)),
            20,
            id="not in the past",
        ),
    ],
)
def test_when_to_look_again(given, current, proposal, known, again) -> None:
    answer = behavior.follow(proposal, current, BOUNDS, behavior.read(given), known, NOW)
    assert answer.again == (None if again is None else later(again))


def test_pausing_one_direction_is_disabling_it() -> None:
    held = behavior.read(None, scale_in_paused=True)
    assert (held.down.select, held.up.select) == ("Disabled", "Max")
    assert behavior.read(None, scale_out_paused=True).up.select == "Disabled"


@pytest.mark.parametrize(
    ("quantity", "share"),
    [
        pytest.param("0.05", 0.05, id="decimal"),
        pytest.param("50m", 0.05, id="thousandths"),
        pytest.param(None, 0.1, id="none"),
    ],
)
def test_tolerances(quantity, share) -> None:
    given = rules(scaleUp={"tolerance": quantity})
    assert behavior.read(given).tolerance == Tolerance(share, 0.1)


# Memory


def test_what_is_remembered_survives_the_status() -> None:
    known = proposed((50, 3), (40, 7), (30, 5), changes=((20, 2), (10, -1)))
    assert ScalingMemory.observed(known.render()) == known
    assert [entry.replicas for entry in known.highs] == [7, 5]
    assert [entry.replicas for entry in known.lows] == [3, 5]


def test_a_strange_status_is_no_memory() -> None:
    assert (
        ScalingMemory.observed({"highs": [{"at": "yesterday", "replicas": 1}, {}, {"at": None, "replicas": 2}]}) == NONE
    )


def test_changes_of_one_second_are_one() -> None:
    assert len(NONE.changed(2, NOW).changed(3, NOW).changes) == 1
    assert NONE.changed(2, NOW).changed(3, NOW).change(NOW, 15) == 5


entries = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 500)), max_size=200)


@given(entries, st.integers(1, 600))
def test_the_highest_and_lowest_of_a_window_are_never_missed_and_never_made_up(steps, window) -> None:
    """Against all proposals. A full memory may hold on to an old one, and never lets go of a young one."""
    known, told, now = ScalingMemory(), [], NOW
    for wait, replicas in steps:
        now += timedelta(seconds=wait)
        known = known.proposed(replicas, now)
        told.append((now, replicas))
        young = [each for at, each in told if now - at < timedelta(seconds=window)]
        recent = known.since(now, down=window, up=window, period=15)
        assert recent.highs[0].replicas >= max(young)
        assert recent.lows[0].replicas <= min(young)
        if len(told) < behavior.MOST:
            assert (recent.highs[0].replicas, recent.lows[0].replicas) == (max(young), min(young))
        assert max(len(known.highs), len(known.lows)) <= behavior.MOST


def test_a_full_memory_holds_on_to_the_extremes() -> None:
    falling, rising, now = ScalingMemory(), ScalingMemory(), NOW
    for step in range(3 * behavior.MOST):
        now += timedelta(seconds=1)
        falling, rising = falling.proposed(1000 - step, now), rising.proposed(step, now)
    assert (len(falling.highs), falling.highs[0].replicas) == (behavior.MOST, 1000)
    assert (len(rising.lows), rising.lows[0].replicas) == (behavior.MOST, 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), min_size=80, max_size=120))
def test_changes_are_bounded_and_none_is_lost_while_it_counts(steps) -> None:
    known, now = ScalingMemory(), NOW
    for wait, difference in steps:
        now += timedelta(seconds=wait)
        known = known.changed(difference, now)
    assert len(known.changes) <= behavior.MOST
    assert known.change(now, 10_000) == sum(difference for _, difference in steps)


# Properties of the whole

behaviors = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            direction: st.fixed_dictionaries(
                {},
                optional={
                    "stabilizationWindowSeconds": st.sampled_from([0, 15, 60, 300]),
                    "selectPolicy": st.sampled_from(["Max", "Min", "Disabled"]),
                    "policies": st.lists(
                        st.fixed_dictionaries(
                            {
                                "type": st.sampled_from(["Pods", "Percent"]),
                                "value": st.integers(1, 200),
                                "periodSeconds": st.sampled_from([5, 15, 60]),
                            }
                        ),
                        min_size=1,
                        max_size=2,
                    ),
                },
            )
            for direction in ("scaleUp", "scaleDown")
        },
    ).map(lambda given: rules(**given)),
)
bounds = st.tuples(st.integers(1, 60), st.integers(1, 60)).map(lambda pair: ReplicaBounds(*sorted(pair)))
proposals = st.lists(st.tuples(st.integers(1, 40), st.one_of(st.none(), st.integers(0, 100))), max_size=25)


@given(behaviors, bounds, proposals, st.integers(1, 100))
def test_replicas_are_always_within_the_bounds_and_go_only_where_proposals_point(given, limits, steps, current) -> None:
    read, known, now = behavior.read(given), None, NOW
    for wait, proposal in steps:
        now += timedelta(seconds=wait)
        answer = behavior.follow(proposal, current, limits, read, known, now)
        assert limits.minimum <= answer.replicas <= limits.maximum
        if limits.minimum <= current <= limits.maximum:
            assert proposal is not None or answer.replicas == current
            assert answer.replicas <= max(current, proposal or 0, limits.minimum)
            assert answer.replicas >= min(current, proposal or current)
        assert answer.again is None or answer.again > now
        current, known = answer.replicas, ScalingMemory.observed(answer.memory.render())


@given(behaviors, bounds, proposals, st.integers(1, 60), st.tuples(st.integers(0, 90), st.integers(0, 90)).map(sorted))
def test_a_larger_proposal_never_gives_fewer_replicas(given, limits, steps, current, pair) -> None:
    read, known, now = behavior.read(given), None, NOW
    for wait, proposal in steps:
        now += timedelta(seconds=wait)
        answer = behavior.follow(proposal, current, limits, read, known, now)
        current, known = answer.replicas, answer.memory
    less, more = (
        behavior.follow(proposal, current, limits, read, known, now + timedelta(seconds=5)) for proposal in pair
    )
    assert less.replicas <= more.replicas


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 50)), min_size=1, max_size=40), st.integers(1, 50))
def test_it_never_flaps(steps, current) -> None:
    """Up and down again within a window of 300 seconds happens only for the last proposal of that window."""
    read, known, now = behavior.read(None), None, NOW
    grown: list = []
    for wait, proposal in steps:
        now += timedelta(seconds=wait)
        answer: BehaviorAnswer = behavior.follow(proposal, current, ReplicaBounds(1, 50), read, known, now)
        if answer.replicas < current:
            wanted = [each for at, each in grown if now - at < timedelta(seconds=299)]
            assert answer.replicas >= max(wanted, default=0)
        grown.append((now, proposal))
        current, known = answer.replicas, answer.memory
