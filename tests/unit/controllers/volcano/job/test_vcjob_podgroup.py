"""The PodGroup of a Volcano Job: who must fit at once, what that takes, and what changes with the job."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import UID
from tests.unit.controllers.volcano.job.vcjobs import parsed, task
from workers.api import quantities
from workers.api.kinds import Object
from workers.controllers.volcano import amounts, pod_requests
from workers.controllers.volcano.amounts import Amount
from workers.controllers.volcano.job import names, podgroup


def container(limits=None, **requests):
    """A container that asks for this much; underscores in names are dashes."""
    resources = {"requests": {key.replace("_", "-"): text for key, text in requests.items()}}
    return {"name": "c", "resources": {**resources, **({"limits": limits} if limits else {})}}


def asks(*containers, init=(), priority=None, **more):
    """A pod template of these containers."""
    spec = {"containers": list(containers), "initContainers": list(init), **more}
    return {"spec": {**spec, **({"priorityClassName": priority} if priority else {})}}


def cpu(amount, priority=None):
    return asks(container(cpu=amount), priority=priority)


def group(*tasks, priorities=None, waiting=frozenset(), **more):
    return podgroup.wanted(parsed(*tasks, **more), priorities or {}, waiting)


def test_a_group_is_named_after_the_job_and_carries_its_words():
    metadata = {
        "labels": {"team": "a"},
        "annotations": {"note": "n", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    found = group(
        task("ps", 1), task("worker", 3, minAvailable=2), metadata=metadata, priorityClassName="high", queue="q"
    )
    assert (found["apiVersion"], found["kind"]) == ("scheduling.volcano.sh/v1beta1", "PodGroup")
    assert found["metadata"]["name"] == f"train-{UID}"
    assert found["metadata"]["labels"] == {"team": "a"}
    assert found["metadata"]["annotations"] == {"note": "n"}, "kubectl's note is about another object"
    assert found["metadata"]["ownerReferences"] == [names.owner(parsed())]
    assert found["spec"] == {
        "minMember": 3,
        "minTaskMember": {"ps": 1, "worker": 2},
        "minTaskResources": {"ps": {}, "worker": {}},
        "queue": "q",
        "priorityClassName": "high",
        "minResources": {"count/pods": "3", "pods": "3"},
    }


def test_what_the_job_does_not_say_is_not_there():
    spec = group()["spec"]
    assert set(spec) == {"minMember", "minTaskMember", "queue", "minResources"}


@for_each(
    ({}, {"mode": "hard"}),
    ({"mode": "soft", "highestTierAllowed": 2}, {"mode": "soft", "highestTierAllowed": 2}),
    ({"highestTierName": "rack"}, {"mode": "hard", "highestTierName": "rack"}),
    ({"highestTierAllowed": 0, "highestTierName": "rack"}, {"mode": "hard", "highestTierAllowed": 0}),
)
def test_a_tier_by_number_wins_over_one_by_name(given, expected):
    assert group(networkTopology=given)["spec"]["networkTopology"] == expected


@for_each(
    ({}, {"minSubGroups": 0}),
    ({"minPartitions": 2}, {"minSubGroups": 2}),
    ({"networkTopology": {}}, {"minSubGroups": 0, "networkTopology": {"mode": "hard"}}),
)
def test_partitions_are_gangs_within_the_gang(more, expected):
    parts = {"totalPartitions": 3, "partitionSize": 2, **more}
    spec = group(task("ps"), task("worker", 6, partitionPolicy=parts))["spec"]
    assert spec["subGroupPolicy"] == [
        {
            "name": "worker",
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "subGroupSize": 2,
            **expected,
        }
    ]


@cases(
    ("what it says", {"minAvailable": 4}, 4),
    ("all its replicas", {"minAvailable": None}, 6),
    (
        "the least of its partitions",
        {"minAvailable": None, "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}},
        4,
    ),
    ("no least of them: all", {"minAvailable": None, "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2}}, 6),
)
def test_the_least_of_a_task(given, expected):
    one = {**task("worker", 6), **given}
    spec = podgroup.wanted(parsed(one, minAvailable=1), {}, frozenset())["spec"]
    assert spec["minTaskMember"] == {"worker": expected}


# what the gang takes

HIGH, LOW = {"high": 100, "low": -5}, {"low": -5}
A, B = task("a", 3, template=cpu("1"), minAvailable=1), task("b", 2, template=cpu("100m"), minAvailable=1)


@cases(
    ("each task's minimum", (A, B), 2, {}, "1100m"),
    ("filled up from the first task", (A, B), 3, {}, "2100m"),
    ("everything", (A, B), 5, {}, "3200m"),
    ("there are no more", (A, B), 9, {}, "3200m"),
    # fewer: whole tasks, in order
    ("the first task alone", (A, B), 1, {}, "1"),
    ("whole tasks first", (task("a", 2, template=cpu("1")), task("b", 2, template=cpu("100m"))), 3, {}, "2100m"),
    # by priority of the templates
    (
        "the more important task first",
        (task("a", 1, template=cpu("1", "low")), task("b", 1, template=cpu("100m", "high"))),
        1,
        HIGH,
        "100m",
    ),
    ("none is 0", (task("a", 1, template=cpu("1", "low")), task("b", 1, template=cpu("100m"))), 1, LOW, "100m"),
    (
        "an unknown class is 0, and the order stays",
        (task("a", 1, template=cpu("1", "gone")), task("b", 1, template=cpu("100m"))),
        1,
        HIGH,
        "1",
    ),
    ("no minimum of its own", ({**task("a", 3, template=cpu("1")), "minAvailable": None}, B), 4, {}, "3100m"),
)
def test_the_pods_that_make_up_a_gang(tasks, least, priorities, expected):
    spec = group(*tasks, minAvailable=least, priorities=priorities)["spec"]
    assert spec["minResources"]["cpu"] == spec["minResources"]["requests.cpu"] == expected


def test_an_empty_gang_needs_nothing():
    assert group(A, minAvailable=0)["spec"]["minResources"] == {}


ONE = {"pods": "1", "count/pods": "1"}
GPU = "nvidia.com/gpu"


def both(name, text):
    return {name: text, f"requests.{name}": text}


@cases(
    ("nothing", asks(container()), {}),
    ("containers together", asks(container(cpu="500m"), container(cpu="0.5")), both("cpu", "1")),
    ("binary stays binary", asks(container(memory="1Gi"), container(memory="512Mi")), both("memory", "1536Mi")),
    (
        "nothing has no style",
        asks(container(memory="0"), container(memory="1Gi"), container(memory="0")),
        both("memory", "1Gi"),
    ),
    ("decimal stays decimal", asks(container(memory="1G")), both("memory", "1G")),
    ("disk", asks(container(ephemeral_storage="1Gi")), both("ephemeral-storage", "1Gi")),
    (
        "limits under a name of their own",
        asks(container({"cpu": "2", "memory": "1Gi"}, cpu="1", memory="1Gi")),
        {**both("cpu", "1"), **both("memory", "1Gi"), "limits.cpu": "2", "limits.memory": "1Gi"},
    ),
    ("a limit alone is a request too", asks(container({"cpu": "2"})), {**both("cpu", "2"), "limits.cpu": "2"}),
    (
        "the pod as a whole",
        asks(container(cpu="1"), container(cpu="1", memory="1Gi"), resources={"requests": {"cpu": "3"}}),
        {**both("cpu", "3"), **both("memory", "1Gi")},
    ),
    (
        "less than its init container",
        asks(container(), init=[container(cpu="3")], resources={"requests": {"cpu": "2"}}, overhead={"cpu": "1"}),
        both("cpu", "3"),
    ),
    (
        "a limit of the pod alone",
        asks(container(), resources={"limits": {"memory": "1Gi"}}),
        {**both("memory", "1Gi"), "limits.memory": "1Gi"},
    ),
    (
        "a limit of the pod beside requests of its containers",
        asks(container(cpu="1"), resources={"limits": {"cpu": "3"}}),
        {**both("cpu", "1"), "limits.cpu": "3"},
    ),
    ("extended resources are not the pod's", asks(container(), resources={"requests": {GPU: "1"}}), {}),
    ("extended: no limits", asks(container({GPU: "2"}, **{GPU: "2"})), both(GPU, "2")),
    ("huge pages", asks(container(hugepages_2Mi="4Mi")), both("hugepages-2Mi", "4Mi")),
    ("a name of Kubernetes' own", asks(container(**{"scheduling.kubernetes.io/x": "1"})), {}),
    (
        "one that runs before may need more",
        asks(container(cpu="1"), init=[container(cpu="3"), container(cpu="2")]),
        both("cpu", "3"),
    ),
    ("or less", asks(container(cpu="2"), container(cpu="2"), init=[container(cpu="3")]), both("cpu", "4")),
    (
        "one beside the others counts with each",
        asks(container(cpu="1"), init=[{**container(cpu="1"), "restartPolicy": "Always"}, container(cpu="3")]),
        both("cpu", "4"),
    ),
    (
        "what the runtime takes",
        asks(container({"cpu": "1"}, cpu="1"), overhead={"cpu": "250m", "memory": "64Mi"}),
        {**both("cpu", "1250m"), **both("memory", "64Mi"), "limits.cpu": "1250m"},
    ),
)
def test_what_a_quota_counts_of_a_pod(template, expected):
    assert group(task(template=template))["spec"]["minResources"] == {**ONE, **expected}


AMOUNT = st.builds(
    "{}{}".format, st.integers(0, 10**6), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi", "u", "n"])
)


@given(st.lists(AMOUNT, max_size=6), st.integers(0, 50))
def test_sums_are_exact_however_they_are_written(texts, times):
    total = amounts.multiplied(amounts.total({"cpu": Amount.parse(text)} for text in texts), times)
    exact = sum(Fraction(quantities.parse(text)) for text in texts) * times
    rendered = amounts.render(total)
    assert quantities.parse(rendered.get("cpu", "0")) == exact
    assert all(quantities.canonical(text) == text for text in rendered.values())


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(-2, 2)), min_size=1, max_size=5), st.data())
def test_a_gang_has_exactly_its_least_number_of_pods_and_each_tasks_own_if_they_fit(numbers, data):
    tasks = [
        task(f"t{index}", replicas, minAvailable=min(least, replicas), template=cpu("1", f"p{priority}"))
        for index, (replicas, least, priority) in enumerate(numbers)
    ]
    total = sum(each["replicas"] for each in tasks)
    least = data.draw(st.integers(0, total))
    priorities = {f"p{value}": value for value in range(-2, 3)}
    spec = group(*tasks, minAvailable=least, priorities=priorities)["spec"]
    assert spec["minResources"].get("pods", "0") == str(least)
    assert quantities.parse(spec["minResources"].get("cpu", "0")) == least * quantities.ONE


# dependsOn

STAGES = (task("ps", 2, template=cpu("1")), task("worker", 4, template=cpu("1"), dependsOn={"name": ["ps"]}))


@cases(
    ("only those that may start", 6, {"worker"}, {"ps": 2}, 2),
    ("then all", 6, set(), {"ps": 2, "worker": 4}, 6),
    ("a smaller gang stays small", 1, {"worker"}, {"ps": 2}, 1),
    ("a gang between both", 3, {"worker"}, {"ps": 2}, 2),
    ("nobody may start", 6, {"ps", "worker"}, {}, 0),
)
def test_a_task_that_waits_is_not_in_the_gang_yet(least, waiting, members, expected):
    spec = group(*STAGES, minAvailable=least, waiting=waiting)["spec"]
    assert (spec["minMember"], spec["minTaskMember"]) == (expected, members)
    assert spec["minResources"].get("cpu") == (str(expected) if expected else None)


# what changes with the job


def stored(wanted, **spec):
    return {"metadata": wanted["metadata"], "spec": {**wanted["spec"], **spec}}


@cases(
    ("the same", {}, None),
    ("its queue stays", {"queue": "other"}, None),
    ("its size", {"minMember": 1}, {"minMember": 2}),
    ("its priority goes", {"priorityClassName": "low"}, {"priorityClassName": None}),
    ("a task that is gone stays counted", {"minTaskMember": {"a": 1, "b": 1, "old": 4}}, None),
    ("corrected and added", {"minTaskMember": {"a": 5}}, {"minTaskMember": {"a": 1, "b": 1}}),
    ("none at all", {"minTaskMember": None}, {"minTaskMember": {"a": 1, "b": 1}}),
    (
        "pods of other sizes",
        {"minTaskResources": {"a": {"cpu": "1"}, "c": {"cpu": "9"}}},
        {"minTaskResources": {"b": {"cpu": "100m"}, "c": None}},
    ),
    ("definitions that do not keep sizes", {"minTaskResources": None}, None),
    ("no partitions any more", {"subGroupPolicy": [{"name": "a"}]}, {"subGroupPolicy": None}),
    (
        "written otherwise",
        {"minResources": {**ONE, "pods": "2000m", "count/pods": "2", "cpu": "1.1", "requests.cpu": "1100m"}},
        None,
    ),
    (
        "other resources",
        {"minResources": {"memory": "1Gi", "pods": "2"}},
        {"minResources": {"memory": None, "pods": "2", "count/pods": "2", "cpu": "1100m", "requests.cpu": "1100m"}},
    ),
    (
        "resources nobody understands",
        {"minResources": {"cpu": "much"}},
        {"minResources": {"pods": "2", "count/pods": "2", "cpu": "1100m", "requests.cpu": "1100m"}},
    ),
)
def test_an_existing_group_follows_the_job(there, expected):
    wanted = group(A, B)
    assert podgroup.patch(stored(wanted, **there), wanted) == (expected and {"spec": expected})


@cases(
    ("requests", {"requests": {"cpu": "3"}}, {"cpu": "3", "memory": "1Gi"}, {"cpu": "2"}),
    ("limits", {"limits": {"cpu": "4", "memory": "2Gi"}}, {"cpu": "2", "memory": "1Gi"}, {"cpu": "4", "memory": "2Gi"}),
    (
        "limits of what no container asks for",
        {"limits": {"hugepages-2Mi": "4Mi"}},
        {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
        None,
    ),
    ("not of whole pods", {"requests": {"example.com/gpu": "1"}}, {"cpu": "2", "memory": "1Gi"}, {"cpu": "2"}),
    ("nothing", {}, {"cpu": "2", "memory": "1Gi"}, {"cpu": "2"}),
)
def test_resources_of_a_whole_pod_take_the_place_of_its_containers(resources, requested, limited):
    containers = [{"resources": {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"cpu": "1"}}}] * 2
    spec = {"containers": containers, "resources": resources}
    assert amounts.render(pod_requests.requests(spec)) == dict(sorted(requested.items()))
    if limited is not None:
        assert amounts.render(pod_requests.limits(spec)) == limited
    whole = {**spec, "overhead": {"cpu": "1"}}
    more = pod_requests.requests(whole)["cpu"].value - pod_requests.requests(spec)["cpu"].value
    assert more == amounts.Amount.parse("1").value
    assert str(pod_requests.usage(spec)["requests.cpu"]) == requested["cpu"]


def test_requests_and_limits_count_the_runtime_only_where_there_is_something():
    spec = asks(container({"cpu": "1"}, cpu="1"), overhead={"memory": "1Mi"})["spec"]
    assert amounts.render(pod_requests.requests(spec)) == {"cpu": "1", "memory": "1Mi"}
    assert amounts.render(pod_requests.limits(spec)) == {"cpu": "1"}


def test_the_amounts_of_pods_with_equal_resources_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def counted(texts: Any, parse: Any = amounts.parse) -> Any:
        read.append(texts)
        return parse(texts)

    monkeypatch.setattr(amounts, "parse", counted)

    def asked(image: str, **more: Any) -> Object:
        return {"containers": [{"image": image, "resources": {"requests": {"cpu": "17m"}}}], **more}

    first = (pod_requests.requests(asked("one")), pod_requests.usage(asked("one")))
    assert read
    read.clear()
    assert (pod_requests.requests(asked("two")), pod_requests.usage(asked("two"))) == first
    assert not read
    assert str(pod_requests.requests(asked("two", overhead={"cpu": "1"}))["cpu"]) == "1017m"
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "3m"}}}
    sums = [
        pod_requests.requests(asked("two", initContainers=[each]))["cpu"]
        for each in ({**sidecar, "restartPolicy": None}, sidecar)
    ]
    assert list(map(str, sums)) == ["17m", "20m"]
