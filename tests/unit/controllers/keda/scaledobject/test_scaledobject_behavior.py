"""Scaling behavior: windows, policies, bounds, and the memory of proposals and changes."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
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


@cases(
    ("as it is", None, 5, 5, NONE, 5),
    ("no proposal", None, 5, None, NONE, 5),
    ("without rules: up to four at once", None, 1, 50, NONE, 4),
    ("without rules: at most twice as many", None, 5, 50, NONE, 10),
    ("without rules: twice in fifteen seconds", None, 8, 50, proposed(changes=((5, 4),)), 8),
    ("without rules: twice again", None, 8, 50, proposed(changes=((15, 4),)), 16),
    ("down, with nothing higher in the window", None, 5, 2, NONE, 2),
    ("down for the first time: what is there counts", None, 5, 2, None, 5),
    ("down to the highest of the window", None, 5, 2, proposed((299, 4)), 4),
    ("down when the window is over", None, 5, 2, proposed((300, 4)), 2),
    ("a higher one does not lead up", None, 5, 2, proposed((100, 9)), 5),
    ("above the maximum: down at once", None, 200, 150, NONE, 100),
    ("the maximum is not in the way yet", None, 5, 1000, NONE, 10),
    ("never above the maximum", None, 80, 1000, NONE, 100),
    ("defaults up: four more", rules(), 1, 50, NONE, 5),
    ("defaults up: or twice as many", rules(), 8, 50, NONE, 16),
    ("pods", rules(scaleUp={"policies": [PODS]}), 8, 50, NONE, 11),
    ("pods in the period", rules(scaleUp={"policies": [PODS]}), 8, 50, proposed(changes=((59, 2),)), 9),
    ("pods after the period", rules(scaleUp={"policies": [PODS]}), 8, 50, proposed(changes=((60, 2),)), 11),
    ("never the other way", rules(scaleUp={"policies": [PODS]}), 8, 50, proposed(changes=((9, 5),)), 8),
    (
        "what was removed comes back on top",
        rules(scaleUp={"policies": [PODS]}),
        8,
        50,
        proposed(changes=((9, -2),)),
        13,
    ),
    ("the one that allows most", rules(scaleUp={"policies": [PODS, PERCENT]}), 9, 50, NONE, 14),
    ("or least", rules(scaleUp={"policies": [PODS, PERCENT], "selectPolicy": "Min"}), 9, 50, NONE, 12),
    ("never up", rules(scaleUp={"selectPolicy": "Disabled"}), 9, 50, NONE, 9),
    ("up to the lowest", rules(scaleUp={"stabilizationWindowSeconds": 60}), 5, 9, proposed((30, 6)), 6),
    ("up after the window", rules(scaleUp={"stabilizationWindowSeconds": 60}), 5, 9, proposed((60, 6)), 9),
    ("up for the first time", rules(scaleUp={"stabilizationWindowSeconds": 60}), 5, 9, None, 5),
    ("no window: down at once", rules(scaleDown=EAGER), 9, 2, None, 2),
    ("down: pods", rules(scaleDown={**EAGER, "policies": [PODS]}), 9, 2, NONE, 6),
    ("down: percent, cut off", rules(scaleDown={**EAGER, "policies": [PERCENT]}), 9, 2, NONE, 4),
    ("down: the one that allows most", rules(scaleDown={**EAGER, "policies": [PODS, PERCENT]}), 9, 2, NONE, 4),
    ("least", rules(scaleDown={**EAGER, "policies": [PODS, PERCENT], "selectPolicy": "Min"}), 9, 2, NONE, 6),
    ("in the period", rules(scaleDown={**EAGER, "policies": [PODS]}), 9, 2, proposed(changes=((30, -2),)), 8),
    ("never back up", rules(scaleDown={**EAGER, "policies": [PODS]}), 9, 2, proposed(changes=((30, -5),)), 9),
    ("never down", rules(scaleDown={**EAGER, "selectPolicy": "Disabled"}), 9, 2, NONE, 9),
    ("but for the maximum", rules(scaleDown={**EAGER, "selectPolicy": "Disabled"}), 200, 2, NONE, 100),
)
def test_replicas(given, current, proposal, known, replicas) -> None:
    answer = behavior.follow(proposal, current, BOUNDS, behavior.read(given), known, NOW)
    assert answer.replicas == replicas


def test_below_the_minimum_it_goes_up_at_once() -> None:
    assert behavior.follow(None, 2, ReplicaBounds(5, 100), behavior.read(None), NONE, NOW).replicas == 5


@cases(
    ("nothing held back", None, 5, 5, NONE, None),
    ("when the window ends", None, 5, 2, proposed((100, 5)), 200),
    ("when twice as many are allowed again", None, 1, 50, NONE, 15),
    ("when the last change is long ago", None, 8, 50, proposed(changes=((5, 4),)), 10),
    ("when the period ends", rules(scaleUp={"policies": [PODS]}), 8, 50, NONE, 60),
    ("not in the past", rules(scaleUp={"policies": [PODS, PERCENT]}), 9, 50, proposed(changes=((40, 3),)), 20),
)
def test_when_to_look_again(given, current, proposal, known, again) -> None:
    answer = behavior.follow(proposal, current, BOUNDS, behavior.read(given), known, NOW)
    assert answer.again == (None if again is None else later(again))


def test_pausing_one_direction_is_disabling_it() -> None:
    held = behavior.read(None, scale_in_paused=True)
    assert (held.down.select, held.up.select) == ("Disabled", "Max")
    assert behavior.read(None, scale_out_paused=True).up.select == "Disabled"


@cases(("decimal", "0.05", 0.05), ("thousandths", "50m", 0.05), ("none", None, 0.1))
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
            assert answer.replicas >= (current if proposal is None else min(current, proposal))
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
