"""All that is decided on JobFlows, word for word."""

import pytest

from tests.unit.controllers.factories import at, micros
from tests.unit.controllers.transcripts import PlanTranscript
from tests.unit.controllers.volcano.jobflow import flow_cluster
from tests.unit.controllers.volcano.jobflow.flow_cluster import Cluster
from tests.unit.controllers.volcano.jobflow.test_flow import DEPLOY, entry, on, run
from workers.api import times
from workers.api.volcano.jobflow import RETRY
from workers.controllers.volcano.jobflow import job_creation, observed, status
from workers.controllers.volcano.jobflow.decide import decide
from workers.decision.snapshot import Reading, TriggerSample


@pytest.fixture
def transcript(transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch) -> PlanTranscript:
    monkeypatch.setattr(flow_cluster, "decide", transcript.of(decide))
    return transcript


def test_the_life_of_a_flow(transcript: PlanTranscript) -> None:
    cluster = Cluster(
        {"name": "load", "retry": {"limit": 1, "backoffSeconds": 20}},
        {"name": "split", "template": "load", "dependsOn": {"targets": ["load"]}, "forEach": {"count": 2}},
        {"name": "mend", "dependsOn": {"targets": ["split"]}, "when": {"phases": ["Failed"]}},
        {"name": "report", "dependsOn": {"targets": ["split", "mend"]}, "when": {"phases": ["Completed", "Skipped"]}},
        jobRetainPolicy="delete",
    )  # fmt: skip

    def then(line: str, seconds: float = 1, **ends: str) -> None:
        transcript.note(line)
        cluster.wait(seconds)
        for name, how in ends.items():
            cluster.end(f"f-{name.replace('_', '-')}", how)
        cluster.settle()

    then("a flow of four entries")
    then("the first runs", load="Running")
    then("it fails", load="Failed")
    then("and is tried again", 20)
    cluster.refused = {"f-split-0"}
    then("it succeeds; the next is refused", load_r1="Completed")
    cluster.refused = set()
    then("and is made after all", 5)
    then("its first part is done", split_0="Completed")
    then("its second part, too", split_1="Completed")
    assert cluster.unfinished() == ["f-report"], cluster.status
    then("the rest", report="Completed")
    assert transcript.text == transcript.expected("flow")


def test_what_keeps_a_flow_from_its_end(transcript: PlanTranscript) -> None:
    cluster = Cluster(
        {"name": "load", "timeoutSeconds": 30},
        {"name": "report", "dependsOn": {"targets": ["load"]}, "if": "${parameters.wanted} == 'yes'"},
        {"name": "clean", "allowFailure": True, "dependsOn": {"targets": ["load"]}, "when": {"phases": ["Failed"]}},
        {"name": "after", "dependsOn": {"targets": ["clean"]}},
        suspend=True,
        parameters={"wanted": "no"},
        parallelism=1,
    )

    def then(line: str, seconds: float = 1) -> None:
        transcript.note(line)
        cluster.wait(seconds)
        cluster.marked = True
        cluster.settle()

    then("suspended")
    cluster.edit(suspend=False)
    cluster.templates = {}
    then("there is no template")
    cluster.templates = {name: flow_cluster.template(name) for name in ("load", "report", "clean", "after")}
    then("now there is")
    cluster.end("f-load", "Running")
    then("it runs")
    then("for too long", 31)
    cluster.obey()
    then("the Command is obeyed")
    cluster.end("f-clean", "Failed")
    then("what may fail fails")
    cluster.remove("f-clean")
    then("its Job is deleted")
    assert transcript.text == transcript.expected("obstacles")


def test_a_flow_that_is_cancelled(transcript: PlanTranscript) -> None:
    cluster = Cluster(
        {"name": "load"}, {"name": "report", "dependsOn": {"targets": ["load"]}}, ttlSecondsAfterFinished=9
    )
    cluster.settle()
    cluster.edit(cancel=True)
    cluster.settle()
    cluster.obey()
    cluster.settle()
    cluster.wait(9)
    cluster.settle()
    assert transcript.text == transcript.expected("cancelled")


def test_a_flow_of_which_parts_cannot_be_made(transcript: PlanTranscript) -> None:
    cluster = Cluster(
        {"name": "load", "patch": {"jobSpec": {"tasks": 5}}, "allowFailure": True},
        {"name": "report"},
        {"name": "last", "dependsOn": {"targets": ["load"]}, "when": {"phases": ["Failed"]}},
    )
    cluster.settle()
    for name in cluster.unfinished():
        cluster.end(name, "Aborted")
    cluster.settle()
    for name in cluster.unfinished():
        cluster.end(name, "Failed")
    cluster.settle()
    assert transcript.text == transcript.expected("unmade")


def test_a_flow_with_a_schedule(transcript: PlanTranscript) -> None:
    cluster = Cluster({"name": "load"}, schedule="*/5 * * * *", concurrencyPolicy="Forbid", startingDeadlineSeconds=60)
    cluster.settle()
    for _ in range(4):
        cluster.wait(300)
        cluster.marked = True
        cluster.settle()
        for name, body in list(cluster.flows.items()):
            cluster.flows[name] = {**body, "status": {"state": {"phase": "Succeed"}}}
    assert transcript.text == transcript.expected("schedule")


def test_a_flow_whose_manifest_is_wrong(transcript: PlanTranscript) -> None:
    cluster = Cluster({"name": "load"}, {"name": "load", "dependsOn": {"targets": ["x"]}})
    cluster.settle()
    cluster.edit(flows=[{"name": "load"}])
    cluster.settle()
    cluster.end("f-load", "Running")
    cluster.settle()
    cluster.edit(flows=[{"name": "load", "dependsOn": {"targets": ["load"]}}])
    cluster.settle()
    metadata = {**cluster.body["metadata"], "deletionTimestamp": times.render(cluster.now)}
    cluster.body = {**cluster.body, "metadata": metadata}
    cluster.catch_up()
    cluster.settle()
    assert transcript.text == transcript.expected("wrong")


def test_a_failed_flow_that_is_asked_to_try_again(transcript: PlanTranscript) -> None:
    """What depends on a failed entry runs again, and what was begun for it is waited for."""
    cluster = Cluster(*DEPLOY, entry("other"))
    run(cluster, test="Completed", deploy="Failed", other="Failed", back="Running")
    transcript.note("it is tried again, while the compensation still runs")
    cluster.annotate(**{RETRY: "1"})
    run(cluster, deploy_r1="Failed", other_r1="Completed", back="Completed")
    run(cluster, back_r1="Completed", tell="Completed")
    transcript.note("once more, and the compensation is not needed")
    cluster.annotate(**{RETRY: "2"})
    run(cluster, deploy_r2="Completed")
    transcript.note("the same request again, and none")
    cluster.annotate(**{RETRY: "2"})
    cluster.settle()
    cluster.annotate()
    cluster.settle()
    assert transcript.text == transcript.expected("retried")


def test_a_cancelled_flow_that_goes_on(transcript: PlanTranscript) -> None:
    cluster = run(Cluster(entry("a"), entry("b", "a"), entry("gone"), labels={"x": "y"}), a="Running")
    cluster.edit(flows=[entry("a"), entry("b", "a")])
    cluster.settle()
    transcript.note("cancelled: the Job of an entry that is gone ends, too")
    cluster.edit(cancel=True)
    cluster.settle()
    cluster.obey()
    cluster.settle()
    transcript.note("a retry request counts once that is taken back")
    cluster.annotate(**{RETRY: "1"})
    cluster.settle()
    cluster.edit(cancel=None)
    run(cluster, a_r1="Running")
    transcript.note("cancelled once more")
    cluster.edit(cancel=True)
    cluster.settle()
    cluster.edit(cancel=None)
    run(cluster, a_r1="Completed", b="Completed")
    assert transcript.text == transcript.expected("taken_back")


def test_jobs_that_end_in_every_way(transcript: PlanTranscript) -> None:
    ends = ("Completed", "Failed", "Terminated", "Aborted", "Completing", "Terminating", "Restarting", "Pending")
    for name in ends:
        transcript.note(name)
        cluster = Cluster(
            entry("a"),
            entry("b", "a", when=on("Failed", "Terminated", match="any")),
            entry("c", "a", "b", when=on("Completed", "Skipped", "Failed", match="any"), allowFailure=True),
        )
        cluster.settle()
        state = {"phase": name, "reason": "Why", "message": "w" * 300, "lastTransitionTime": at(5)}
        job = cluster.jobs["f-a"]
        cluster.jobs["f-a"] = cluster._newer(
            {**job, "status": {"state": state, "runningDuration": "5s", "retryCount": 2}}
        )
        cluster._watch("f-a")
        cluster.settle()
        for job_name in cluster.unfinished():
            if job_name != "f-a":
                cluster.end(job_name, "Failed")
        cluster.settle()
    assert transcript.text == transcript.expected("ends")


def test_entries_of_several_jobs_and_conditions(transcript: PlanTranscript) -> None:
    backoff = {"limit": 2, "backoffSeconds": 10, "factor": 3, "maxBackoffSeconds": 20}
    items = {"name": "each", "forEach": {"items": ["x", "y", "z"], "parallelism": 2}, "if": "${item} != 'y'"}
    cluster = Cluster(
        items | {"template": "work", "patch": {"jobSpec": {"queue": "${item}"}}},
        entry("broken", allowFailure=True, **{"if": "${parameters.mode}"}),
        entry("after", "each", template="work", retry=backoff),
        parallelism=3,
        parameters={"mode": "m"},
    )
    run(cluster, each_0="Completed", each_2="Completed")
    for attempt in ("", "-r1", "-r2"):
        cluster.end(f"f-after{attempt}", "Failed")
        cluster.settle()
        cluster.wait(10)
        cluster.marked = True
        cluster.settle()
        cluster.wait(10)
        cluster.marked = True
        cluster.settle()
    assert transcript.text == transcript.expected("items")


def test_probes_of_what_a_flow_waits_for(transcript: PlanTranscript) -> None:
    probe = {
        "tcpSocketList": [{"taskName": "work", "port": 80}],
        "httpGetList": [{"taskName": "work", "port": 8080, "path": "/ready"}],
        "taskStatusList": [{"taskName": "work", "phase": "Running"}, {"taskName": "nobody", "phase": "Running"}],
    }
    cluster = Cluster(entry("a"), {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}, entry("c", "b"))
    (task,) = cluster.templates["a"]["spec"]["tasks"]
    cluster.templates["a"]["spec"] = {"tasks": [{**task, "replicas": 2}]}
    cluster.settle()
    cluster.end("f-a", "Running")
    cluster.settle()
    transcript.note("one answers, another does not")
    samples = (TriggerSample("tcp://f-a/work:80", "tcpSocket", 1.0, active=True),)
    cluster.reading = Reading(1, micros(0), 1, samples, uid="uid-f")
    cluster.marked = True
    cluster.settle()
    for number in (1, 2):
        cluster.end("f-a", "Running", taskStatusCount={"work": {"phase": {"Running": number}}})
        cluster.settle()
    transcript.note("all do")
    http = TriggerSample("http://f-a/work:8080/ready", "httpGet", 1.0, active=True)
    cluster.reading = Reading(2, micros(1), 1, (*samples, http), uid="uid-f")
    cluster.marked = True
    cluster.settle()
    assert transcript.text == transcript.expected("probes")


def test_names_that_are_taken_and_jobs_that_are_refused(transcript: PlanTranscript) -> None:
    cluster = Cluster(entry("a"), entry("b"), entry("c", "a", retry={"limit": 1, "backoffSeconds": 5}))
    stranger = {"metadata": {"name": "f-b", "namespace": "default", "uid": "uid-stranger", "resourceVersion": "1"}}
    cluster.jobs["f-b"] = stranger
    cluster.refused = {"f-a"}
    for _ in range(4):
        cluster.wait(10)
        cluster.marked = True
        cluster.settle()
    transcript.note("both are solved")
    cluster.refused = set()
    del cluster.jobs["f-b"]
    cluster.wait(10)
    cluster.marked = True
    cluster.settle()
    assert transcript.text == transcript.expected("taken")


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
def test_flows_of_a_schedule_that_overlap(policy: str, transcript: PlanTranscript) -> None:
    cluster = Cluster(
        entry("a"), schedule="*/5 * * * *", timeZone="Europe/Berlin", concurrencyPolicy=policy,
        successfulFlowsHistoryLimit=1, failedFlowsHistoryLimit=0, jobRetainPolicy="delete",
    )  # fmt: skip
    cluster.body["metadata"]["labels"] = {"team": "a"}
    cluster.settle()
    for phase in ("Running", "Failed", "Succeed", "Succeed"):
        cluster.wait(300)
        cluster.marked = True
        cluster.settle()
        newest = max(cluster.flows, default="")
        if newest:
            cluster.flows[newest] = {**cluster.flows[newest], "status": {"state": {"phase": phase}}}
    transcript.note("suspended, and edited")
    cluster.edit(suspend=True)
    cluster.wait(300)
    cluster.marked = True
    cluster.settle()
    cluster.edit(suspend=None, schedule="1 * * * *")
    cluster.settle()
    assert transcript.text == transcript.expected(f"schedule-{policy}")


def _make_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flows of four entries are long from now on."""
    for name, value in (("SHORT", 2), ("LONG", 3), ("LISTED", 4), ("PHASES", 3)):
        monkeypatch.setattr(status, name, value)
    monkeypatch.setattr(observed, "LONG", 3)
    monkeypatch.setattr(observed, "AHEAD", 2)


def test_a_long_flow_writes_less(transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_long(monkeypatch)
    names = "abcdef"
    cluster = Cluster(*(entry(name, *names[:place][-1:], template="t") for place, name in enumerate(names)))
    cluster.settle()
    for name in names:
        job = f"f-{name}"
        for phase in ("Pending", "Running", "Restarting", "Running", "Completing"):
            counted = {"taskStatusCount": {"work": {"phase": {phase: 1}}}, "runningDuration": "3s", "retryCount": 1}
            cluster.wait(0.5)
            cluster.end(job, phase, **counted)
            cluster.settle()
        cluster.wait(2)
        cluster.marked = True
        cluster.settle()
        cluster.end(job, "Completed")
        cluster.settle()
    assert cluster.phase == "Succeed"
    assert transcript.text == transcript.expected("long")


def test_a_long_flow_with_branches(transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_long(monkeypatch)
    cluster = Cluster(
        entry("a"),
        entry("b", allowFailure=True),
        entry("c", "a", "b", when=on("Failed", match="any")),
        entry("d", "a"),
        entry("e", "d"),
        entry("f", "c", "e", when=on("Completed", "Skipped", match="any")),
    )
    run(cluster, a="Completed", b="Failed")
    cluster.wait(3)
    cluster.marked = True
    run(cluster, d="Completed", c="Completed", e="Completed", f="Failed")
    cluster.wait(3)
    cluster.marked = True
    cluster.settle()
    cluster.annotate(**{RETRY: "1"})
    run(cluster, f_r1="Completed")
    assert transcript.text == transcript.expected("branches")


def test_what_each_start_depends_on(transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch, patches that have no value, Jobs that clean themselves up, and so many Jobs of a plan."""
    monkeypatch.setattr(job_creation, "BATCH", 2)
    cluster = Cluster(
        entry("one", switch={"of": "${parameters.mode}", "case": ["m", "n"]}),
        entry("two", switch={"of": "${parameters.mode}", "case": ["o"]}),
        entry("rest", switch={"of": "${parameters.mode}"}),
        entry("odd", allowFailure=True, patch={"jobSpec": {"minAvailable": "${int:parameters.mode}"}}),
        entry("few", template="few"),
        entry("lost", template="none", allowFailure=True),
        entry("gone", template="gone", allowFailure=True),
        parameters={"mode": "m"},
    )
    work = cluster.templates["few"]["spec"]["tasks"][0]["template"]["spec"]
    first = {**work, "initContainers": [{"name": "first", "image": "init"}]}
    cluster.templates["few"]["spec"] = {"tasks": [{"name": "work", "template": {"spec": first}}]}
    cluster.templates["gone"]["spec"] = {**cluster.templates["gone"]["spec"], "ttlSecondsAfterFinished": 0}
    del cluster.templates["none"]
    cluster.settle()
    cluster.remove("f-gone")
    cluster.wait(10)
    cluster.marked = True
    cluster.settle()
    assert transcript.text == transcript.expected("starts")
