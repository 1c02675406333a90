"""podFailurePolicy and successPolicy of a Job."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import pod
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.batch.job.policies import NO_MATCH, FailureAction, judge_failure, judge_success


def ended(name, code):
    return {"name": name, "state": {"terminated": {"exitCode": code}}}


def reporting(*containers, **more):
    """A failed pod with these container statuses."""
    return pod("p", "Failed", containerStatuses=[*containers], **more).body


def exits(*codes, **more):
    """A failed pod whose containers a, b, ... ended with these codes."""
    return reporting(*(ended("abc"[i], code) for i, code in enumerate(codes)), **more)


def having(*conditions):
    return pod("p", "Failed", conditions=[{"type": type_, "status": status} for type_, status in conditions]).body


def on(operator, *values, action="FailJob", **more):
    """A rule of the failure policy about exit codes."""
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def fail_job(**rule):
    """A rule of the failure policy, as it is written."""
    return {"action": "FailJob", **rule}


def on_conditions(*patterns):
    return fail_job(onPodConditions=[dict(zip(("type", "status"), each, strict=False)) for each in patterns])


def took(action):
    return FailureAction(action, "", 0)


def failing(code, container="a", rule=0):
    message = f"Container {container} for pod default/p failed with exit code {code}"
    return FailureAction("FailJob", f"{message} matching FailJob rule at index {rule}", rule)


def disrupted(rule=0, type_="DisruptionTarget"):
    return FailureAction("FailJob", f"Pod default/p has condition {type_} matching FailJob rule at index {rule}", rule)


A, B = ("A", "True"), ("B", "True")
UNREADY = ("Ready", "False")
DISRUPTED = ("DisruptionTarget", "True")
DISRUPTION = on_conditions(DISRUPTED)
SETUP = [ended("setup", 1)]
NULLS = pod("p", "Failed", containerStatuses=None, initContainerStatuses=None, conditions=None).body
RUNNING = {"name": "a", "state": {"running": {}}}
RESTARTED = {"name": "a", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 42}}}


@cases(
    ("a code in the list", [on("In", 42)], exits(42), failing(42)),
    ("a code not in the list", [on("In", 42)], exits(41), NO_MATCH),
    ("a code outside the list", [on("NotIn", 42)], exits(41), failing(41)),
    ("a code not outside the list", [on("NotIn", 42)], exits(42), NO_MATCH),
    ("0 is no failure: NotIn", [on("NotIn", 42)], exits(0), NO_MATCH),
    ("0 is no failure: In", [on("In", 0)], exits(0), NO_MATCH),
    ("an unknown operator", [on("Between", 1)], exits(1), NO_MATCH),
    ("an unknown operator, another code", [on("Between", 1)], exits(2), NO_MATCH),
    ("no operator", [fail_job(onExitCodes={"values": [1]})], exits(1), NO_MATCH),
    ("null values", [fail_job(onExitCodes={"operator": "In", "values": None})], exits(1), NO_MATCH),
    ("in none of no values", [fail_job(onExitCodes={"operator": "NotIn", "values": None})], exits(1), failing(1)),
    ("any container", [on("In", 2, 1)], exits(0, 1), failing(1, "b")),
    ("the first container that matches", [on("In", 2, 1)], exits(1, 2), failing(1, "a")),
    ("past one that does not match", [on("In", 2)], exits(1, 2), failing(2, "b")),
    ("the named container", [on("In", 1, 2, containerName="b")], exits(1, 2), failing(2, "b")),
    ("only the named one", [on("In", 1, containerName="b")], exits(1, 2), NO_MATCH),
    ("an empty name names no container", [on("In", 1, containerName="")], exits(1), NO_MATCH),
    ("a null name means any container", [on("In", 1, containerName=None)], exits(1), failing(1)),
    ("an init container", [on("In", 1)], exits(initContainerStatuses=SETUP), failing(1, "setup")),
    ("regular containers before those", [on("In", 1, 2)], exits(2, initContainerStatuses=SETUP), failing(2)),
    ("containers that run again", [on("In", 42)], reporting(RUNNING, RESTARTED), NO_MATCH),
    ("null statuses", [on("NotIn", 42)], NULLS, NO_MATCH),
    ("a null state", [on("NotIn", 42)], reporting({"name": "a", "state": None}), NO_MATCH),
    ("a huge code is only a number", [on("In", 2**40)], exits(2**40), failing(2**40)),
    ("a condition", [DISRUPTION], having(DISRUPTED), disrupted()),
    ("a condition of another status", [DISRUPTION], having(("DisruptionTarget", "False")), NO_MATCH),
    ("another condition", [DISRUPTION], having(("Ready", "True")), NO_MATCH),
    ("a pattern without status means True", [on_conditions(["DisruptionTarget"])], having(DISRUPTED), disrupted()),
    ("a pattern for False", [on_conditions(UNREADY)], having(UNREADY), disrupted(type_="Ready")),
    ("any pattern, named by the pod", [on_conditions(B, A)], having(A, B), disrupted(type_="A")),
    ("null patterns", [fail_job(onPodConditions=None)], having(("A", "True")), NO_MATCH),
    ("empty patterns beside codes", [{**on("In", 1), "onPodConditions": []}], exits(1), failing(1)),
    ("a rule that asks for nothing", [fail_job()], exits(1), NO_MATCH),
    ("Ignore", [on("In", 1, action="Ignore")], exits(1), took("Ignore")),
    ("Count", [on("In", 1, action="Count")], exits(1), took("Count")),
    ("FailIndex", [on("In", 1, action="FailIndex")], exits(1), took("FailIndex")),
    ("the first rule", [on("In", 1, action="Ignore"), on("In", 1)], exits(1), took("Ignore")),
    ("the first that matches", [on("In", 2, action="Ignore"), on("In", 1)], exits(1), failing(1, rule=1)),
    ("an unknown action", [on("In", 1, action="Explode")], exits(1), NO_MATCH),
    ("past an unknown action", [on("In", 1, action="Explode"), on("In", 1)], exits(1), failing(1, rule=1)),
    (
        "no action",
        [{"onExitCodes": {"operator": "In", "values": [1]}}, DISRUPTION],
        having(DISRUPTED),
        disrupted(rule=1),
    ),
    ("no rules", [], exits(1), NO_MATCH),
    ("null rules", None, exits(1), NO_MATCH),
)
def test_what_a_failure_policy_says(rules, body, verdict):
    assert judge_failure({"rules": rules}, body) == verdict


@cases(("none", None), ("empty", {}))
def test_without_a_failure_policy_no_rule_matches(policy):
    assert judge_failure(policy, exits(1)) == NO_MATCH


def test_a_failed_pod_without_a_status_matches_nothing():
    body = {"metadata": {"name": "p", "namespace": "default"}}
    assert judge_failure({"rules": [on("NotIn", 42), DISRUPTION]}, body) == NO_MATCH


@for_each(("FailJob", True), ("FailIndex", True), ("Count", True), (None, True), ("Ignore", False))
def test_what_counts_as_a_failure(action, counted):
    assert FailureAction(action).counted is counted


RULES = st.lists(
    st.tuples(st.sampled_from(["FailJob", "FailIndex", "Ignore", "Count", "Explode"]), st.booleans()), max_size=6
)


@given(RULES)
def test_the_first_matching_rule_with_a_known_action_decides(rules):
    policy = {"rules": [on("In" if matches else "NotIn", 1, action=action) for action, matches in rules]}
    expected = next(
        ((i, action) for i, (action, matches) in enumerate(rules) if matches and action != "Explode"), (None, None)
    )
    verdict = judge_failure(policy, exits(1))
    assert (verdict.rule, verdict.action) == expected
    assert bool(verdict.message) is (verdict.action == "FailJob")


def rule(indexes=None, count=None):
    given = {"succeededIndexes": indexes, "succeededCount": count}
    return {name: value for name, value in given.items() if value is not None}


@cases(
    ("all of its indexes", [rule("0-2")], "0-2", 0),
    ("not all of them", [rule("0-2")], "0,1,5", None),
    ("more than its indexes", [rule("1,3")], "0-9", 0),
    ("enough of its indexes", [rule("0-9", 2)], "3,7", 0),
    ("others do not help", [rule("0-9", 2)], "3,17", None),
    ("all of them, though it asks for more than there are", [rule("0,1", 5)], "0,1", 0),
    ("enough of any", [rule(count=2)], "8,9", 0),
    ("too few of any", [rule(count=3)], "8,9", None),
    ("a huge count", [rule(count=2**31 - 1)], "8,9", None),
    ("a count of 0, after a success", [rule(count=0)], "4", 0),
    ("a count of 0, before any success", [rule(count=0)], "", None),
    ("a count of 0 of some indexes, after any success", [rule("0-3", 0)], "4", 0),
    ("no indexes at all are never met", [rule("")], "0-9", None),
    ("nor with a count", [rule("", 0)], "0-9", None),
    ("unreadable indexes", [rule("x,,y")], "0-9", None),
    ("what is readable of them", [rule("0,x")], "0", 0),
    ("a part with a huge number is unreadable", [rule("0-99999999999999999999,1")], "1", 0),
    ("a huge run", [rule("0-999999999999")], "0-9", None),
    ("a rule that asks for nothing", [{}], "0-9", None),
    ("nulls", [{"succeededIndexes": None, "succeededCount": None}], "0-9", None),
    ("the second rule", [rule("5"), rule(count=1)], "0", 1),
    ("the first of two", [rule("0"), rule(count=1)], "0", 0),
    ("no rules", [], "0-9", None),
    ("null rules", None, "0-9", None),
)
def test_when_a_success_policy_is_met(rules, completed, position):
    expected = None if position is None else f"Matched rules at index {position}"
    assert judge_success({"rules": rules}, Indexes.parse(completed), 2**31) == expected


@cases(("none", None), ("empty", {}))
def test_without_a_success_policy_nothing_is_met(policy):
    assert judge_success(policy, Indexes.parse("0-9"), 10) is None


@for_each(("0-5", 3, True), ("0-5", 4, False), ("7", 3, False))
def test_indexes_of_a_rule_beyond_the_completions_are_not_asked_for(text, completions, met):
    assert (judge_success({"rules": [rule(text)]}, Indexes.parse("0-2"), completions) is not None) is met


@given(st.sets(st.integers(0, 9), min_size=1), st.sets(st.integers(0, 9)), st.one_of(st.none(), st.integers(0, 10)))
def test_success_is_as_plain_sets_say(required, completed, count):
    done = required & completed
    expected = bool(completed) and (done == required or (count is not None and len(done) >= count))
    policy = {"rules": [rule(Indexes.of(required).text, count)]}
    assert (judge_success(policy, Indexes.of(completed), 10) is not None) is expected
