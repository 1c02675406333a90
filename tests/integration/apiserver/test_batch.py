"""Jobs and CronJobs: what controllers and people write, and what they are answered, also when they write nonsense."""

from typing import Any

from tests.integration.apiserver.client import (
    DEFINITIONS,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Answer,
    Api,
    job,
    owned_by,
    pod,
    until,
)
from tests.support.tables import cases, for_each
from workers.api import crds
from workers.api.kinds import SCALED_JOB, SCHEDULED_JOB

# Not batch.kubernetes.io/job-tracking: since Kubernetes 1.23 the Job controller takes that off a pod without a Job.
TRACKING = "test.dev/tracking"


def letting_go(uid: str, finalizer: str = TRACKING) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [finalizer]}}


@for_each("pods", "jobs")
def test_a_finalizer_is_taken_off_one_object_and_no_other(plural: str, api: Api) -> None:
    path, body = (api.pods, pod()) if plural == "pods" else (api.jobs, job())
    body["metadata"]["finalizers"] = [TRACKING, "test.dev/a"]
    made = api.create(path, body)
    at, uid = f"{path}/{made['metadata']['name']}", made["metadata"]["uid"]
    other = api.patch(at, letting_go("0-0-0-0"), STRATEGIC)
    assert (other.code, other.body["details"]["causes"][0]["field"]) == (422, "metadata.uid")
    for _ in range(2):
        assert api.patch(at, letting_go(uid), STRATEGIC).body["metadata"]["finalizers"] == ["test.dev/a"]
    assert api("DELETE", at, {"propagationPolicy": "Background", "gracePeriodSeconds": 0}).code == 200
    last = api.patch(at, letting_go(uid, "test.dev/a"), STRATEGIC)
    assert (last.code, "finalizers" in last.body["metadata"]) == (200, False)
    assert api.get(at).code == 404
    assert api.patch(at, letting_go(uid), STRATEGIC).code == 404


@for_each("", "/status")
def test_an_update_is_for_one_object_and_one_version(subresource: str, api: Api) -> None:
    made = api.create(api.pods, pod())
    at = f"{api.pods}/worker{subresource}"
    for metadata, patched, put in (({"uid": "0-0-0-0"}, 422, 409), ({"resourceVersion": "1"}, 409, 409)):
        assert api.patch(at, {"metadata": metadata}).code == patched
        body = {**made, "metadata": {**made["metadata"], "resourceVersion": "", **metadata}}
        assert api("PUT", at, body).code == put
    for type_ in (MERGE, STRATEGIC):
        assert api.patch(at, {"metadata": {"labels": {"a": type_[-15:-5]}}}, type_).code == 200


def test_jobs_are_selected_by_their_successes(api: Api) -> None:
    for name in ("none", "one"):
        api.create(api.jobs, {**job(name), "spec": {**job()["spec"], "parallelism": 0}})
    # Finished: nobody else writes what he has counted himself.
    end = "2026-01-01T00:00:00Z"
    over = [{"type": kind, "status": "True", "lastTransitionTime": end} for kind in ("SuccessCriteriaMet", "Complete")]
    status = {"succeeded": 1, "startTime": end, "completionTime": end, "conditions": over}
    assert api.patch(f"{api.jobs}/one/status", {"status": status}).code == 200
    for text, name in (("status.successful=1", "one"), ("status.successful!=1", "none"), ("metadata.name=one", "one")):
        found = api.get(api.jobs, fieldSelector=text).body["items"]
        assert [item["metadata"]["name"] for item in found] == [name]
    refused = api.get(api.jobs, fieldSelector="status.failed=0")
    assert (refused.code, refused.message) == (400, 'field label "status.failed" not supported for batchv1.Job')


def test_conditions_merge_by_type_and_times_have_whole_seconds(api: Api) -> None:
    api.create(api.jobs, {**job(), "spec": {**job()["spec"], "parallelism": 0}})
    at = f"{api.jobs}/crunch/status"
    one = {"type": "One", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00.999Z"}
    for condition in (one, {"type": "Two", "status": "False"}, {"type": "One", "message": "text"}):
        answer = api.patch(at, {"status": {"conditions": [condition], "startTime": "2026-01-01T00:00:00Z"}}, STRATEGIC)
        assert answer.code == 200, answer.text
    status = answer.body["status"]
    assert {c["type"]: (c["status"], c.get("message")) for c in status["conditions"]} == {
        "One": ("True", "text"),
        "Two": ("False", None),
    }
    [first] = [c for c in status["conditions"] if c["type"] == "One"]
    assert first["lastTransitionTime"] == "2026-01-01T00:00:00Z"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    **{
        field: ({field: -1}, f"spec.{field}")
        for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit")
    },
    "a selector nobody announced": ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector"),
    "no selector": ({"manualSelector": True}, "spec.selector"),
    "pods that never end": (
        {"template": {"spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "x"}]}}},
        "spec.template.spec.restartPolicy",
    ),
    "no containers": ({"template": {"spec": {"restartPolicy": "Never"}}}, "spec.template.spec.containers"),
}


@cases(REFUSED)
def test_a_job_is_refused_for_a_field(spec: Any, field: str, api: Api) -> None:
    answer = api("POST", api.jobs, {**job(), "spec": {**job()["spec"], **spec}})
    assert answer.code == 422, answer.text
    details = answer.body["details"]
    assert (details["name"], details["kind"]) == ("crunch", "Job")
    assert field in [cause["field"] for cause in details["causes"]]


def test_what_a_job_is_may_not_change_and_how_it_runs_may(api: Api) -> None:
    api.create(api.jobs, {**job(), "spec": {**job()["spec"], "parallelism": 0, "completions": 2}})
    at = f"{api.jobs}/crunch"
    changes: dict[str, Any] = {"completions": 3, "selector": {"matchLabels": {"a": "b"}}}
    changes["template"] = {"spec": {"hostname": "x"}}
    for field, value in changes.items():
        answer = api.patch(at, {"spec": {field: value}}, STRATEGIC)
        assert (answer.code, f"spec.{field}" in answer.text.decode()) == (422, True)
    spec = {"activeDeadlineSeconds": 9, "backoffLimit": 1, "parallelism": 1}
    assert api.patch(at, {"spec": spec}).body["spec"].items() >= spec.items()


def test_a_job_without_labels_shows_those_of_its_template(api: Api) -> None:
    template = {**job()["spec"]["template"], "metadata": {"labels": {"app": "demo"}}}
    made = api.create(api.jobs, {**job(), "spec": {"parallelism": 0, "template": template}})
    labels = made["metadata"]["labels"]
    assert labels == made["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= {"app": "demo", "job-name": "crunch", "controller-uid": made["metadata"]["uid"]}.items()


def test_only_what_a_job_declares_is_counted(api: Api) -> None:
    api.needs("1.23", "the generation of Jobs")
    api.create(api.jobs, job())
    at = f"{api.jobs}/crunch"
    for path, body, generation in (
        (at, {"metadata": {"labels": {"a": "b"}}}, 1),
        (f"{at}/status", {"status": {"active": 1}}, 1),
        (at, {"spec": {"parallelism": 1, "podFailurePolicy": None}}, 1),
        (at, {"spec": {"parallelism": 2}}, 2),
    ):
        assert api.patch(path, body).body["metadata"]["generation"] == generation


def test_a_suspended_job_may_be_sent_elsewhere_until_it_runs(api: Api) -> None:
    api.needs("1.23", "another place for the pods of a suspended Job")
    api.create(api.jobs, {**job(), "spec": {**job()["spec"], "suspend": True}})
    at = f"{api.jobs}/crunch"
    zone = {"spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}}
    assert api.patch(at, zone).code == 200
    assert api.patch(at, {"spec": {"suspend": False, "template": {"spec": {"nodeSelector": None}}}}).code == 200
    refused = api.patch(at, zone)
    assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (422, "spec.template")


def test_a_job_deleted_without_a_policy_leaves_its_pods_with_a_warning(api: Api) -> None:
    api.needs("1.25", "the warning about pods that stay")
    for options in (None, {"kind": "DeleteOptions", "apiVersion": "v1"}):
        api.create(api.jobs, job())
        answer = api("DELETE", f"{api.jobs}/crunch", options)
        assert answer.headers["warning"].endswith('set propagationPolicy=Orphan to suppress this warning"')
        until(lambda: api.get(f"{api.jobs}/crunch").code == 404, "the job is gone")
    api.create(api.jobs, job())
    assert "warning" in api("DELETE", api.jobs).headers
    api.create(api.jobs, job("other"))
    for policy in ("Background", "Orphan"):
        assert "warning" not in api("DELETE", api.jobs, propagationPolicy=policy).headers


def test_a_collection_of_jobs_goes_with_its_pods(api: Api) -> None:
    for name in ("a", "b"):
        body = {**job(name, labels={"keep": str(name == "b")}), "spec": {**job()["spec"], "parallelism": 0}}
        owner = api.create(api.jobs, body)
        # Not as a controller: a real cluster's would let go of a pod that its Job does not select.
        api.create(api.pods, pod(name, **owned_by(owner, controller=False)))
    options = {"propagationPolicy": "Background"}
    assert api("DELETE", api.jobs, options, labelSelector="keep=False").code == 200
    until(lambda: api.get(f"{api.pods}/a").code == 404, "the pod is gone")
    assert (api.get(f"{api.jobs}/a").code, api.get(f"{api.jobs}/b").code) == (404, 200)
    assert api.get(f"{api.pods}/b").code == 200


def test_where_there_is_no_room_nothing_is_judged(api: Api) -> None:
    wrong = {**job(), "spec": {**job()["spec"], "parallelism": -1}}
    nowhere = api("POST", "/apis/batch/v1/namespaces/nowhere/jobs", wrong)
    assert (nowhere.code, nowhere.message) == (404, 'namespaces "nowhere" not found')
    api.create(api.pods, pod(finalizers=["test.dev/a"]))
    api("DELETE", f"/api/v1/namespaces/{api.namespace}")
    refused = api("POST", api.jobs, wrong)
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    api.patch(f"{api.pods}/worker", {"metadata": {"finalizers": None}})


def cron_job(name: str = "nightly", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "0 2 * * *", "jobTemplate": {"spec": job()["spec"]}, **spec},
    }


def test_a_cron_job_is_made_changed_and_deleted_with_its_jobs(api: Api) -> None:
    api.needs("1.21", "CronJob in batch/v1")
    path = f"/apis/batch/v1/namespaces/{api.namespace}/cronjobs"
    made = api.create(path, cron_job())
    assert (made["spec"]["concurrencyPolicy"], made["metadata"]["generation"]) == ("Allow", 1)
    active = [{"kind": "Job", "name": "crunch"}]
    status = api.patch(f"{path}/nightly/status", {"status": {"active": active}, "spec": {"suspend": True}}, STRATEGIC)
    assert (status.body["status"]["active"], status.body["spec"]["suspend"]) == (active, False)
    whole = {**made, "metadata": {"name": "nightly"}, "status": {"lastScheduleTime": "2026-01-01T00:00:00.5Z"}}
    assert api("PUT", f"{path}/nightly/status", whole).body["status"] == {"lastScheduleTime": "2026-01-01T00:00:00Z"}
    changed = api.patch(f"{path}/nightly", {"spec": {"suspend": True}}, STRATEGIC).body
    assert (changed["metadata"]["generation"], api.get(f"{path}/nightly/status").code) == (2, 200)
    api.create(api.jobs, job(**owned_by(made)))
    answer = api("DELETE", f"{path}/nightly")
    assert (answer.code, "warning" in answer.headers) == (200, False)
    until(lambda: api.get(f"{api.jobs}/crunch").code == 404, "the job follows its owner")


@cases(
    ("four fields", {"schedule": "* * * *"}, ["spec.schedule"]),
    ("a zone in the schedule", {"schedule": "TZ=UTC * * * * *"}, ["spec.schedule"]),
    ("an unknown zone", {"timeZone": "Middle/Earth"}, ["spec.timeZone"]),
    ("everything at once", {"schedule": "@never", "timeZone": ""}, ["spec.schedule", "spec.timeZone"]),
)
def test_a_cron_job_that_could_never_run_is_refused(spec: Any, fields: list[str], api: Api) -> None:
    api.needs("1.27", "the time zone of a CronJob")
    answer = api("POST", f"/apis/batch/v1/namespaces/{api.namespace}/cronjobs", cron_job(**spec))
    assert (answer.code, [cause["field"] for cause in answer.body["details"]["causes"]]) == (422, fields)


def test_a_scheduled_job_that_could_never_run_is_refused_each_field_once(ours: Api) -> None:
    for definition in crds.all_crds():
        if definition["metadata"]["name"] == SCHEDULED_JOB.id:
            ours("POST", DEFINITIONS, definition)
    path = SCHEDULED_JOB.path(ours.namespace)
    body = {**cron_job(), "apiVersion": SCHEDULED_JOB.api_version, "kind": SCHEDULED_JOB.kind}
    wrong = {"schedule": "61 * * * *", "timeZone": "Middle/Earth"}
    refused = ours("POST", path, {**body, "spec": {**body["spec"], **wrong}})
    fields = ["spec.schedule", "spec.timeZone"]
    assert (refused.code, [cause["field"] for cause in refused.body["details"]["causes"]]) == (422, fields)
    ours.create(path, {**body, "spec": {**body["spec"], "schedule": "*/10 * * * * *"}})
    shape = ours.patch(f"{path}/nightly", {"spec": {"jitterSeconds": -1, "schedule": "never"}})
    causes = [cause["field"] for cause in shape.body["details"]["causes"]]
    assert (shape.code, causes) == (422, ["spec.jitterSeconds"])
    unfit = ours.patch(f"{path}/nightly", {"spec": {"exclusions": [{"schedule": "0 3 * * *"}]}})
    assert "spec.exclusions[0]: Invalid value: a schedule needs durationSeconds" in unfit.message


def test_a_misspelt_field_of_a_template_is_warned_about_or_refused_once(ours: Api) -> None:
    for definition in crds.all_crds():
        if definition["metadata"]["name"] == SCALED_JOB.id:
            ours("POST", DEFINITIONS, definition)
    path = SCALED_JOB.path(ours.namespace)
    template = {"spec": {"containers": [{"name": "c", "image": "none", "imagePullPolcy": "Never"}]}}
    triggers = [{"type": "redis", "metadata": {"address": "a:1", "listName": "l"}}]
    spec = {"jobTargetRef": {"template": template}, "triggers": triggers}
    body = {**SCALED_JOB.type_meta, "metadata": {"name": "one"}, "spec": spec}
    text = 'unknown field "spec.jobTargetRef.template.spec.containers[0].imagePullPolcy"'
    strict = ours("POST", path, body, fieldValidation="Strict")
    assert (strict.code, f"strict decoding error: {text}" in strict.message) == (400, True)
    assert text not in ours("POST", path, body, fieldValidation="Ignore").headers.get("warning", "").replace("\\", "")
    warned = ours("POST", path, {**body, "metadata": {"name": "two"}})
    assert (warned.code, text in warned.headers["warning"].replace("\\", "")) == (201, True)

    def patched(spec: Any) -> Answer:
        return ours("PATCH", f"{path}/one", {"spec": spec}, type=MERGE, fieldValidation="Strict")

    # What is stored already does not stand in the way of another change.
    assert patched({"pollingInterval": 5}).code == 200
    refused = patched({"jobTargetRef": {"backofLimit": 1}})
    assert (refused.code, 'error: unknown field "spec.jobTargetRef.backofLimit"' in refused.message) == (422, True)
    assert "Polcy" not in refused.message.rpartition("decoding error")[2]


@for_each(2**31, 2**62, 2**63, 10**40)
def test_numbers_of_seconds_beyond_all_bounds_are_answered(seconds: int, ours: Api) -> None:
    body = pod()
    body["spec"] |= {"terminationGracePeriodSeconds": seconds, "nodeName": "local"}
    ours("POST", ours.pods, body)
    ours("POST", ours.pods, pod("plain"))
    for method, path, query in (
        ("GET", f"{ours.pods}/plain/log", {"sinceSeconds": seconds}),
        ("GET", f"{ours.pods}/plain/log", {"sinceSeconds": -seconds}),
        ("GET", ours.pods, {"limit": seconds, "timeoutSeconds": seconds}),
        ("DELETE", f"{ours.pods}/worker", {}),
        ("DELETE", f"{ours.pods}/worker", {"gracePeriodSeconds": seconds}),
        ("DELETE", f"{ours.pods}/worker", {"gracePeriodSeconds": -seconds}),
    ):
        answer = ours(method, path, **query)
        assert answer.code < 500, (method, path, query, answer.text)


ALIASES = b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (name, name, b", ".join([b"*%c" % (name - 1)] * 9)) for name in b"bcdefghi"
)
NONSENSE: dict[str, tuple[str, str, Any, str]] = {
    "a Job nested without end": ("POST", "{jobs}", b'{"a":' * 900 + b"1" + b"}" * 900, "application/json"),
    "a number beyond all bounds": (
        "POST",
        "{jobs}",
        b'{"spec": {"parallelism": 1%s}}' % (b"0" * 40),
        "application/json",
    ),
    "aliases that grow without end": ("POST", "{jobs}", ALIASES, "application/yaml"),
    "aliases that grow in a patch": ("PATCH", "{jobs}/crunch", ALIASES, MERGE),
    "brackets without end": ("POST", "{jobs}", b"[" * 10_000, "application/yaml"),
    "bytes in YAML": ("POST", "{jobs}", b"spec: {parallelism: !!binary AAAA}", "application/yaml"),
    "a text for a number": ("PATCH", "{jobs}/crunch", {"spec": {"parallelism": "2"}}, MERGE),
    "a list for an object": ("PATCH", "{jobs}/crunch", {"spec": []}, STRATEGIC),
    "an item without its key": (
        *("PATCH", "{jobs}/crunch", {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}, STRATEGIC),
    ),
    "a finalizer that is an object": ("PATCH", "{jobs}/crunch", {"metadata": {"finalizers": [{}]}}, STRATEGIC),
    "copies of copies": (
        *("PATCH", "{jobs}/crunch", [{"op": "copy", "from": "/spec", "path": "/spec/template"}] * 60, JSON_PATCH),
    ),
    "options that are a number": ("DELETE", "{jobs}/crunch", {"preconditions": 5}, "application/json"),
    "options that are a list": ("DELETE", "{jobs}/crunch", [], "application/json"),
    "a target that is a text": ("POST", "{pods}/worker/binding", {"target": "node"}, "application/json"),
    "an eviction that is a list": ("POST", "{pods}/worker/eviction", [], "application/json"),
    "an eviction of another": ("POST", "{pods}/worker/eviction", {"metadata": {"name": "x"}}, "application/json"),
    "two billion indexes": (
        *("PATCH", "{jobs}/crunch/status", {"status": {"completedIndexes": "0-2147483646"}}, MERGE),
    ),
}


@cases(NONSENSE)
def test_nonsense_is_refused_and_changes_nothing(method: str, path: str, body: Any, type_: str, ours: Api) -> None:
    version = ours.create(ours.jobs, job())["metadata"]["resourceVersion"]
    ours.create(ours.pods, pod())
    answer = ours(method, path.format(jobs=ours.jobs, pods=ours.pods), body, type=type_)
    assert 400 <= answer.code < 500, answer.text
    assert answer.body["message"]
    assert ours.get(f"{ours.jobs}/crunch").version == version
    assert ours.get(f"{ours.pods}/worker").code == 200
