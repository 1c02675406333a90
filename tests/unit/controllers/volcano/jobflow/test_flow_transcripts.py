"""All that is decided on JobFlows, word for word."""

import pytest

from tests.unit.controllers.transcripts import PlanTranscript
from tests.unit.controllers.volcano.jobflow import flow_cluster
from tests.unit.controllers.volcano.jobflow.flow_cluster import Cluster
from workers.api import times
from workers.controllers.volcano.jobflow.decide import decide


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
    metadata = {**cluster.body["metadata"], "deletionTimestamp": times.render(cluster.now)}
    cluster.body = {**cluster.body, "metadata": metadata}
    cluster.catch_up()
    cluster.settle()
    assert transcript.text == transcript.expected("wrong")
