"""All that is decided on an EventJob in its life, word for word."""

from dataclasses import replace

import orjson
import pytest

from tests.unit.controllers.eventjob import event_cluster
from tests.unit.controllers.eventjob.event_cluster import EventCluster
from tests.unit.controllers.eventjob.manifests import COUNTS, claim, event_job, job_of, ledger, reading_of, snapshot
from tests.unit.controllers.factories import NOW, at
from tests.unit.controllers.transcripts import PlanTranscript
from workers.controllers.eventjob import decide
from workers.decision.plan import PatchStatus
from workers.decision.snapshot import CachedObject, Reading


def test_the_life_of_an_eventjob(transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_cluster, "decide", transcript.of(decide))
    template = {
        "metadata": {"labels": {"app": "shop"}, "annotations": {"team": "blue"}},
        "spec": {"template": {"metadata": {"labels": {"part": "order"}}, "spec": {
            "containers": [{"name": "main", "image": "x", "args": ["$(event.id)", "of $(event.type)"]}]}}},
    }  # fmt: skip
    spec = {"concurrency": {"total": 2}, "retry": {"limit": 1}, "deadLetter": {"limit": 1}, "jobTemplate": template}
    cluster = EventCluster(event_job(metadata={"finalizers": []}, **spec))

    def then(line: str) -> None:
        transcript.note(line)
        cluster.take_turns(4)

    cluster.push("work", 4)
    then("four events, at most two at once")
    first, second = cluster.alive()
    cluster.end(first, "Complete")
    cluster.end(second, "Failed")
    then("one is done, one has failed")
    cluster.deliveries.wake()
    then("it is tried again")
    for name in cluster.alive():
        cluster.end(name, "Failed")
    then("two fail, one of them again, and is parked")
    assert cluster.owner
    cluster.owner["spec"]["suspend"] = True
    then("suspended")
    cluster.owner["spec"]["suspend"] = False
    cluster.remove(*cluster.alive()[:1])
    then("resumed, and a user deletes a Job")
    cluster.owner["metadata"]["deletionTimestamp"] = at(0)
    then("being deleted")
    for name in cluster.alive():
        cluster.end(name, "Complete")
    then("what ran has ended")
    assert transcript.text == transcript.expected("eventjob")


def test_what_keeps_an_eventjob_from_running(transcript: PlanTranscript) -> None:
    body = event_job(ttlSecondsAfterFinished=60)

    def then(line: str, *jobs: CachedObject, found: Reading | None = None, error: str | None = None) -> None:
        transcript.note(line)
        plan = transcript.of(decide)(snapshot(body, None, *jobs, reading=found, last_error=error), NOW)
        for step in plan.steps:
            if isinstance(step, PatchStatus):
                body["status"] = step.status

    held = [claim("1-0"), claim("2-0")]
    traced = orjson.loads(held[0].item or "") | {"traceparent": "00-1-2-01", "tracestate": "a=$b", "x-n": "5"}
    then("nothing is known")
    then(
        "two claims, one with a trace",
        found=reading_of(ledger(replace(held[0], item=orjson.dumps(traced).decode()), held[1])),
    )
    then("a claim that is too large", found=reading_of(ledger(replace(held[0], item=None, size=10**7))))
    then(
        "a Job that ended, and one that goes",
        job_of(held[0], "Complete"),
        job_of(held[1], deleted=True),
        found=reading_of(ledger(*held)),
    )
    then("too many are parked", found=reading_of(ledger(*held, counts={**COUNTS, "parked": 5000, "filtered": 2})))
    for _ in range(2):
        then("Jobs are refused", found=reading_of(ledger(*held)), error="exceeded quota")
    then("the channel cannot be read", found=reading_of(None, problem="the channel is gone"))
    body["metadata"]["deletionTimestamp"] = at(0)
    broken = replace(ledger(*held), claims=None)
    unread = replace(reading_of(broken), samples=(replace(reading_of(broken).samples[0], error="WRONGTYPE"),))
    then("it is being deleted, and the ledger cannot be read", job_of(held[0], deleted=True), found=unread)
    del body["metadata"]["deletionTimestamp"]
    body["spec"]["filter"] = {"sql": 5}
    then("a wrong manifest", found=reading_of(ledger(*held)))
    assert transcript.text == transcript.expected("obstacles")
