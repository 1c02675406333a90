"""The examples in the repository work as they stand: models, schemas and the API server's rules take them whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local.apiserver.schema import schema
from tests.support.crd_copies import crd_copies
from tests.support.paths import ROOT
from tests.support.tables import cases, for_each
from tests.unit.apiserver import examples as apiserver
from tests.unit.controllers.factories import NOW, reading, sample, snapshot
from workers.admission.volcano import jobflow as flow_rules
from workers.admission.volcano.job import defaulted, faults
from workers.api import kinds
from workers.api.keda import scaledjob, scaledobject
from workers.api.kinds import (
    CRON_JOB,
    JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    POD,
    SCALE_POLICY,
    SCALED_JOB,
    SCALED_OBJECT,
    SCHEDULED_JOB,
    VC_CRON_JOB,
    VC_JOB,
    Kind,
    Object,
)
from workers.api.penstock_dev import scalepolicy, scheduledjob
from workers.api.volcano import cronjob, jobflow
from workers.api.volcano import job as vcjob
from workers.controllers.batch.cronjob import timetable
from workers.controllers.keda.scaledjob import decide
from workers.controllers.volcano.job import plugins, pods
from workers.controllers.volcano.job.names import Site
from workers.decision.plan import Create, Together

FOLDER = ROOT / "examples"
FILES = sorted(FOLDER.glob("*.yaml"))
DEFINED = {crd["metadata"]["name"]: crd["spec"]["versions"][0] for crd in crd_copies()}
MODELS: dict[str, Callable[[Object], Any]] = {
    SCALED_JOB.id: scaledjob.parse,
    SCALED_OBJECT.id: scaledobject.parse,
    SCHEDULED_JOB.id: scheduledjob.parse,
    CRON_JOB.id: scheduledjob.parse,
    SCALE_POLICY.id: scalepolicy.parse,
    VC_JOB.id: vcjob.parse,
    JOB_FLOW.id: jobflow.parse,
    VC_CRON_JOB.id: cronjob.parse,
}
#: The path of the spec of the Jobs that a kind makes.
TEMPLATES = {
    SCALED_JOB.id: ("spec", "jobTargetRef"),
    SCHEDULED_JOB.id: ("spec", "jobTemplate", "spec"),
    CRON_JOB.id: ("spec", "jobTemplate", "spec"),
}
SCHEDULES = (CRON_JOB, SCHEDULED_JOB)


def documents() -> list[Any]:
    return [
        pytest.param(body, id=f"{file.name}:{body['metadata']['name']}")
        for file in FILES
        for body in yaml.load_all(file.read_text(), yaml.CSafeLoader)
    ]


def example(name: str) -> Object:
    """The one object of a file."""
    body: Object = yaml.safe_load((FOLDER / name).read_text())
    return body


def kind_of(body: Object) -> Kind:
    kind = kinds.by_manifest(body["apiVersion"], body["kind"])
    assert kind is not None
    return kind


def placed(body: Object) -> Object:
    """The object as `apply` sends it."""
    return {**body, "metadata": {"namespace": "default", **body["metadata"]}}


def job_of(body: Object) -> Object | None:
    """A Job as this object's controller would make it, or None for a kind that makes none."""
    path = TEMPLATES.get(kind_of(body).id)
    if path is None:
        return None
    spec: Any = body
    for field in path:
        spec = spec[field]
    return {"metadata": {"name": "job", "namespace": "default", "uid": "u"}, "spec": spec}


@pytest.mark.parametrize("body", documents())
def test_the_api_server_takes_it_and_knows_every_field(body: Object) -> None:
    if version := DEFINED.get(kind_of(body).id):
        form = schema.custom(version)
        decoded, _ = form.decode(placed(body), strict="Strict")
        assert form.validate(form.default(decoded)) == []
    else:
        assert apiserver.problems(kind_of(body), placed(body)) == []


@pytest.mark.parametrize("body", documents())
def test_it_can_be_applied_in_any_namespace(body: Object) -> None:
    assert "namespace" not in body["metadata"]


@pytest.mark.parametrize("body", [param for param in documents() if kind_of(param.values[0]).id in MODELS])
def test_the_typed_model_takes_it(body: Object) -> None:
    assert MODELS[kind_of(body).id](body).spec is not None


@pytest.mark.parametrize("body", documents())
def test_its_jobs_would_be_taken_too(body: Object) -> None:
    if job := job_of(body):
        assert apiserver.problems(JOB, job) == []


@pytest.mark.parametrize("body", [param for param in documents() if kind_of(param.values[0]) == VC_JOB])
@cases(("a cluster", Site()), ("the embedded one", Site(addresses=True)))
def test_the_pods_of_its_tasks_and_what_its_plugins_make_would_be_taken(site: Site, body: Object) -> None:
    whole = defaulted(placed(body))
    assert faults(whole) == []
    job = vcjob.parse({**whole, "metadata": {**whole["metadata"], "uid": "u"}})
    made = [(step.kind, step.body) for step in plugins.objects(job, site)]
    for task in job.spec.tasks:
        made += [(POD, pods.build(job, task, index, version=0, retries=0, site=site)) for index in range(task.replicas)]
    for kind, each in made:
        assert apiserver.problems(kind, each) == []


@pytest.mark.parametrize("body", [param for param in documents() if kind_of(param.values[0]) in SCHEDULES])
def test_its_schedules_fire(body: Object) -> None:
    spec = scheduledjob.parse(body).spec
    seconds = body["kind"] == SCHEDULED_JOB.kind
    found = timetable.of(spec, uid="u", seconds=seconds, created=NOW, since=NOW)
    assert len(found.lines) == len(spec.schedules or ()) + bool(spec.schedule)
    assert all(line.next(NOW) for line in found.lines)
    assert found.next(NOW)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_says_what_it_shows(file: Path) -> None:
    assert file.read_text().startswith("# ")


def test_the_scaledjob_makes_a_job_per_event() -> None:
    body = placed(example("scaledjob.yaml"))
    body["metadata"] |= {"uid": "u", "generation": 1, "resourceVersion": "1", "finalizers": ["finalizer.keda.sh"]}
    assert scaledjob.parse(body).spec.max_replica_count == 10
    plan = decide(snapshot(body, reading=reading(sample(3))), NOW)
    (stage,) = (step for step in plan.steps if isinstance(step, Together))
    assert [type(step) for step in stage.steps] == [Create] * 3


@for_each(
    ("seconds", "schedule", "*/10 * * * * *"),
    ("jitter", "jitter_seconds", 300),
    ("catch-up", "catch_up", scheduledjob.CatchUp(policy="All", limit=48)),
    ("retry", "retry", scheduledjob.RunRetry(limit=3, delay_seconds=60, max_delay_seconds=900)),
    ("time-limit", "run_time_limit_seconds", 1200),
    ("pause-until", "suspend_until", "2027-01-02T00:00:00Z"),
    ("history", "outcomes_limit", 72),
)
def test_every_wish_is_read_from_its_example(name: str, field: str, value: Any) -> None:
    assert getattr(scheduledjob.parse(example(f"scheduledjob-{name}.yaml")).spec, field) == value


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if file.name.startswith("jobflow")],
    ids=lambda file: file.name,
)
def test_flows_can_be_followed_and_have_their_templates(file: Path) -> None:
    bodies = list(yaml.safe_load_all(file.read_text()))
    templates = {body["metadata"]["name"]: body for body in bodies if kind_of(body) == JOB_TEMPLATE}
    (flow,) = [body for body in bodies if kind_of(body) == JOB_FLOW]
    spec = jobflow.parse(flow).spec
    assert flow_rules.faults(flow["metadata"]["name"], spec) == []
    assert {entry.source for entry in spec.flows} == set(templates)
    for template in templates.values():
        assert faults(defaulted({**template, "kind": "Job"})) == []
