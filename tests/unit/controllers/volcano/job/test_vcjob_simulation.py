"""A Volcano Job in a random simulation: pods end and vanish, commands arrive, plans are cut short at any step."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.unit.controllers.factories import at
from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import task, vcjob
from workers.api.kinds import CONFIG_MAP, NETWORK_POLICY, POD_GROUP, QUEUE, SECRET, SERVICE, Ref
from workers.controllers.volcano.job import phases

# Seconds of CPU are minutes on a busy machine. A limit that ends an example makes Hypothesis report inconsistent data.
pytestmark = pytest.mark.timeout(900)

ITS_QUEUE = Ref(QUEUE, "", "default")
EVENTS = ("PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown")
ACTIONS = (
    *("RestartJob", "RestartTask", "RestartPod", "RestartPartition"),
    *("AbortJob", "TerminateJob", "CompleteJob", "ResumeJob"),
)
COMMANDS = ("AbortJob", "ResumeJob", "ResumeJob", "RestartJob", "RestartTask", "TerminateJob", "CompleteJob")
#: Phases that may follow each other in the job's history; a phase may also be seen again at once.
FOLLOWS = {
    "Pending": {"Running", "Restarting", "Aborting", "Terminating", "Completing"},
    "Running": {"Pending", "Completed", "Failed", "Restarting", "Aborting", "Terminating", "Completing"},
    # Out of the wait for its backoff a job can be stopped.
    "Restarting": {"Pending", "Failed", "Aborting", "Terminating", "Completing"},
    "Aborting": {"Aborted", "Restarting"},
    "Aborted": {"Restarting", "Pending"},
    "Terminating": {"Terminated"},
    "Completing": {"Completed"},
    "Completed": set(),
    "Failed": set(),
    "Terminated": set(),
}


@st.composite
def policies(draw):
    """Policies for different events, some of which wait."""
    events = draw(st.lists(st.sampled_from((*EVENTS, 3, "PodPending")), unique=True, max_size=4))
    found = []
    for event in events:
        timeout = {"timeout": "30s"} if event == "PodPending" or draw(st.booleans()) else {}
        # For an exit code there may be none at all.
        actions = (*ACTIONS, "SyncJob") if isinstance(event, int) else ACTIONS
        cause = {"exitCode": event} if isinstance(event, int) else {"event": event}
        found.append({**cause, "action": draw(st.sampled_from(actions)), **timeout})
    return found


class VcJobSimulation(RuleBasedStateMachine):
    cluster: VcJobCluster

    @initialize(
        job=policies(),
        worker=policies(),
        retries=st.integers(0, 3),
        least=st.integers(1, 4),
        stubborn=st.booleans(),
        backoff=st.sampled_from([None, {"seconds": 7}]),
        deadline=st.sampled_from([None, 20]),
        plugins=st.sampled_from([{}, {"svc": [], "ssh": []}]),
        waits=st.booleans(),
        fails=st.booleans(),
    )
    def begin(self, job, worker, retries, least, stubborn, backoff, deadline, plugins, waits, fails):
        depends = {"dependsOn": {"name": ["ps"]}} if waits else {}
        parts = {"partitionPolicy": {"totalPartitions": 3, "partitionSize": 1}}
        limits = {"restartBackoff": backoff, "activeDeadlineSeconds": deadline}
        spec = {name: limit for name, limit in limits.items() if limit}
        body = vcjob(
            task("ps", 1), task("worker", 3, policies=worker, **depends, **parts), policies=job, plugins=plugins, **spec
        )
        # A stored job may say that it has no retries, though no webhook lets one in.
        body["spec"] |= {"maxRetry": retries, "minAvailable": least}
        self.retries, self.fails = retries or 3, fails
        self.cluster = VcJobCluster(body, stubborn=stubborn)
        self.policed = bool(job or worker)
        self.version = self.commands = self.suspensions = 0

    # The controller

    @rule()
    def a_decision_is_carried_out(self):
        self.cluster.sync()

    @rule(budget=st.integers(0, 8))
    def a_decision_dies_half_way(self, budget):
        self.cluster.budget = budget
        self.cluster.sync()

    @rule()
    def everything_comes_to_rest(self):
        self.cluster.settle()
        if self.cluster.phase in ("Pending", "Running") and ITS_QUEUE in self.cluster.objects:
            old = [
                name
                for name in self.at_work()
                if _version(self.cluster.pods[name]) != self.cluster.status.get("version", 0)
            ]
            assert old == [], "pods at work are of the job's version"

    @rule()
    def the_gang_is_admitted(self):
        self.cluster.admit()

    @precondition(lambda self: self.cluster.group)
    @rule(phase=st.sampled_from(["Running", "Unknown", "Pending", "Inqueue"]))
    def the_gang_is_seen_otherwise(self, phase):
        self.cluster.grouped(phase)

    # The kubelet

    def at_work(self):
        phases_ = {name: self.cluster.pods[name]["status"]["phase"] for name in self.cluster.alive()}
        return [name for name, phase in phases_.items() if phase in ("Pending", "Running")]

    @rule(seconds=st.sampled_from([1, 5, 40]))
    def time_passes(self, seconds):
        self.cluster.second += seconds

    @rule()
    def pods_begin(self):
        self.cluster.run()

    @precondition(lambda self: self.at_work())
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1, 3]))
    def a_pod_ends(self, data, code):
        self.cluster.set(data.draw(st.sampled_from(self.at_work())), "Failed" if code else "Succeeded", code)

    @precondition(lambda self: self.at_work())
    @rule(data=st.data())
    def a_container_restarts(self, data):
        self.cluster.set(data.draw(st.sampled_from(self.at_work())), "Running", restarts=3)

    @rule()
    def what_is_going_goes(self):
        self.cluster.reap()

    # Users

    @precondition(lambda self: self.cluster.alive())
    @rule(data=st.data())
    def a_user_deletes_a_pod(self, data):
        self.cluster.delete(data.draw(st.sampled_from(self.cluster.alive())))

    @rule(action=st.sampled_from(COMMANDS))
    def a_user_commands(self, action):
        self.commands += 1
        self.cluster.command(action)

    @rule(suspend=st.booleans())
    def a_user_suspends(self, suspend):
        self.suspensions += suspend
        self.cluster.edit(suspend=suspend)

    @rule(replicas=st.integers(1, 3), least=st.integers(0, 4))
    def a_user_scales(self, replicas, least):
        ps, worker = self.cluster.job["spec"]["tasks"]
        parts = {"totalPartitions": replicas, "partitionSize": 1}
        worker = {**worker, "replicas": replicas, "minAvailable": replicas, "partitionPolicy": parts}
        self.cluster.edit(tasks=[ps, worker], minAvailable=min(least, 1 + replicas))

    @rule(kind=st.sampled_from([CONFIG_MAP, SERVICE, NETWORK_POLICY, SECRET, POD_GROUP]))
    def somebody_deletes_what_was_made(self, kind):
        for ref in [ref for ref in self.cluster.objects if ref.kind == kind]:
            del self.cluster.objects[ref]

    @rule()
    def the_queue_goes(self):
        self.cluster.objects.pop(ITS_QUEUE, None)

    @precondition(lambda self: ITS_QUEUE not in self.cluster.objects)
    @rule()
    def the_queue_comes_back(self):
        self.cluster.put(ITS_QUEUE, {"metadata": {"name": "default"}})

    # What always holds

    @invariant()
    def the_history_is_one_that_the_table_allows(self):
        if hasattr(self, "cluster"):
            history = [one["status"] for one in self.cluster.status.get("conditions", [])]
            for before, after in pairwise(history):
                assert after in FOLLOWS[before], history

    @invariant()
    def it_is_not_restarted_more_often_than_it_may(self):
        if hasattr(self, "cluster"):
            assert self.cluster.status.get("retryCount", 0) <= self.retries

    @invariant()
    def the_version_never_falls(self):
        if hasattr(self, "cluster"):
            version = self.cluster.status.get("version", 0)
            assert version >= self.version
            self.version = version

    @invariant()
    def each_command_acts_once(self):
        if hasattr(self, "cluster"):
            if not self.policed:
                # Besides, the end of a job is a kill.
                assert self.cluster.status.get("version", 0) <= self.commands + self.suspensions + 1
                assert self.cluster.status.get("retryCount", 0) <= self.commands
            told = [message for reason, message in self.cluster.events if reason == "CommandIssued"]
            assert len(told) == len(set(told))

    @invariant()
    def pods_have_a_place_and_the_gang_was_admitted(self):
        if hasattr(self, "cluster"):
            places = {"train-ps-0", "train-worker-0", "train-worker-1", "train-worker-2"}
            assert set(self.cluster.pods) <= places

    def teardown(self):
        if hasattr(self, "cluster"):
            self._comes_to_an_end()

    def _comes_to_an_end(self):
        cluster = self.cluster
        if ITS_QUEUE not in cluster.objects:
            self.the_queue_comes_back()
        cluster.edit(suspend=False)
        for _ in range(80):
            cluster.settle()
            cluster.reap()
            if cluster.phase == "Aborted":
                self.commands += 1
                cluster.command("ResumeJob")
            if cluster.phase in phases.FINAL and "Command" not in cluster.kinds():
                break
            if self.fails and "train-ps-0" in self.at_work():
                # Before it serves: what depends on it never starts, unless a policy makes it again.
                cluster.set("train-ps-0", "Failed", 1)
            cluster.run()
            cluster.settle()
            cluster.end()
            if cluster.group and cluster.group["status"].get("phase") == "Pending":
                cluster.admit()
            cluster.second = max(cluster.second + 1, cluster.back or 0)
        assert cluster.phase in phases.FINAL, cluster.status
        cluster.settle()
        cluster.reap()
        assert cluster.kinds() <= {"Pod"}, "nothing but pods that ended is left of what was made"
        left = {pod["status"]["phase"] for pod in cluster.pods.values()}
        assert left <= {"Succeeded", "Failed"}
        before = (cluster.job, dict(cluster.objects))
        cluster.settle()
        assert (cluster.job, cluster.objects) == before


def _version(pod):
    return int(pod["metadata"]["annotations"]["volcano.sh/job-version"])


def test_a_job_keeps_the_rules_and_comes_to_its_end():
    run_state_machine_as_test(
        VcJobSimulation, settings=settings(max_examples=150, stateful_step_count=40, deadline=None)
    )


#: Kills that a stored state may say are under way.
KILLS = (None, [{"retain": "none", "version": 0}], [{"retain": "soft", "task": "worker"}])


@settings(max_examples=300, deadline=None)
@given(
    job=policies(),
    phase=st.sampled_from(sorted(phases.AT_WORK)),
    pods=st.lists(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]), min_size=3, max_size=3),
    leaving=st.sampled_from([0, 1, 3]),
    started=st.sampled_from([None, -20, 0]),
    restarts=st.sampled_from([None, -5, 5]),
    retries=st.integers(0, 3),
    killing=st.sampled_from(KILLS),
    command=st.sampled_from([None, *COMMANDS]),
    suspend=st.booleans(),
)
def test_decisions_come_to_rest_from_every_stored_state(
    job, phase, pods, leaving, started, restarts, retries, killing, command, suspend
):
    spec = {"activeDeadlineSeconds": 20, "restartBackoff": {"seconds": 7}, "minAvailable": 2}
    cluster = VcJobCluster(vcjob(task("worker", 3), policies=job, **spec), stubborn=True).start()
    for index, (name, its) in enumerate(zip(cluster.alive(), pods, strict=True)):
        cluster.set(name, its, 1 if its == "Failed" else 0)
        if index < leaving:
            cluster.delete(name)
    stored = {
        "state": {"phase": phase, "lastTransitionTime": at(0)},
        "retryCount": retries,
        "startTime": None if started is None else at(started),
        "restartTime": None if restarts is None else at(restarts),
        "killing": killing,
    }
    cluster.job["status"] = {name: value for name, value in {**cluster.status, **stored}.items() if value}
    if command:
        cluster.command(command)
    cluster.edit(suspend=suspend).settle(rounds=20)
