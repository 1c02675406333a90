"""podFailurePolicy and successPolicy of a Job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controllers.factories import pod
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.batch.job.policies import NO_MATCH, FailureAction, judge_failure, judge_success


def ended(name, code):
    return {"name": name, "state": {"terminated": {"exitCode": code}}}


def exits(*codes, **more):
    """A failed pod whose containers a, b, ... ended with these codes."""
    return pod("p", "Failed", containerStatuses=[ended("abc"[i], code) for i, code in enumerate(codes)], **more).body


def having(*conditions):
    return pod("p", "Failed", conditions=[{"type": type_, "status": status} for type_, status in conditions]).body


def on_codes(action, operator, *values, **more):
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def on_condition(action, type_, **more):
    return {"action": action, "onPodConditions": [{"type": type_, **more}]}


def failing(code, container="a", rule=0):
    message = f"Container {container} for pod default/p failed with exit code {code}"
    return FailureAction("FailJob", f"{message} matching FailJob rule at index {rule}", rule)


def disrupted(rule=0, type_="DisruptionTarget"):
    return FailureAction("FailJob", f"Pod default/p has condition {type_} matching FailJob rule at index {rule}", rule)


DISRUPTION = on_condition("FailJob", "DisruptionTarget", status="True")
RUNNING = {"name": "a", "state": {"running": {}}}
RESTARTED = {"name": "a", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 42}}}


@pytest.mark.parametrize(
    ("rules", "body", "verdict"),
    [
        pytest.param([on_codes("FailJob", "In", 42)], exits(42), failing(42), id="a code in the list"),
        pytest.param([on_codes("FailJob", "In", 42)], exits(41), NO_MATCH, id="a code not in the list"),
        pytest.param([on_codes("FailJob", "NotIn", 42)], exits(41), failing(41), id="a code outside the list"),
        pytest.param([on_codes("FailJob", "NotIn", 42)], exits(42), NO_MATCH, id="a code not outside the list"),
        pytest.param([on_codes("FailJob", "NotIn", 42)], exits(0), NO_MATCH, id="0 is no failure: NotIn"),
        pytest.param([on_codes("FailJob", "In", 0)], exits(0), NO_MATCH, id="0 is no failure: In"),
        pytest.param([on_codes("FailJob", "Between", 1)], exits(1), NO_MATCH, id="an unknown operator"),
        pytest.param([on_codes("FailJob", "Between", 1)], exits(2), NO_MATCH, id="an unknown operator, another code"),
        pytest.param([{"action": "FailJob", "onExitCodes": {"values": [1]}}], exits(1), NO_MATCH, id="no operator"),
        pytest.param(
            [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": None}}],
            exits(1),
            NO_MATCH,
            id="null values",
        ),
        pytest.param(
            [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": None}}],
            exits(1),
            failing(1),
            id="in none of no values",
        ),
        pytest.param([on_codes("FailJob", "In", 2, 1)], exits(0, 1), failing(1, "b"), id="any container"),
        pytest.param(
            [on_codes("FailJob", "In", 2, 1)], exits(1, 2), failing(1, "a"), id="the first container that matches"
        ),
        pytest.param([on_codes("FailJob", "In", 2)], exits(1, 2), failing(2, "b"), id="past one that does not match"),
        pytest.param(
            [on_codes("FailJob", "In", 1, 2, containerName="b")], exits(1, 2), failing(2, "b"), id="the named container"
        ),
        pytest.param([on_codes("FailJob", "In", 1, containerName="b")], exits(1, 2), NO_MATCH, id="only the named one"),
        pytest.param(
            [on_codes("FailJob", "In", 1, containerName="")], exits(1), NO_MATCH, id="an empty name is nobody's"
        ),
        pytest.param(
            [on_codes("FailJob", "In", 1, containerName=None)],
            exits(1),
            failing(1),
            id="a null name means any container",
        ),
        pytest.param(
            [on_codes("FailJob", "In", 1)],
            exits(initContainerStatuses=[ended("setup", 1)]),
            failing(1, "setup"),
            id="an init container",
        ),
        pytest.param(
            [on_codes("FailJob", "In", 1, 2)],
            exits(2, initContainerStatuses=[ended("setup", 1)]),
            failing(2),
            id="regular containers before init containers",
        ),
        pytest.param(
            [on_codes("FailJob", "In", 42)],
            pod("p", "Failed", containerStatuses=[RUNNING, RESTARTED]).body,
            NO_MATCH,
            id="containers that have not ended, whatever they did before",
        ),
        pytest.param(
            [on_codes("FailJob", "NotIn", 42)],
            pod("p", "Failed", containerStatuses=None, initContainerStatuses=None, conditions=None).body,
            NO_MATCH,
            id="null statuses",
        ),
        pytest.param(
            [on_codes("FailJob", "NotIn", 42)],
            pod("p", "Failed", containerStatuses=[{"name": "a", "state": None}]).body,
            NO_MATCH,
            id="a null state",
        ),
        pytest.param(
            [on_codes("FailJob", "In", 2**40)], exits(2**40), failing(2**40), id="a huge code is only a number"
        ),
        pytest.param([DISRUPTION], having(("DisruptionTarget", "True")), disrupted(), id="a condition"),
        pytest.param([DISRUPTION], having(("DisruptionTarget", "False")), NO_MATCH, id="a condition of another status"),
        pytest.param([DISRUPTION], having(("Ready", "True")), NO_MATCH, id="another condition"),
        pytest.param(
            [on_condition("FailJob", "DisruptionTarget")],
            having(("DisruptionTarget", "True")),
            disrupted(),
            id="a pattern without status means True",
        ),
        pytest.param(
            [on_condition("FailJob", "Ready", status="False")],
            having(("Ready", "False")),
            disrupted(type_="Ready"),
            id="a pattern for False",
        ),
        pytest.param(
            [
                {
                    "action": "FailJob",
                    "onPodConditions": [{"type": "B", "status": "True"}, {"type": "A", "status": "True"}],
                }
            ],
            having(("A", "True"), ("B", "True")),
            disrupted(type_="A"),
            id="any pattern; the pod's first condition is named",
        ),
        pytest.param(
            [{"action": "FailJob", "onPodConditions": None}], having(("A", "True")), NO_MATCH, id="null patterns"
        ),
        pytest.param(
            [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}, "onPodConditions": []}],
            exits(1),
            failing(1),
            id="empty patterns beside codes",
        ),
        pytest.param([{"action": "FailJob"}], exits(1), NO_MATCH, id="a rule that asks for nothing"),
        pytest.param([on_codes("Ignore", "In", 1)], exits(1), FailureAction("Ignore", "", 0), id="Ignore"),
        pytest.param([on_codes("Count", "In", 1)], exits(1), FailureAction("Count", "", 0), id="Count"),
        pytest.param([on_codes("FailIndex", "In", 1)], exits(1), FailureAction("FailIndex", "", 0), id="FailIndex"),
        pytest.param(
            [on_codes("Ignore", "In", 1), on_codes("FailJob", "In", 1)],
            exits(1),
            FailureAction("Ignore", "", 0),
            id="the first rule",
        ),
        pytest.param(
            [on_codes("Ignore", "In", 2), on_codes("FailJob", "In", 1)],
            exits(1),
            failing(1, rule=1),
            id="the first that matches",
        ),
        pytest.param([on_codes("Explode", "In", 1)], exits(1), NO_MATCH, id="an unknown action"),
        pytest.param(
            [on_codes("Explode", "In", 1), on_codes("FailJob", "In", 1)],
            exits(1),
            failing(1, rule=1),
            id="the search goes on past an unknown action",
        ),
        pytest.param(
            [{"onExitCodes": {"operator": "In", "values": [1]}}, DISRUPTION],
            having(("DisruptionTarget", "True")),
            disrupted(rule=1),
            id="no action",
        ),
        pytest.param([], exits(1), NO_MATCH, id="no rules"),
        pytest.param(None, exits(1), NO_MATCH, id="null rules"),
    ],
)
def test_what_a_failure_policy_says(rules, body, verdict):
    assert judge_failure({"rules": rules}, body) == verdict


@pytest.mark.parametrize("policy", [pytest.param(None, id="none"), pytest.param({}, id="empty")])
def test_without_a_failure_policy_no_rule_matches(policy):
    assert judge_failure(policy, exits(1)) == NO_MATCH


def test_a_failed_pod_without_a_status_matches_nothing():
    body = {"metadata": {"name": "p", "namespace": "default"}}
    assert judge_failure({"rules": [on_codes("FailJob", "NotIn", 42), DISRUPTION]}, body) == NO_MATCH


@pytest.mark.parametrize(
    ("action", "counted"), [("FailJob", True), ("FailIndex", True), ("Count", True), (None, True), ("Ignore", False)]
)
def test_what_counts_as_a_failure(action, counted):
    assert FailureAction(action).counted is counted


RULES = st.lists(
    st.tuples(st.sampled_from(["FailJob", "FailIndex", "Ignore", "Count", "Explode"]), st.booleans()), max_size=6
)


@given(RULES)
def test_the_first_matching_rule_with_a_known_action_decides(rules):
    policy = {"rules": [on_codes(action, "In" if matches else "NotIn", 1) for action, matches in rules]}
    expected = next(
        ((i, action) for i, (action, matches) in enumerate(rules) if matches and action != "Explode"), (None, None)
    )
    verdict = judge_failure(policy, exits(1))
    assert (verdict.rule, verdict.action) == expected
    assert bool(verdict.message) is (verdict.action == "FailJob")


def rule(indexes=None, count=None):
    given = {"succeededIndexes": indexes, "succeededCount": count}
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize(
    ("rules", "completed", "position"),
    [
        pytest.param([rule("0-2")], "0-2", 0, id="all of its indexes"),
        pytest.param([rule("0-2")], "0,1,5", None, id="not all of them"),
        pytest.param([rule("1,3")], "0-9", 0, id="more than its indexes"),
        pytest.param([rule("0-9", 2)], "3,7", 0, id="enough of its indexes"),
        pytest.param([rule("0-9", 2)], "3,17", None, id="others do not help"),
        pytest.param([rule("0,1", 5)], "0,1", 0, id="all of them, though it asks for more than there are"),
        pytest.param([rule(count=2)], "8,9", 0, id="enough of any"),
        pytest.param([rule(count=3)], "8,9", None, id="too few of any"),
        pytest.param([rule(count=2**31 - 1)], "8,9", None, id="a huge count"),
        pytest.param([rule(count=0)], "4", 0, id="a count of 0, after a success"),
        pytest.param([rule(count=0)], "", None, id="a count of 0, before any success"),
        pytest.param([rule("0-3", 0)], "4", 0, id="a count of 0 of some indexes, after any success"),
        pytest.param([rule("")], "0-9", None, id="no indexes at all are never met"),
        pytest.param([rule("", 0)], "0-9", None, id="nor with a count"),
        pytest.param([rule("x,,y")], "0-9", None, id="unreadable indexes"),
        pytest.param([rule("0,x")], "0", 0, id="what is readable of them"),
        pytest.param([rule("0-99999999999999999999,1")], "1", 0, id="a part with a huge number is unreadable"),
        pytest.param([rule("0-999999999999")], "0-9", None, id="a huge run"),
        pytest.param([{}], "0-9", None, id="a rule that asks for nothing"),
        pytest.param([{"succeededIndexes": None, "succeededCount": None}], "0-9", None, id="nulls"),
        pytest.param([rule("5"), rule(count=1)], "0", 1, id="the second rule"),
        pytest.param([rule("0"), rule(count=1)], "0", 0, id="the first of two"),
        pytest.param([], "0-9", None, id="no rules"),
        pytest.param(None, "0-9", None, id="null rules"),
    ],
)
def test_when_a_success_policy_is_met(rules, completed, position):
    expected = None if position is None else f"Matched rules at index {position}"
    assert judge_success({"rules": rules}, Indexes.parse(completed)) == expected


@pytest.mark.parametrize("policy", [pytest.param(None, id="none"), pytest.param({}, id="empty")])
def test_without_a_success_policy_nothing_is_met(policy):
    assert judge_success(policy, Indexes.parse("0-9")) is None


@given(st.sets(st.integers(0, 9), min_size=1), st.sets(st.integers(0, 9)), st.one_of(st.none(), st.integers(0, 10)))
def test_success_is_as_plain_sets_say(required, completed, count):
    done = required & completed
    expected = bool(completed) and (done == required or (count is not None and len(done) >= count))
    policy = {"rules": [rule(Indexes.of(required).text, count)]}
    assert (judge_success(policy, Indexes.of(completed)) is not None) is expected
