"""Defaults and validation of a new Job of Volcano."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.admission.bodies import fields, job, known, queue, task
from workers.admission.volcano import job as rules
from workers.admission.volcano import lifecycle_policies, plugins

POLICY = {"event": "PodFailed", "action": "RestartJob"}


def with_policies(*found):
    return {"policies": list(found)}


def cpu(amount, part="containers", kind="requests"):
    """A task on a NUMA node, and what its container asks for."""
    asked = {"resources": {kind: {"cpu": amount}}} if amount is not None else {}
    spec = {part: [{"name": "main", "image": "busybox", **asked}]}
    return task(template={"spec": spec}, topologyPolicy="restricted")


def parted(total=2, size=2, replicas=4, **more):
    """A task in partitions."""
    given = {"totalPartitions": total, "partitionSize": size}
    given |= {key: more.pop(key) for key in ("minPartitions", "networkTopology") if key in more}
    return task(replicas=replicas, partitionPolicy=given, **more)


CLAIM = {"accessModes": ["ReadWriteOnce"]}
TIERS = {"highestTierAllowed": 1, "highestTierName": "rack"}

REFUSED = {
    "no task": (job(tasks=[]), "spec.tasks"),
    "minAvailable below 0": (job(minAvailable=-1), "spec.minAvailable"),
    "maxRetry below 0": (job(maxRetry=-1), "spec.maxRetry"),
    "ttl below 0": (job(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished"),
    "replicas below 0": (job(task(replicas=-1)), "spec.tasks[0].replicas"),
    "more replicas than a counter holds": (job(task(replicas=2**31)), "spec.tasks[0].replicas"),
    "more replicas than a cluster has pods": (job(task("a", 100_000), task("b", 50_001)), "spec.tasks"),
    "task's minAvailable below 0": (job(task(minAvailable=-1)), "spec.tasks[0].minAvailable"),
    "task's minAvailable over its replicas": (job(task("a"), task(minAvailable=2)), "spec.tasks[1].minAvailable"),
    "minAvailable over all replicas": (job(task("a", 2), task("b", 3), minAvailable=6), "spec.minAvailable"),
    "a task's name that is no label": (job(task("Work")), "spec.tasks[0].name"),
    "a task's name that is too long": (job(task("a" * 64), name="j"), "spec.tasks[0].name"),
    "two tasks of one name": (job(task("a"), task("b"), task("a")), "spec.tasks[2].name"),
    "a task named like one that is filled in": (job(task(""), task("default0")), "spec.tasks[1].name"),
    "pods' names that are too long": (job(task("a" * 30), name="j" * 32), "spec.tasks[0].name"),
    "hostnames that are too long": (job(task("a" * 30, 100), name="j" * 30, plugins={"svc": []}), "spec.tasks[0].name"),
    "a hostname that its number makes too long": (
        job(task("a" * 30, 11), name="j" * 30, plugins={"svc": []}),
        "spec.tasks[0].name",
    ),
    "a name with dots, after which a Service is called": (job(name="a.b.c", plugins={"svc": []}), "metadata.name"),
    "a name that begins with a number, too": (job(name="1st", plugins={"svc": []}), "metadata.name"),
    "a name with dots, and a plugin that brings the Service": (
        job(name="a.b", plugins={"pytorch": []}),
        "metadata.name",
    ),
    "a name too long for the Service of ray's head": (
        job(task("a"), name="j" * 55, plugins={"ray": ["--head=a"]}),
        "metadata.name",
    ),
    "a name with a dot and a slash": (job(name="a/b/c"), "metadata.name"),
    "a name that is too long": (job(name="j" * 64), "metadata.name"),
    "a policy of the job": (
        job(**with_policies({"event": "Nonsense", "action": "AbortJob"})),
        "spec.policies[0].event",
    ),
    "a policy for a code": (job(**with_policies({"exitCode": 1, "action": "Nonsense"})), "spec.policies[0].action"),
    "a policy of a task": (job(task("a"), task(**with_policies(POLICY, POLICY))), "spec.tasks[1].policies[1].event"),
    "a timeout that is none": (job(**with_policies({**POLICY, "timeout": "soon"})), "spec.policies[0].timeout"),
    "an unknown plugin": (job(plugins={"teleport": []}), "spec.plugins[teleport]"),
    "mpi without its master": (job(plugins={"mpi": []}), "spec.plugins[mpi]"),
    "mpi without the master it names": (job(task("master"), plugins={"mpi": ["--master=m"]}), "spec.plugins[mpi]"),
    "ray without its head": (job(task("worker"), plugins={"ray": []}), "spec.plugins[ray]"),
    "ray without the head it names": (job(task("head"), plugins={"ray": ["--head=lead"]}), "spec.plugins[ray]"),
    "a volume without a path": (job(volumes=[{"mountPath": "", "volumeClaimName": "c"}]), "spec.volumes[0].mountPath"),
    "a volume whose path has a colon": (
        job(volumes=[{"mountPath": "/a:b", "volumeClaimName": "c"}]),
        "spec.volumes[0].mountPath",
    ),
    "two volumes at one path": (
        job(volumes=[{"mountPath": "/d", "volumeClaimName": name} for name in ("a", "b")]),
        "spec.volumes[1].mountPath",
    ),
    "a volume without a claim": (job(volumes=[{"mountPath": "/d"}]), "spec.volumes[0]"),
    "a volume with two claims": (
        job(volumes=[{"mountPath": "/d", "volumeClaimName": "a", "volumeClaim": CLAIM}]),
        "spec.volumes[0]",
    ),
    "a claim's name that is none": (
        job(volumes=[{"mountPath": "/d", "volumeClaimName": "A_b"}]),
        "spec.volumes[0].volumeClaimName",
    ),
    "both ways to name a tier": (job(networkTopology=TIERS), "spec.networkTopology"),
    "both ways to name a task's tier": (
        job(parted(networkTopology=TIERS)),
        "spec.tasks[0].partitionPolicy.networkTopology",
    ),
    "partitions that are not the replicas": (job(parted(replicas=5)), "spec.tasks[0].partitionPolicy"),
    "partitions that are not minAvailable": (
        job(parted(minPartitions=1, minAvailable=3)),
        "spec.tasks[0].minAvailable",
    ),
    "a part of a CPU on a NUMA node": (
        job(cpu("1500m")),
        "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]",
    ),
    "no CPU on a NUMA node": (job(cpu(None)), "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]"),
    "zero CPUs on a NUMA node": (job(cpu("0")), "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]"),
    "an init container's part of a CPU": (
        job(cpu("500m", "initContainers")),
        "spec.tasks[0].template.spec.initContainers[0].resources.requests[cpu]",
    ),
    "a task that waits for itself": (job(task("a", dependsOn={"name": ["a"]})), "spec.tasks"),
    "tasks that wait for each other": (
        job(*(task(one, dependsOn={"name": [other]}) for one, other in ("ab", "bc", "ca"))),
        "spec.tasks",
    ),
    "a task that waits for none": (job(task("a", dependsOn={"name": ["b"]})), "spec.tasks[0].dependsOn.name"),
    "a task that waits for one twice": (
        job(task("a"), task("b", dependsOn={"name": ["a", "a"]})),
        "spec.tasks[1].dependsOn.name",
    ),
    "a queue that is not there": (job(queue="nowhere"), "spec.queue"),
    "a queue that is closed": (job(queue="closed"), "spec.queue"),
    "a queue that is closing": (job(queue="closing"), "spec.queue"),
    "the highest queue": (job(queue="root"), "spec.queue"),
    "a queue with others below it": (job(queue="parent"), "spec.queue"),
}

ACCEPTED = {
    "one task": job(),
    "as many replicas as a cluster has pods": job(task("a", 100_000), task("b", 50_000)),
    "no replicas": job(task(replicas=0)),
    "minAvailable as all replicas": job(task("a", 2), task("b", 3), minAvailable=5),
    "a name with dots": job(name="a.b.c", plugins={"env": [], "ssh": []}),
    "a name that begins with a number": job(name="1st"),
    "the longest name of ray's head": job(task("a"), name="j" * 54, plugins={"ray": ["--head=a"]}),
    "the longest name of pods": job(task("a" * 30), name="j" * 30),
    "pods' names that are no hostnames": job(task("a" * 30, 100), name="j" * 30),
    "mpi with the master it names": job(task("m"), plugins={"mpi": ["--master", "m"]}),
    "all plugins": job(task("master"), task("head"), plugins={name: [] for name in plugins.KNOWN}),
    "whole CPUs on a NUMA node": job(cpu("2")),
    "whole CPUs as a limit": job(cpu("2000m", kind="limits")),
    "tasks one after the other": job(
        task("a"), task("b", dependsOn={"name": ["a"]}), task("c", dependsOn={"name": ["a", "b"], "iteration": "any"})
    ),
    "partitions": job(parted(minPartitions=1, minAvailable=2)),
    "a claim to be made": job(volumes=[{"mountPath": "/d", "volumeClaim": CLAIM}]),
    "a queue nobody has opened yet": job(queue="new"),
    "an open queue below another": job(queue="leaf"),
    "what Penstock adds": job(suspend=True, activeDeadlineSeconds=60, restartBackoff={"seconds": 5}),
}

QUEUES = known(
    queue("closed", "Closed"),
    queue("closing", "Closing"),
    queue("new", ""),
    queue("parent"),
    queue("leaf", parent="parent"),
)


@cases(REFUSED)
def test_what_is_refused_is_refused_by_the_name_of_its_field(body, field):
    assert fields(rules.problems(body, None, QUEUES)) == [field]


@cases(ACCEPTED)
def test_what_can_run_is_accepted(body):
    assert rules.problems(body, None, QUEUES) == []


@cases(ACCEPTED)
def test_what_is_filled_in_is_accepted_too_and_filled_in_once(body):
    before = copy.deepcopy(body)
    filled = rules.defaulted(body)
    assert body == before
    assert rules.problems(filled, None, QUEUES) == []
    assert rules.defaulted(filled) == filled


@pytest.mark.parametrize(
    "body",
    [
        case
        for name, (case, _) in REFUSED.items()
        if name not in ("a queue that is not there", "a queue that is closed")
    ],
)
def test_filling_in_hides_nothing_that_is_wrong(body):
    assert rules.problems(rules.defaulted(body), None, QUEUES)


def test_all_findings_are_reported_at_once():
    body = job(task(minAvailable=2), queue="nowhere", plugins={"teleport": []})
    assert fields(rules.problems(body, None, QUEUES)) == [
        "spec.plugins[teleport]",
        "spec.tasks[0].minAvailable",
        "spec.queue",
    ]


def test_a_cycle_is_reported_with_its_names():
    body = job(
        *(task(one, dependsOn={"name": [other]}) for one, other in ("ab", "ba")), task("c", dependsOn={"name": ["a"]})
    )
    (found,) = rules.problems(body, None, QUEUES)
    assert found.message == "they wait for each other in a circle: a -> b -> a"


def test_a_name_that_is_still_to_be_generated_is_not_judged():
    body = job(task("a" * 63), plugins={"svc": []})
    body["metadata"] = {"generateName": "crunch-"}
    assert rules.problems(body, None, QUEUES) == []


VOLCANO = {"queue": "default", "schedulerName": "volcano"}
DEFAULTS = {
    "nothing": ({}, {}, {**VOLCANO, "maxRetry": 3, "minAvailable": 1}),
    "what is there stays": (
        {},
        {"queue": "q", "schedulerName": "mine", "maxRetry": 5, "minAvailable": 1},
        {"queue": "q", "schedulerName": "mine", "maxRetry": 5, "minAvailable": 1},
    ),
    "zeros are filled in": ({"replicas": 4}, {"minAvailable": 0, "maxRetry": 0}, {"minAvailable": 4, "maxRetry": 3}),
    "empty texts are filled in": (
        {},
        {"queue": "", "schedulerName": ""},
        {"queue": "default", "schedulerName": "volcano"},
    ),
    "minAvailable is the sum of the tasks'": ({"replicas": 4, "minAvailable": 2}, {}, {"minAvailable": 2}),
    "a plugin's needs": (
        {},
        {"plugins": {"tensorflow": ["--port=1"]}},
        {"plugins": {"tensorflow": ["--port=1"], "svc": []}},
    ),
    "mpi's needs": ({}, {"plugins": {"mpi": []}}, {"plugins": {"mpi": [], "svc": [], "ssh": []}}),
    "ray's needs": ({}, {"plugins": {"ray": []}}, {"plugins": {"ray": [], "svc": []}}),
    "needs that are met": (
        {},
        {"plugins": {"pytorch": [], "svc": ["-x"]}},
        {"plugins": {"pytorch": [], "svc": ["-x"]}},
    ),
}


@cases(DEFAULTS)
def test_what_a_job_is_filled_in_with(own, spec, expected):
    filled = rules.defaulted(job(task(**own), **spec))["spec"]
    assert {name: filled[name] for name in expected} == expected


def _pods(**spec):
    return {"template": {"spec": spec}}


TASKS = {
    "name": ({"name": ""}, {"name": "default1"}),
    "maxRetry": ({}, {"maxRetry": 3}),
    "a zero": ({"maxRetry": 0}, {"maxRetry": 3}),
    "minAvailable": ({"replicas": 4}, {"minAvailable": 4}),
    "an explicit zero stays": ({"replicas": 4, "minAvailable": 0}, {"minAvailable": 0}),
    "minAvailable of partitions": (
        {"replicas": 6, "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}},
        {"minAvailable": 4},
    ),
    "no least number of partitions": (
        {"replicas": 6, "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2}},
        {"minAvailable": 6},
    ),
    "the host's network": (_pods(hostNetwork=True), _pods(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")),
    "a dnsPolicy": (_pods(hostNetwork=True, dnsPolicy="Default"), _pods(hostNetwork=True, dnsPolicy="Default")),
    "no host's network": (_pods(hostNetwork=False), _pods(hostNetwork=False)),
}


@cases(TASKS)
def test_what_a_task_is_filled_in_with(own, expected):
    filled = rules.defaulted(job(task("first"), {**task(), **own}))["spec"]["tasks"][1]
    assert {name: filled[name] for name in expected} == expected


def test_the_first_of_several_schedulers_is_filled_in():
    assert rules.defaulted(job(), ("mine", "volcano"))["spec"]["schedulerName"] == "mine"


@for_each(None, 1, [], "x", {"tasks": "x"}, {"tasks": [1]}, {"tasks": [{"replicas": "1"}]})
def test_what_the_schema_refuses_is_left_for_it_to_say_so(spec):
    body = {**job(), "spec": spec}
    assert rules.defaulted(body) == body
    assert fields(rules.faults(body))


NUMBERS = st.integers(0, 5)


@given(st.lists(st.tuples(NUMBERS, st.none() | NUMBERS), min_size=1, max_size=4), st.none() | st.integers(0, 25))
def test_a_job_is_refused_for_its_numbers_exactly_when_they_do_not_fit(tasks, least):
    more = [{} if each is None else {"minAvailable": each} for _, each in tasks]
    body = job(
        *(task(f"t{i}", tasks[i][0], **more[i]) for i in range(len(tasks))),
        **({} if least is None else {"minAvailable": least}),
    )
    wrong = any(each is not None and each > replicas for replicas, each in tasks)
    wrong = wrong or (least or 0) > sum(replicas for replicas, _ in tasks)
    assert bool(rules.problems(rules.defaulted(body), None, QUEUES)) is wrong


@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef"), max_size=3), min_size=1))
def test_tasks_are_refused_exactly_when_they_cannot_start_one_after_the_other(wanted):
    body = job(*(task(name, dependsOn={"name": sorted(needs)}) for name, needs in wanted.items()))
    started: set[str] = set()
    while ready := {name for name, needs in wanted.items() if needs <= started} - started:
        started |= ready
    assert bool(rules.problems(body, None, QUEUES)) is (started != set(wanted))


def on(*events, action="RestartJob", **more):
    """A policy for events."""
    return {"events": list(events), "action": action, **more}


REFUSED_POLICIES = {
    "neither event nor code": ([{"action": "AbortJob"}], "[0]"),
    "both event and code": ([{"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}], "[0]"),
    "both events and code": ([on("PodFailed", exitCode=1)], "[0]"),
    "an event that is none": ([{"event": "Nonsense", "action": "AbortJob"}], "[0].event"),
    "an event of the controller's own": ([on("OutOfSync")], "[0].events"),
    "a command": ([on("CommandIssued")], "[0].events"),
    "PodRunning": ([on("PodRunning")], "[0].events"),
    "an action that is none": ([on("PodFailed", action="Nonsense")], "[0].action"),
    "no action": ([{"event": "PodFailed"}], "[0].action"),
    "an event twice": ([on("PodFailed"), on("PodEvicted", "PodFailed")], "[1].events"),
    "an event twice with different actions": ([on("PodFailed"), on("PodFailed", action="AbortJob")], "[1].events"),
    "exit code 0": ([{"exitCode": 0, "action": "AbortJob"}], "[0].exitCode"),
    "an exit code twice": ([{"exitCode": 1, "action": a} for a in ("AbortJob", "RestartJob")], "[1].exitCode"),
    "an action of a code that is none": ([{"exitCode": 1, "action": "RestartJobs"}], "[0].action"),
    "a queue's action": ([{"exitCode": 1, "action": "OpenQueue"}], "[0].action"),
    "an action for an event that does nothing": ([on("PodFailed", action="SyncJob")], "[0].action"),
    "a timeout below 0": ([on("PodFailed", timeout="-5s")], "[0].timeout"),
    "all events and one of them": ([on("*"), on("PodFailed")], ""),
    "one of all events in the same policy": ([on("*", "PodFailed")], ""),
    "only the first is told": ([{"exitCode": 0, "action": "AbortJob"}, {"action": "AbortJob"}], "[0].exitCode"),
}

ACCEPTED_POLICIES = {
    "none": [],
    **{f"event {event}": [on(event)] for event in lifecycle_policies.EVENTS},
    **{f"action {action}": [on("PodFailed", action=action)] for action in lifecycle_policies.ACTIONS},
    "an event twice in one policy": [{"event": "PodFailed", "events": ["PodFailed"], "action": "AbortJob"}],
    "codes beside all events": [on("*"), {"exitCode": 137, "action": "AbortJob"}],
    "a code whose action does nothing": [{"exitCode": 1, "action": "SyncJob"}, {"exitCode": 2, "action": "EnqueueJob"}],
    "a code without an action": [{"exitCode": 1}],
    **{f"a code's action {action}": [{"exitCode": 1, "action": action}] for action in lifecycle_policies.ACTIONS},
    "a code below 0": [{"exitCode": -1, "action": "AbortJob"}],
    "a timeout of nothing": [on("PodFailed", timeout="0s")],
    "a timeout": [on("PodPending", timeout="10m")],
}


@cases(REFUSED_POLICIES)
def test_policies_that_contradict_or_say_nothing_are_refused(found, place):
    assert fields(rules.problems(job(policies=found), None, known())) == [f"spec.policies{place}"]


@cases(ACCEPTED_POLICIES)
def test_policies_that_can_be_followed_are_accepted(found):
    assert rules.problems(job(policies=found), None, known()) == []


CLAIM_VOLUME = {"accessModes": ["ReadWriteOnce"]}
OLD = rules.defaulted(
    job(
        task("a", 2, policies=[{"event": "PodFailed", "action": "RestartJob"}]),
        task("b", 3, minAvailable=1),
        volumes=[
            {"mountPath": "/made", "volumeClaim": CLAIM_VOLUME},
            {"mountPath": "/there", "volumeClaimName": "claim"},
        ],
        plugins={"env": []},
    )
)


def changed(*path, to):
    """The job with one field of its spec changed."""
    body = copy.deepcopy(OLD)
    place = body["spec"]
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = to
    return body


FORBIDDEN = "must not change"
REFUSED_CHANGES = {
    "queue": (changed("queue", to="other"), "spec.queue", FORBIDDEN),
    "schedulerName": (changed("schedulerName", to="other"), "spec.schedulerName", FORBIDDEN),
    "maxRetry": (changed("maxRetry", to=4), "spec.maxRetry", FORBIDDEN),
    "plugins": (changed("plugins", to={"env": [], "svc": []}), "spec.plugins", FORBIDDEN),
    "policies": (changed("policies", to=[{"exitCode": 1, "action": "AbortJob"}]), "spec.policies", FORBIDDEN),
    "ttl": (changed("ttlSecondsAfterFinished", to=1), "spec.ttlSecondsAfterFinished", FORBIDDEN),
    "minSuccess": (changed("minSuccess", to=1), "spec.minSuccess", FORBIDDEN),
    "a task's name": (changed("tasks", 0, "name", to="c"), "spec.tasks[0].name", FORBIDDEN),
    "a task's template": (changed("tasks", 1, "template", to={}), "spec.tasks[1].template", FORBIDDEN),
    "a task's policies": (changed("tasks", 0, "policies", to=[]), "spec.tasks[0].policies", FORBIDDEN),
    "a task more": (changed("tasks", to=[*OLD["spec"]["tasks"], task("c")]), "spec.tasks", "stay as many"),
    "a task less": (changed("tasks", to=[task("a", 5)]), "spec.tasks", "stay as many"),
    "a claim that was named": (changed("volumes", 1, "volumeClaimName", to="x"), "spec.volumes", FORBIDDEN),
    "a volume's path": (changed("volumes", 0, "mountPath", to="/x"), "spec.volumes", FORBIDDEN),
    "minAvailable over all replicas": (changed("minAvailable", to=6), "spec.minAvailable", "6 > 5"),
    "a task's minAvailable over its replicas": (
        changed("tasks", 1, "minAvailable", to=4),
        "spec.tasks[1].minAvailable",
        "4 > 3",
    ),
    "replicas below minAvailable": (changed("tasks", 0, "replicas", to=1), "spec.tasks[0].minAvailable", "2 > 1"),
    "replicas below 0": (changed("tasks", 1, "replicas", to=-1), "spec.tasks[1].replicas", "greater than"),
}

ACCEPTED_CHANGES = {
    "nothing": OLD,
    "minAvailable": changed("minAvailable", to=1),
    "priorityClassName": changed("priorityClassName", to="high"),
    "a task's replicas": changed("tasks", 1, "replicas", to=30),
    "a task's minAvailable": changed("tasks", 1, "minAvailable", to=0),
    "the name of a claim that was made": changed("volumes", 0, "volumeClaimName", to="crunch-made"),
    "a null inside of what stays": changed("tasks", 0, "policies", 0, "timeout", to=None),
    "a null for what is not there": changed("minSuccess", to=None),
    "a default that the manifest leaves out": changed("tasks", 0, "maxRetry", to=None),
    "Penstock's suspend": changed("suspend", to=True),
    "Penstock's deadline": changed("activeDeadlineSeconds", to=5),
}


@cases(REFUSED_CHANGES)
def test_what_must_stay_is_refused_by_the_name_of_its_field(body, field, text):
    found = rules.problems(body, OLD, known())
    assert fields(found)[0] == field
    assert text in found[0].message


@cases(ACCEPTED_CHANGES)
def test_what_may_change_does(body):
    assert rules.problems(body, OLD, known()) == []


def test_a_job_whose_queue_closed_may_still_be_changed():
    assert rules.problems(changed("tasks", 1, "replicas", to=2), OLD, known()) == []


def test_what_was_stored_before_the_rules_were_may_lose_its_finalizers():
    bad = job(task(minAvailable=5), plugins={"teleport": []})
    new = copy.deepcopy(bad)
    bad["metadata"]["finalizers"] = ["example.com/wait"]
    assert rules.problems(new, bad, known()) == []
