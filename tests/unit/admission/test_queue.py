"""Defaults, place and deletion of a Queue."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.admission.bodies import fields, group, known, queue
from workers.admission.volcano import queue as rules
from workers.admission.volcano.queue_lookup import ROOT
from workers.api.kinds import QUEUE

TREE, WEIGHTS = f"metadata.annotations[{rules.HIERARCHY}]", f"metadata.annotations[{rules.WEIGHTS}]"


def tree(path, weights):
    """The annotations of the old hierarchy."""
    return {rules.HIERARCHY: path, rules.WEIGHTS: weights}


def amounts(field, **found):
    """One field of amounts."""
    return {field: {"resource": found} if field == "guarantee" else found}


def running(name, pods, **spec):
    """A queue that runs pods."""
    body = queue(name, **spec)
    body["status"]["allocated"] = {"pods": pods}
    return body


@cases(
    ("nothing", queue(), {"reclaimable": True, "weight": 1}),
    ("a zero", queue(weight=0), {"reclaimable": True, "weight": 1}),
    ("what is there stays", queue(weight=7, reclaimable=False), {"reclaimable": False, "weight": 7}),
)
def test_what_a_queue_is_filled_in_with(body, expected):
    before = copy.deepcopy(body)
    filled = rules.defaulted(body)
    assert body == before
    assert filled["spec"] == expected
    assert rules.defaulted(filled) == filled


@cases(
    ("below the root", tree("root/sci/dev", "1/2/8"), tree("root/sci/dev", "1/2/8")),
    ("beside it", tree("sci/dev", "2/8"), tree("root/sci/dev", "1/2/8")),
    ("a name that begins like it", tree("rooted", "2"), tree("root/rooted", "1/2")),
    ("without weights", {rules.HIERARCHY: "sci"}, {rules.HIERARCHY: "sci"}),
    ("none", {}, {}),
)
def test_the_old_hierarchy_begins_at_the_root(given_, expected):
    filled = rules.defaulted(queue(annotations=given_))
    assert filled["metadata"].get("annotations", {}) == expected
    assert rules.defaulted(filled) == filled


@for_each(1, "x", [])
def test_what_the_schema_refuses_is_left_for_it_to_say_so(spec):
    body = {**queue(), "spec": spec}
    assert rules.defaulted(body) == body


BIG = {"cpu": "8", "memory": "16Gi"}
CLUSTER = known(
    queue("parent", capability=BIG, deserved={"cpu": "4"}, guarantee={"resource": {"cpu": "2"}}),
    queue(
        "child", parent="parent", capability={"cpu": "4"}, deserved={"cpu": "2"}, guarantee={"resource": {"cpu": "1"}}
    ),
    running("busy", "3"),
    running("idle", "0"),
    queue("l1"),
    queue("l2", parent="l1"),
    queue("l3", parent="l2"),
    queue("l4", parent="l3"),
    queue("l5", parent="l4"),
    queue("science", annotations=tree("root/science/dev", "1/2/8")),
)

REFUSED = {
    "a state between open and closed": (queue(state="Closing"), "status.state"),
    "an unknown state": (queue(state="Unknown"), "status.state"),
    "parts without weights": (queue(annotations=tree("root/a", "1")), TREE),
    "a weight that is no number": (queue(annotations=tree("root/a", "1/x")), WEIGHTS),
    "a weight of 0": (queue(annotations=tree("root/a", "1/0")), WEIGHTS),
    "a weight below 0": (queue(annotations=tree("root/a", "1/-1")), WEIGHTS),
    "a weight that is not a number": (queue(annotations=tree("root/a", "1/nan")), WEIGHTS),
    "above another's place": (queue(annotations=tree("root/science", "1/2")), TREE),
    "no quantity": (queue(**amounts("capability", cpu="much")), "spec.capability[cpu]"),
    "below 0": (queue(**amounts("deserved", memory="-1Gi")), "spec.deserved[memory]"),
    "a part of a pod": (queue(**amounts("guarantee", pods="1500m")), "spec.guarantee.resource[pods]"),
    "a part of a card": (queue(capability={"nvidia.com/gpu": "500m"}), "spec.capability[nvidia.com/gpu]"),
    "a guarantee over what is deserved": (
        queue(deserved={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}}),
        "spec.guarantee.resource[cpu]",
    ),
    "a guarantee of what is not deserved": (
        queue(deserved={"cpu": "1"}, guarantee={"resource": {"memory": "1Gi"}}),
        "spec.guarantee.resource[memory]",
    ),
    "a guarantee over capability": (
        queue(capability={"cpu": "1"}, guarantee={"resource": {"cpu": "1001m"}}),
        "spec.guarantee.resource[cpu]",
    ),
    "a guarantee of what it may not have": (
        queue(capability={"pods": "0"}, guarantee={"resource": {"pods": "1"}}),
        "spec.guarantee.resource[pods]",
    ),
    "deserved over capability": (queue(capability={"cpu": "1"}, deserved={"cpu": "2"}), "spec.deserved[cpu]"),
    "its own parent": (queue("me", parent="me"), "spec.parent"),
    "a parent that is not there": (queue(parent="nowhere"), "spec.parent"),
    "too deep": (queue(parent="l5"), "spec.parent"),
    "below a queue that runs pods": (queue(parent="busy"), "spec.parent"),
    "more than the queue above": (queue(parent="parent", capability={"cpu": "9"}), "spec.capability[cpu]"),
    "more than the queue above that one": (
        queue(parent="child", capability={"memory": "17Gi"}),
        "spec.capability[memory]",
    ),
    "more than two queues above": (queue(parent="child", capability={"cpu": "9"}), "spec.capability[cpu]"),
    "siblings that deserve too much": (queue(parent="parent", deserved={"cpu": "2001m"}), "spec.deserved[cpu]"),
    "siblings that deserve what the parent does not": (
        queue(parent="parent", deserved={"memory": "1"}),
        "spec.deserved[memory]",
    ),
    "siblings that are guaranteed too much": (
        queue(parent="parent", guarantee={"resource": {"cpu": "1500m"}}),
        "spec.guarantee.resource[cpu]",
    ),
}


@cases(REFUSED)
def test_a_queue_that_contradicts_itself_or_others_is_refused(body, field):
    assert fields(rules.problems(body, None, CLUSTER)) == [field]


@cases(
    ("nothing", queue()),
    ("no state yet", queue(state="")),
    ("closed", queue(state="Closed")),
    ("a place beside another's", queue(annotations=tree("root/sci", "1/2"))),
    ("a place below another's", queue(annotations=tree("root/science/dev/a", "1/2/8/1"))),
    ("parts of what is measured", queue(capability={"cpu": "1500m", "memory": "1.5Gi", "hugepages-2Mi": "4Mi"})),
    ("numbers for quantities", queue(capability={"cpu": 4, "pods": 10})),
    ("a guarantee and nothing deserved", queue(guarantee={"resource": {"cpu": "2"}})),
    ("a guarantee of all it may have", queue(capability={"cpu": "2"}, guarantee={"resource": {"cpu": "2"}})),
    (
        "a guarantee beside a capability of something else",
        queue(capability={"memory": "1Gi"}, guarantee={"resource": {"cpu": "2"}}),
    ),
    (
        "a guarantee where a capability of 0 is none",
        queue(capability={"cpu": "0"}, guarantee={"resource": {"cpu": "2"}}),
    ),
    ("deserved where a capability of 0 is none", queue(capability={"cpu": "0"}, deserved={"cpu": "2"})),
    ("the fifth level", queue(parent="l4")),
    ("below an idle queue", queue(parent="idle")),
    ("below the root", queue(parent=ROOT, deserved={"cpu": "100"}, guarantee={"resource": {"cpu": "100"}})),
    ("as much as the queue above", queue(parent="parent", capability=BIG)),
    ("the siblings' rest", queue(parent="parent", deserved={"cpu": "2"}, guarantee={"resource": {"cpu": "1"}})),
)
def test_a_queue_that_fits_in_is_accepted(body):
    assert rules.problems(body, None, CLUSTER) == []


@cases(
    ("no cpu", "cpu", []),
    ("no memory", "memory", []),
    ("but pods", "pods", ["spec.capability[pods]"]),
)
def test_what_a_capability_of_0_bounds_of_the_queues_below(resource, expected):
    above = queue("above", capability={resource: "0"})
    below = queue("below", parent="above", capability={resource: "2"})
    assert fields(rules.problems(below, None, known(above))) == expected
    assert fields(rules.problems(above, None, known(below))) == expected


@cases(
    (
        "a parent's capability below a child's",
        "parent",
        {"capability": {"cpu": "3"}, "deserved": {"cpu": "3"}},
        ["spec.capability[cpu]"],
    ),
    (
        "a parent that deserves less than its children",
        "parent",
        {"deserved": {"cpu": "1"}, "guarantee": {"resource": {"cpu": "1"}}},
        ["spec.deserved[cpu]"],
    ),
    ("a parent that is guaranteed nothing", "parent", {"guarantee": {}}, ["spec.guarantee.resource[cpu]"]),
    ("a parent below its child", "parent", {"parent": "child"}, ["spec.parent"]),
    ("a branch that gets too deep", "l1", {"parent": "idle"}, ["spec.parent"]),
    ("the highest queue's amounts", "root", {"capability": {"cpu": "1"}}, ["spec.capability"]),
    ("the highest queue's weight", "root", {"weight": 3}, []),
    ("a weight", "child", {"weight": 3}, []),
    ("a queue that moves", "child", {"parent": "root"}, []),
)
def test_a_change_is_judged_from_above_and_from_below(name, change, expected):
    (old,) = (each for each in CLUSTER.every(QUEUE) if each["metadata"]["name"] == name)
    new = {**old, "spec": {**old["spec"], **change}}
    assert fields(rules.problems(new, old, CLUSTER)) == expected


def test_a_queue_may_move_up_in_the_old_hierarchy():
    (old,) = (each for each in CLUSTER.every(QUEUE) if each["metadata"]["name"] == "science")
    assert rules.problems(queue("science", annotations=tree("root/science", "1/2")), old, CLUSTER) == []


def test_a_parent_that_was_left_out_may_be_written_down():
    old = queue("work", capability={"cpu": "1"}, deserved={"cpu": "2"})
    assert rules.problems({**old, "spec": {**old["spec"], "parent": ROOT}}, old, CLUSTER) == []


def test_what_the_controller_wrote_does_not_keep_a_queue_from_being_changed():
    old = queue("work", "Closing", parent="nowhere")
    new = {**old, "spec": {**old["spec"], "weight": 2}}
    assert rules.problems(new, old, CLUSTER) == []
    assert fields(rules.problems({**new, "status": {"state": "Unknown"}}, old, CLUSTER)) == ["status.state"]


@cases(
    ("default", queue("default"), ["metadata.name"], "work that names no queue needs it"),
    ("the highest", queue("root"), ["metadata.name"], "work that names no queue needs it"),
    ("with others below it", queue("parent"), ["metadata.name"], "below it are child"),
    (
        "with work inside",
        queue("full"),
        ["metadata.name"],
        "PodGroups are in it, default/a, default/b, default/c and 1 more",
    ),
    ("with work that is over", queue("quiet"), [], ""),
    ("empty", queue("l5"), [], ""),
)
def test_a_queue_that_something_needs_is_not_deleted(body, expected, text):
    leaving = group("gone", "quiet")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    inside = (*(group(name, "full") for name in "dcba"), group("done", "quiet", "Completed"), leaving)
    cluster = known(queue("parent"), queue("child", parent="parent"), groups=inside)
    found = rules.removal(body, cluster)
    assert fields(found) == expected
    assert all(text in finding.message for finding in found)


NAMES = st.sampled_from("abcdefgh")


@given(st.dictionaries(NAMES, NAMES | st.just(ROOT), min_size=1), NAMES, NAMES | st.just(ROOT))
def test_a_place_is_accepted_exactly_when_it_leads_to_the_root(parents, name, parent):
    """Also among queues that make no tree, made before there were rules."""
    others = {each: queue(each, parent=above) for each, above in parents.items() if each != name}
    found = rules.problems(queue(name, parent=parent), None, known(*others.values()))
    at, steps = parent, 1
    while at in others and steps <= len(others):
        at, steps = others[at]["spec"]["parent"], steps + 1
    if at != ROOT or steps > 5:
        assert "spec.parent" in fields(found)
    elif not [each for each in others.values() if each["spec"]["parent"] == name]:
        assert found == []
