"""The webhook's answers as HTTP has them."""

from typing import Any

import orjson
import pytest

from deploy.webhook import app as webhook
from tests.support.tables import cases
from tests.unit.admission.bodies import job, queue, task
from tests.unit.controllers.factories import scaled_job
from workers import errors
from workers.admission.admission_options import AdmissionOptions
from workers.api.kinds import JOB_TEMPLATE, SCALED_JOB, SCHEDULED_JOB, VC_JOB, Kind


class Cluster:
    """An API server with one open queue, scripted findings on pod templates, and optional failure.

    strict: the error where unknown fields are refused.
    """

    def __init__(
        self,
        *,
        away: bool = False,
        templates: errors.ClusterError | None = None,
        strict: errors.ClusterError | None = None,
    ) -> None:
        self.away = away
        self.templates = templates
        self.strict = strict
        self.asked: list[dict[str, Any]] = []

    async def list(self, kind: Any) -> tuple[list[Any], str]:
        if self.away:
            raise errors.Unavailable("nobody listens")
        return [queue("default")], "1"

    async def request(self, method: str, path: str, *, query: dict[str, str], body: Any) -> Any:
        self.asked.append({"method": method, "path": path, **query})
        if self.strict and query["fieldValidation"] == "Strict":
            raise self.strict
        if self.templates:
            raise self.templates
        return body


async def post(cluster: Any, path: str, body: bytes) -> tuple[int, bytes]:
    """The status and the body of the answer to one request, sent in pieces."""
    pieces = [body[at : at + 65536] for at in range(0, len(body), 65536)] or [b""]
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages[-1]["more_body"] = False
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b"", "app": None}
    await webhook.app(cluster, AdmissionOptions())(scope, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


def question(body: Any, kind: Kind = VC_JOB, **more: Any) -> bytes:
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    request = {"uid": "u", "operation": "CREATE", "resource": resource, "object": body, "namespace": "team", **more}
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


async def test_templates_are_validated_by_dry_runs() -> None:
    cluster = Cluster()
    status, answer = await post(cluster, "/validate", question(job(task("a"), task("b"))))
    assert (status, orjson.loads(answer)["response"]) == (200, {"uid": "u", "allowed": True})
    asked = {
        "method": "POST",
        "path": "/api/v1/namespaces/default/podtemplates",
        "dryRun": "All",
        "fieldValidation": "Strict",
    }
    assert cluster.asked == [asked, asked]


CAUSES = {"details": {"causes": [{"field": "template.spec.containers[0].image", "message": "Required value"}]}}


@cases(
    (
        "causes",
        errors.Invalid("POST: 422", status=422, body=CAUSES),
        ("spec.tasks[0].template.spec.containers[0].image", "Required value"),
    ),
    (
        "no causes",
        errors.Invalid("POST: 400", status=400, body={"message": "cannot be read"}),
        ("spec.tasks[0].template", "cannot be read"),
    ),
)
async def test_findings_on_a_template_name_the_field_of_the_object(
    error: errors.ClusterError, expected: tuple[str, str]
) -> None:
    _, answer = await post(Cluster(templates=error), "/validate", question(job()))
    (cause,) = orjson.loads(answer)["response"]["status"]["details"]["causes"]
    assert (cause["field"], cause["message"]) == expected


MISSPELT = errors.Invalid(
    "POST: 400",
    status=400,
    body={
        "message": 'PodTemplate in version "v1" cannot be handled as a PodTemplate: strict decoding error: '
        'unknown field "template.spec.contianers", unknown field "template.spec.volumes[0].\\"x\\""'
    },
)
TYPOS = ["spec.contianers", 'spec.volumes[0].\\"x\\"']
JOB_SPEC = {"spec": {"template": {"spec": {"contianers": []}}}}


@cases(
    ("Volcano's Job", VC_JOB, job(), "spec.tasks[0].template"),
    ("a JobTemplate", JOB_TEMPLATE, job(), "spec.tasks[0].template"),
    ("a ScaledJob", SCALED_JOB, scaled_job(), "spec.jobTargetRef.template"),
    (
        "a ScheduledJob",
        SCHEDULED_JOB,
        {"metadata": {}, "spec": {"jobTemplate": JOB_SPEC}},
        "spec.jobTemplate.spec.template",
    ),
)
async def test_unknown_fields_of_a_template_are_told_or_refused(kind: Kind, body: Any, path: str) -> None:
    async def answer(**options: str) -> Any:
        _, found = await post(Cluster(strict=MISSPELT), "/validate", question(body, kind, options=options))
        return orjson.loads(found)["response"]

    told = [f'unknown field "{path}.{each}"' for each in TYPOS]
    assert await answer(fieldValidation="Warn") == {"uid": "u", "allowed": True, "warnings": told}
    assert await answer() == await answer(fieldValidation="Warn")
    assert await answer(fieldValidation="Ignore") == {"uid": "u", "allowed": True}
    refused = await answer(fieldValidation="Strict")
    assert [each["field"] for each in refused["status"]["details"]["causes"]] == [f"{path}.{each}" for each in TYPOS]


async def test_what_else_is_wrong_in_a_template_with_unknown_fields_is_found() -> None:
    cluster = Cluster(strict=MISSPELT, templates=errors.Invalid("POST: 422", status=422, body=CAUSES))
    _, answer = await post(cluster, "/validate", question(job()))
    (cause,) = orjson.loads(answer)["response"]["status"]["details"]["causes"]
    assert cause["field"] == "spec.tasks[0].template.spec.containers[0].image"


async def test_a_template_of_a_kind_that_its_controller_judges_refuses_nothing() -> None:
    cluster = Cluster(templates=errors.Invalid("POST: 422", status=422, body=CAUSES))
    _, answer = await post(cluster, "/validate", question(scaled_job(), SCALED_JOB))
    assert orjson.loads(answer)["response"] == {"uid": "u", "allowed": True}


@cases(
    ("queues", Cluster(away=True)),
    ("templates", Cluster(templates=errors.Unavailable("nobody listens"))),
    ("rights", Cluster(templates=errors.Forbidden("podtemplates is forbidden", status=403))),
)
async def test_a_failed_read_is_no_answer(cluster: Cluster) -> None:
    assert (await post(cluster, "/validate", question(job())))[0] == 500


async def test_mutating_a_job_reads_nothing() -> None:
    status, answer = await post(Cluster(away=True), "/mutate", question(job()))
    assert status == 200
    assert orjson.loads(answer)["response"]["patchType"] == "JSONPatch"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b" " * (webhook.LIMIT + 1)], ids=len)
async def test_an_invalid_request_body_is_refused(body: bytes) -> None:
    assert (await post(Cluster(), "/validate", body))[0] == 400
