"""A Job driven at random: pods end and are deleted at any time, the store lags, processes die between two writes."""

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

from tests.support.tables import cases
from tests.unit.controllers.batch.job import status_rules
from tests.unit.controllers.batch.job.job_cluster import JobCluster
from tests.unit.controllers.factories import NOW, job_snapshot
from workers.api import conditions
from workers.api.kinds import POD, Object, Ref
from workers.api.statuses import is_finished
from workers.controllers.batch.job import decide
from workers.controllers.batch.job.indexes import index_of
from workers.controllers.batch.job.pods import TRACKING, is_deleting, is_tracked, phase_of
from workers.decision.plan import Create, Patch, PatchStatus, Plan, Step
from workers.decision.snapshot import CachedObject


class LaggingJobCluster(JobCluster):
    """A cluster whose store lags and whose clients delete pods.

    most: the largest parallelism so far. behind: pods whose last change the store has not got. recorded: the list in
    which the status recorded each UID. ended: phase and index of each finished pod, by UID.
    """

    def __init__(self, **spec: object) -> None:
        super().__init__(lambda _index, _before: None, **spec)
        self.most = spec["parallelism"]
        self.failures = 0
        self.store: dict[str, CachedObject] = {}
        self.behind: set[str] = set()
        self.recorded: dict[str, str] = {}
        self.ended: dict[str, tuple[str, int | None]] = {}
        self._shown = True

    @property
    def indexed(self) -> bool:
        return self.job["spec"].get("completionMode") == "Indexed"

    def change(self, **spec: object) -> None:
        self.job = {**self.job, "spec": {**self.job["spec"], **spec}}
        self.most = max(self.most, self.job["spec"]["parallelism"])

    def show(self, name: str) -> None:
        self.store[name] = CachedObject(Ref(POD, "default", name), self.pods.get(name), int(self.second))
        self.behind.discard(name)

    def catch_up(self) -> None:
        for name in list(self.behind):
            self.show(name)

    def plan(self) -> Plan:
        return decide(job_snapshot(self.job, *self.store.values(), failures=self.failures), self.now)

    def carry_out(self, steps: int | None = None, *, shown: bool = True) -> None:
        """Carries out the next plan, or this number of its effects; the store gets the last of them only if `shown`."""
        self.steps, self._shown = steps, shown
        self.sync()
        self.failures = self.failures + 1 if self.cut_short else 0

    def _write(self, step: Step) -> None:
        if isinstance(step, Patch):
            changed = self.pods.get(step.ref.name)
            assert (
                changed is None
                or changed["metadata"]["resourceVersion"] != step.resource_version
                or (not is_finished(changed))
            ), "only unfinished pods are patched"
        super()._write(step)
        # The write-through of an effect shows it in the store; a process that dies with its last effect shows nothing.
        if not isinstance(step, PatchStatus) and (self.steps != 0 or self._shown):
            self.show(step.body["metadata"]["name"] if isinstance(step, Create) else step.ref.name)

    def _write_status(self, status: Object) -> None:
        """Every UID is recorded once, and every counter rises by the number of recorded UIDs."""
        old = self.status
        super()._write_status(status)
        for kind in ("succeeded", "failed"):
            was, is_ = _uncounted(old, kind), _uncounted(status, kind)
            for uid in is_ - was:
                assert uid not in self.recorded, "no pod is recorded twice"
                self.recorded[uid] = kind
            if kind == "failed" or not self.indexed:
                gained = status.get(kind, 0) - old.get(kind, 0)
                assert gained == len(was - is_), f"{kind} counts what was recorded"

    def _patch(self, name: str, patch: Object) -> None:
        pod = self.pods[name]
        if is_tracked(pod) and TRACKING not in patch["metadata"]["finalizers"]:
            self._check_release(pod)
        super()._patch(name, patch)

    def _check_release(self, pod: Object) -> None:
        """A finished pod may lose its finalizer only when its end is recorded."""
        uid, index = pod["metadata"]["uid"], index_of(pod)
        if not is_finished(pod) or uid in self.recorded or self.over:
            return
        stopped = conditions.holds(self.job, "SuccessCriteriaMet") and is_deleting(pod)
        shown = self.store[pod["metadata"]["name"]].body
        done = _parsed(self.status.get("completedIndexes")) | _parsed(self.status.get("failedIndexes"))
        assert stopped or (phase_of(pod) == "Succeeded" and index in done) or not is_finished(shown)

    def _put(self, name: str, pod: Object) -> None:
        super()._put(name, pod)
        self.behind.add(name)

    def end(self, name: str, phase: str) -> None:
        pod = self.pods[name]
        self._put(name, {**pod, "status": self._finished(int(phase == "Failed"))})
        self.ended[pod["metadata"]["uid"]] = (phase, index_of(pod))
        self._collect(name)

    def unfinished(self) -> list[str]:
        return [name for name, pod in self.pods.items() if not is_finished(pod)]

    def active(self) -> list[str]:
        return [name for name in self.unfinished() if not is_deleting(self.pods[name])]

    def kept(self) -> list[str]:
        return [name for name, pod in self.pods.items() if not is_deleting(pod)]

    def successes(self) -> set[int | None]:
        return {index for phase, index in self.ended.values() if phase == "Succeeded"}


def _uncounted(status: Object, kind: str) -> set[str]:
    return set((status.get("uncountedTerminatedPods") or {}).get(kind, ()))


def _parsed(text: str | None) -> set[int]:
    return status_rules.parsed(text)


class RandomJob(RuleBasedStateMachine):
    cluster: LaggingJobCluster

    @rule(seconds=st.sampled_from([1, 5, 20]))
    def time_passes(self, seconds):
        self.cluster.second += seconds

    @rule()
    def a_decision_is_carried_out(self):
        self.cluster.carry_out()

    @rule(steps=st.integers(0, 6), shown=st.booleans())
    def a_process_dies_between_two_writes(self, steps, shown):
        self.cluster.carry_out(steps, shown=shown)

    @precondition(lambda self: self.cluster.unfinished())
    @rule(data=st.data(), phase=st.sampled_from(["Succeeded", "Succeeded", "Failed"]))
    def a_pod_ends(self, data, phase):
        self.cluster.end(data.draw(st.sampled_from(self.cluster.unfinished())), phase)

    @precondition(lambda self: self.cluster.kept())
    @rule(data=st.data())
    def a_client_deletes_a_pod(self, data):
        self.cluster.delete(data.draw(st.sampled_from(self.cluster.kept())))

    @precondition(lambda self: self.cluster.behind)
    @rule(data=st.data())
    def the_store_catches_up_with_a_pod(self, data):
        self.cluster.show(data.draw(st.sampled_from(sorted(self.cluster.behind))))

    @precondition(lambda self: not self.cluster.over)
    @rule(suspend=st.booleans())
    def the_job_is_suspended_or_resumed(self, suspend):
        self.cluster.change(suspend=suspend)

    @precondition(lambda self: not self.cluster.over)
    @rule(parallelism=st.integers(0, 4))
    def the_job_may_run_more_pods_or_fewer(self, parallelism):
        self.cluster.change(parallelism=parallelism)

    @invariant()
    def no_more_pods_run_than_may(self):
        """Also when a plan was cut short and the store does not show the pods that it created."""
        if hasattr(self, "cluster"):
            assert len(self.cluster.active()) <= self.cluster.most

    @invariant()
    def what_is_completed_has_succeeded(self):
        if hasattr(self, "cluster") and self.cluster.indexed:
            assert _parsed(self.cluster.status.get("completedIndexes")) <= self.cluster.successes()

    def teardown(self):
        if hasattr(self, "cluster"):
            self._settles()
            self._ended_as_it_should()

    def _settles(self):
        cluster = self.cluster
        cluster.change(suspend=False, parallelism=2)
        for _ in range(60):
            cluster.catch_up()
            if cluster.over and not cluster.plan().steps:
                break
            cluster.carry_out()
            for name in cluster.unfinished():
                cluster.end(name, "Failed" if is_deleting(cluster.pods[name]) else "Succeeded")
            cluster.second = max(cluster.second + 1, (cluster.back - NOW).total_seconds() if cluster.back else 0)
        assert cluster.over
        assert [name for name, pod in cluster.pods.items() if is_tracked(pod)] == []
        assert cluster.unfinished() == []

    def _ended_as_it_should(self):
        cluster, spec, status = self.cluster, self.cluster.job["spec"], self.cluster.status
        counted = [uid for uid, kind in cluster.recorded.items() if kind == "failed"]
        assert status.get("failed", 0) == len(counted)
        if cluster.indexed:
            completed, failed = _parsed(status.get("completedIndexes")), _parsed(status.get("failedIndexes"))
            assert status.get("succeeded", 0) == len(completed)
            if cluster.over == "Complete":
                assert completed == set(range(spec["completions"]))
            elif "backoffLimitPerIndex" in spec:
                assert completed | failed == set(range(spec["completions"]))
        elif cluster.over == "Complete":
            assert status.get("succeeded", 0) >= (spec.get("completions") or 0)
        if cluster.over == "Failed" and "backoffLimitPerIndex" not in spec:
            assert len(counted) > spec["backoffLimit"]


def machine(**spec):
    """A machine of Jobs whose spec has a value of each strategy."""

    class Machine(RandomJob):
        @initialize(**spec)
        def begin(self, **drawn):
            self.cluster = LaggingJobCluster(**drawn)

    return Machine


PARALLELISM = {"parallelism": st.integers(1, 4)}
POLICY = {**PARALLELISM, "podReplacementPolicy": st.sampled_from(["TerminatingOrFailed", "Failed"])}
INDEXED = {**POLICY, "completionMode": st.just("Indexed")}


@cases(
    ("plain", machine(**POLICY, completions=st.integers(0, 6), backoffLimit=st.integers(0, 3))),
    ("work queue", machine(**PARALLELISM, backoffLimit=st.integers(0, 3))),
    ("indexed", machine(**INDEXED, completions=st.integers(0, 5), backoffLimit=st.integers(0, 4))),
    ("each index", machine(**INDEXED, completions=st.integers(1, 5), backoffLimitPerIndex=st.integers(0, 2))),
)
def test_a_job_keeps_the_rules_and_finishes(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=150, stateful_step_count=40, deadline=None))
