"""All that is decided on a CronJob and a ScheduledJob, word for word."""

import pytest

from tests.unit.controllers.batch.cronjob import cronjobs
from tests.unit.controllers.batch.cronjob.cronjobs import CronCluster, after, clock, minute, second
from tests.unit.controllers.batch.cronjob.cronjobs import cron_job_cluster as cron_job
from tests.unit.controllers.batch.cronjob.cronjobs import scheduled_job_cluster as scheduled_job
from tests.unit.controllers.transcripts import PlanTranscript
from workers.controllers.batch.cronjob import decide
from workers.decision.plan import Create, Delete


@pytest.fixture
def transcript(transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch) -> PlanTranscript:
    monkeypatch.setattr(cronjobs, "decide", transcript.of(decide))
    return transcript


def fail(cluster: CronCluster, name: str, at: str) -> None:
    cluster.end(name, "Failed", clock(at), reason="BackoffLimitExceeded", message="no luck")


def test_the_life_of_a_cronjob(transcript: PlanTranscript) -> None:
    cluster = cron_job(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0, startingDeadlineSeconds=90)
    transcript.note("the first slot")
    cluster.settle(clock("12:01"))
    transcript.note("it succeeds; the next one, refused at first")
    cluster.end(minute("12:01"), at=clock("12:01:30"))
    cluster.refusing = {Create}
    cluster.settle(clock("12:02"))
    cluster.refusing = set()
    cluster.settle(clock("12:02:01"))
    transcript.note("it fails, and history keeps none; a client makes a Job, and asks for two runs wrongly")
    fail(cluster, minute("12:02"), "12:02:10")
    earlier = cluster.jobs[minute("12:01")]
    by_hand = {**earlier["metadata"], "name": "by-hand", "annotations": {}}
    cluster.put({**earlier, "metadata": by_hand}, clock("12:02:20"))
    cluster.ask("again", '{"name": "report-again", "env": {"REGION": "eu"}}')
    cluster.ask("wrong", "{")
    cluster.settle(clock("12:02:30"))
    transcript.note("Forbid: slots wait")
    cluster.edit(concurrencyPolicy="Forbid")
    cluster.settle(clock("12:03"))
    cluster.settle(clock("12:05:45"))
    transcript.note("Replace: what runs is deleted, refused at first")
    cluster.edit(concurrencyPolicy="Replace")
    cluster.refusing = {Delete}
    cluster.settle(clock("12:06"))
    cluster.refusing = set()
    cluster.settle(clock("12:06:01"))
    transcript.note("its Job is deleted by hand; the name of the next is taken")
    cluster.remove(cluster.active()[0])
    cluster.foreign = {minute("12:07")}
    cluster.settle(clock("12:07"))
    transcript.note("suspended, resumed, with another schedule, a zone, and one that is wrong")
    for spec in (
        {"suspend": True},
        {"suspend": False},
        {"schedule": "30 * * * *"},
        {"timeZone": "Europe/Rome"},
        {"timeZone": "Europe/Atlantis"},
        {"timeZone": None, "schedule": "61 * * * *"},
        {"schedule": "TZ=Europe/Rome 0 9 * * *"},
        {"schedule": "*/1 * * * *", "startingDeadlineSeconds": None},
    ):
        cluster.edit(**spec)
        cluster.settle(clock("12:08:30"))
    transcript.note("two days later: more than a hundred slots were missed")
    cluster.settle(clock("12:00", day=3))
    transcript.note("the clock was set back; being deleted")
    cluster.settle(clock("11:00"))
    cluster.leave()
    cluster.settle(clock("12:01", day=3))
    assert transcript.text == transcript.expected("cronjob")


def test_the_life_of_a_scheduledjob(transcript: PlanTranscript) -> None:
    cluster = scheduled_job(
        retry={"limit": 1, "delaySeconds": 10}, runTimeLimitSeconds=50, outcomesLimit=4, concurrencyPolicy="Forbid"
    )
    run = second("12:01")
    transcript.note("a run, its failure, and a second attempt that succeeds")
    cluster.settle(clock("12:01"))
    fail(cluster, run, "12:01:05")
    cluster.settle(clock("12:01:05"))
    cluster.settle(clock("12:01:15"))
    cluster.end(f"{run}-r2", at=clock("12:01:20"))
    cluster.settle(clock("12:01:20"))
    transcript.note("a run that is never started takes too long")
    cluster.settle(clock("12:02"))
    cluster.settle(clock("12:03:20"))
    transcript.note("a run whose Job is deleted")
    cluster.remove(*cluster.active())
    cluster.settle(clock("12:03:50"))
    cluster.settle(clock("12:04"))
    cluster.end(*cluster.active(), at=clock("12:04:10"))
    cluster.settle(clock("12:04:10"))
    transcript.note("a run that fails twice, and a request of a further one")
    cluster.settle(clock("12:05"))
    fail(cluster, second("12:05"), "12:05:05")
    cluster.settle(clock("12:05:05"))
    cluster.ask("again", '{"env": {"REGION": "eu"}}')
    cluster.settle(clock("12:05:15"))
    fail(cluster, f"{second('12:05')}-r2", "12:05:20")
    cluster.settle(clock("12:05:20"))
    transcript.note("a run is replaced")
    cluster.edit(concurrencyPolicy="Replace")
    cluster.settle(clock("12:06"))
    transcript.note("excluded times, and what keeps it from running")
    for spec in (
        {"exclusions": [{"start": "2026-03-01T12:00:00Z", "end": "2026-03-01T13:00:00Z"}]},
        {"exclusions": [{"dates": ["2026-03-01"]}]},
        {"exclusions": [{"schedule": "0 12 * * *", "durationSeconds": 3600}]},
        {"exclusions": [{"start": "noon"}]},
        {"exclusions": None, "suspend": True},
        {"suspend": False, "suspendUntil": "2026-03-02T12:00:00Z"},
        {"suspendUntil": None, "schedule": "x"},
        {"schedule": "0 0 30 2 *"},
    ):
        cluster.edit(**spec)
        cluster.settle(clock("12:06:30"))
    transcript.note("catching up with all that was missed")
    cluster.edit(schedule="0 * * * *", catchUp={"policy": "All", "limit": 3}, concurrencyPolicy="Allow")
    cluster.settle(clock("12:07"))
    cluster.settle(clock("16:00"))
    transcript.note("nothing works")
    cluster.failures = 6
    cluster.settle(after(60, clock("16:00")))
    assert transcript.text == transcript.expected("scheduledjob")
