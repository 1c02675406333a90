"""All that is decided on ScaledJobs, word for word: under each strategy, and while items are claimed."""

from typing import Any

import pytest

from tests.unit.controllers.factories import NOW, at, child, micros, pod, reading, sample, scaled_job, snapshot
from tests.unit.controllers.keda.scaledjob import claims_cluster
from tests.unit.controllers.keda.scaledjob.claims_cluster import ClaimsCluster, work
from tests.unit.controllers.plans import statuses
from tests.unit.controllers.transcripts import PlanTranscript
from workers.api.keda_compat import Quirks
from workers.controllers.keda.scaledjob import controller, decide
from workers.decision.snapshot import CachedObject, Reading


class Told:
    """A ScaledJob that is decided on again and again, with the status of the last decision."""

    def __init__(self, transcript: PlanTranscript, *quirks: str, **spec: Any) -> None:
        self._transcript, self._decide = transcript, controller(quirks=Quirks(quirks)).decide
        self.body = scaled_job(**spec)

    def then(self, line: str, *children: CachedObject, found: Reading | None = None, **more: Any) -> None:
        self._transcript.note(line)
        plan = self._transcript.of(self._decide)(snapshot(self.body, *children, reading=found, **more), NOW)
        for status in statuses(plan):
            self.body = {**self.body, "status": status}

    def change(self, **metadata: Any) -> None:
        self.body = {**self.body, "metadata": {**self.body["metadata"], **metadata}}


def test_the_life_of_a_scaledjob(transcript: PlanTranscript) -> None:
    told = Told(
        transcript, minReplicaCount=1, maxReplicaCount=5, successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0
    )
    told.change(finalizers=[])
    told.then("nothing is known yet")
    told.change(finalizers=["finalizer.keda.sh"])
    told.then("three items", found=reading(sample(3)))
    alive, ended = child("work-a"), [child(f"work-{each}", "Complete", ended_at=-ord(each)) for each in "xyz"]
    told.then(
        "one runs, three are done, one has failed", alive, *ended, child("work-f", "Failed"), found=reading(sample(4))
    )
    told.then("the source fails", alive, found=reading(sample(0, error="connection refused")))
    shut = sample(0, error="refused", source="redis localhost:6379", alone_since=micros(-60), next_attempt=micros(30))
    told.then("its circuit breaker opens", alive, found=reading(shut))
    told.then("and closes; nothing waits", alive, found=reading(sample(0)))
    told.then("a reading with a problem", found=reading(problem="the Secret team/redis does not exist"))
    told.then("a reading that is too old", found=reading(sample(9), started=-7200.0))
    told.change(generation=2)
    told.then("another generation: Jobs of the earlier one go", alive, found=reading(sample(2), generation=2))
    told.change(annotations={"autoscaling.keda.sh/paused": "true"})
    told.then("paused", found=reading(sample(2), generation=2))
    told.change(annotations={})
    told.then("resumed", found=reading(sample(2), generation=2))
    told.body["spec"]["maxReplicaCount"] = "many"
    told.then("a wrong manifest")
    told.change(deletionTimestamp=at(0))
    told.then("being deleted", alive)
    assert transcript.text == transcript.expected("scaledjob")


def test_strategies_and_what_goes_with_them(transcript: PlanTranscript) -> None:
    jobs = [child(f"work-{each}") for each in "abc"]
    some = [
        sample(6, target=2.0),
        sample(3, name="s1-cron", type="cron", active=False),
        sample(-1, name="s2-cpu", type="cpu"),
    ]
    for strategy in (
        {"strategy": "accurate"}, {"strategy": "eager"}, {"strategy": "custom"},
        {"strategy": "custom", "customScalingQueueLengthDeduction": 1, "customScalingRunningJobPercentage": "0.5"},
        {"strategy": "default", "multipleScalersCalculation": "sum"},
        {"strategy": "default", "multipleScalersCalculation": "avg"},
    ):  # fmt: skip
        told = Told(transcript, scalingStrategy=strategy, maxReplicaCount=8)
        told.then(str(strategy), *jobs, pod("one", "Pending", job="work-a"), found=reading(*some))
    for quirk in ("poll-counting", "requested-jobs-event", "last-active-time"):
        told = Told(transcript, quirk, maxReplicaCount=8)
        told.then(f"as KEDA has it: {quirk}", *jobs, found=reading(*some))
        told.then("again", *jobs, found=reading(*some))
    told = Told(transcript, fallback={"failureThreshold": 2, "replicas": 2})
    told.then("a fallback that is not needed", found=reading(sample(1, error="refused", failures=1)))
    told.then("a fallback", *jobs[:1], found=reading(sample(1, error="refused", failures=3)))
    told.then("it is over", *jobs, found=reading(sample(1)))
    assert transcript.text == transcript.expected("strategies")


def test_the_claims_of_a_scaledjob(transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_cluster, "decide", transcript.of(decide))
    cluster = ClaimsCluster(work(maximum=2, retries=1, rollout="gradual"))

    def then(line: str) -> None:
        transcript.note(line)
        cluster.take_turns(4)

    assert cluster.owner
    cluster.owner["metadata"]["annotations"] = {"autoscaling.keda.sh/paused": "true"}
    then("paused")
    del cluster.owner["metadata"]["annotations"]["autoscaling.keda.sh/paused"]
    cluster.owner["spec"]["triggers"] *= 2
    then("of two triggers nothing can be claimed")
    del cluster.owner["spec"]["triggers"][1]
    cluster.push("work", 4)
    then("four items, at most two at once")
    first, second = cluster.alive()
    cluster.end(first, "Complete")
    cluster.end(second, "Failed")
    then("one is done, one has failed and is tried again")
    for name in cluster.alive():
        cluster.end(name, "Failed")
    then("it fails again and is parked, and another one fails")
    cluster.owner["metadata"]["annotations"]["autoscaling.keda.sh/paused"] = "true"
    then("paused")
    del cluster.owner["metadata"]["annotations"]["autoscaling.keda.sh/paused"]
    cluster.owner["spec"]["triggers"][0]["metadata"]["listName"] = "other"
    then("another list: the ledger is closed first")
    for name in cluster.alive():
        cluster.end(name, "Complete")
    then("what was claimed is done")
    cluster.owner["metadata"]["deletionTimestamp"] = at(0)
    then("being deleted")
    assert transcript.text == transcript.expected("claims")
