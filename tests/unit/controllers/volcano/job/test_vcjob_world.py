"""A Volcano Job in a world driven at random: pods end and vanish, people command, plans die between any two steps."""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import task, vcjob
from workers.controllers.volcano.job import phases

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


class VcJobInAWorld(RuleBasedStateMachine):
    world: VcJobCluster

    @initialize(
        job=policies(),
        worker=policies(),
        retries=st.integers(0, 3),
        least=st.integers(1, 4),
        stubborn=st.booleans(),
        backoff=st.sampled_from([None, {"seconds": 7}]),
        plugins=st.sampled_from([{}, {"svc": [], "ssh": []}]),
        waits=st.booleans(),
        fails=st.booleans(),
    )
    def begin(self, job, worker, retries, least, stubborn, backoff, plugins, waits, fails):
        depends = {"dependsOn": {"name": ["ps"]}} if waits else {}
        parts = {"partitionPolicy": {"totalPartitions": 3, "partitionSize": 1}}
        spec = {"restartBackoff": backoff} if backoff else {}
        body = vcjob(
            task("ps", 1),
            task("worker", 3, policies=worker, **depends, **parts),
            policies=job,
            plugins=plugins,
            **spec,
        )
        # A stored job may say that it has no retries, though no webhook lets one in.
        body["spec"] |= {"maxRetry": retries, "minAvailable": least}
        self.retries, self.fails = retries or 3, fails
        self.world = VcJobCluster(body, stubborn=stubborn)
        self.policed = bool(job or worker)
        self.version = self.commands = self.suspensions = 0

    # The controller

    @rule()
    def a_decision_is_carried_out(self):
        self.world.sync()

    @rule(budget=st.integers(0, 8))
    def a_decision_dies_half_way(self, budget):
        self.world.budget = budget
        self.world.sync()

    @rule()
    def everything_comes_to_rest(self):
        self.world.settle()
        if self.world.phase in ("Pending", "Running"):
            old = [
                name
                for name in self.at_work()
                if _version(self.world.pods[name]) != self.world.status.get("version", 0)
            ]
            assert old == [], "pods at work are of the job's version"

    @rule()
    def the_gang_is_admitted(self):
        self.world.admit()

    @precondition(lambda self: self.world.group)
    @rule(phase=st.sampled_from(["Running", "Unknown", "Pending", "Inqueue"]))
    def the_gang_is_seen_otherwise(self, phase):
        self.world.grouped(phase)

    # The kubelet

    def at_work(self):
        phases_ = {name: self.world.pods[name]["status"]["phase"] for name in self.world.alive()}
        return [name for name, phase in phases_.items() if phase in ("Pending", "Running")]

    @rule(seconds=st.sampled_from([1, 5, 40]))
    def time_passes(self, seconds):
        self.world.second += seconds

    @rule()
    def pods_begin(self):
        self.world.run()

    @precondition(lambda self: self.at_work())
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1, 3]))
    def a_pod_ends(self, data, code):
        self.world.set(data.draw(st.sampled_from(self.at_work())), "Failed" if code else "Succeeded", code)

    @precondition(lambda self: self.at_work())
    @rule(data=st.data())
    def a_container_restarts(self, data):
        self.world.set(data.draw(st.sampled_from(self.at_work())), "Running", restarts=3)

    @rule()
    def what_is_going_goes(self):
        self.world.reap()

    # People

    @precondition(lambda self: self.world.alive())
    @rule(data=st.data())
    def somebody_deletes_a_pod(self, data):
        self.world.delete(data.draw(st.sampled_from(self.world.alive())))

    @rule(action=st.sampled_from(COMMANDS))
    def somebody_commands(self, action):
        self.commands += 1
        self.world.command(action)

    @rule(suspend=st.booleans())
    def somebody_suspends(self, suspend):
        self.suspensions += suspend
        self.world.edit(suspend=suspend)

    # What always holds

    @invariant()
    def the_history_is_one_that_the_table_allows(self):
        if hasattr(self, "world"):
            history = [one["status"] for one in self.world.status.get("conditions", [])]
            for before, after in pairwise(history):
                assert after in FOLLOWS[before], history

    @invariant()
    def it_is_not_restarted_more_often_than_it_may(self):
        if hasattr(self, "world"):
            assert self.world.status.get("retryCount", 0) <= self.retries

    @invariant()
    def the_version_never_falls(self):
        if hasattr(self, "world"):
            version = self.world.status.get("version", 0)
            assert version >= self.version
            self.version = version

    @invariant()
    def each_command_acts_once(self):
        if hasattr(self, "world"):
            if not self.policed:
                # Besides, the end of a job is a kill.
                assert self.world.status.get("version", 0) <= self.commands + self.suspensions + 1
                assert self.world.status.get("retryCount", 0) <= self.commands
            told = [message for reason, message in self.world.events if reason == "CommandIssued"]
            assert len(told) == len(set(told))

    @invariant()
    def pods_have_a_place_and_the_gang_was_admitted(self):
        if hasattr(self, "world"):
            places = {"train-ps-0", "train-worker-0", "train-worker-1", "train-worker-2"}
            assert set(self.world.pods) <= places

    def teardown(self):
        if hasattr(self, "world"):
            self._comes_to_an_end()

    def _comes_to_an_end(self):
        world = self.world
        world.edit(suspend=False)
        for _ in range(80):
            world.settle()
            world.reap()
            if world.phase == "Aborted":
                self.commands += 1
                world.command("ResumeJob")
            if world.phase in phases.FINAL and "Command" not in world.kinds():
                break
            if self.fails and "train-ps-0" in self.at_work():
                # Before it serves: what depends on it never starts, unless a policy makes it again.
                world.set("train-ps-0", "Failed", 1)
            world.run()
            world.settle()
            world.end()
            if world.group and world.group["status"].get("phase") == "Pending":
                world.admit()
            world.second = max(world.second + 1, world.back or 0)
        assert world.phase in phases.FINAL, world.status
        world.settle()
        world.reap()
        assert world.kinds() <= {"Pod"}, "nothing but pods that ended is left of what was made"
        left = {pod["status"]["phase"] for pod in world.pods.values()}
        assert left <= {"Succeeded", "Failed"}
        before = (world.job, dict(world.objects))
        world.settle()
        assert (world.job, world.objects) == before


def _version(pod):
    return int(pod["metadata"]["annotations"]["volcano.sh/job-version"])


def test_a_job_keeps_the_rules_and_comes_to_its_end():
    run_state_machine_as_test(
        VcJobInAWorld, settings=settings(max_examples=150, stateful_step_count=40, derandomize=True, deadline=None)
    )
