"""kubectl works against the embedded server as against any other."""

import json
import re
import shutil
import threading
import time

import pytest

from tests.integration.apiserver.client import DEFINITIONS, Api, definition, job, pod, until
from tests.integration.apiserver.conftest import Kubectl
from tests.support.embedded import Embedded

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed: NOT tested with it")

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: crunch, labels: {app: demo}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: none, command: ["true"]}]
"""
CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 2 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: busybox, env: [{name: A, value: b}]}]
"""


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=JOB) == "job.batch/crunch created\n"
    assert kubectl("apply", "-f", "-", stdin=JOB) == "job.batch/crunch unchanged\n"
    changed = JOB.replace("app: demo", "app: other")
    assert kubectl("apply", "-f", "-", stdin=changed) == "job.batch/crunch configured\n"
    assert kubectl("get", "job", "crunch", "-o", "jsonpath={.metadata.labels.app}") == "other"
    assert kubectl("diff", "-f", "-", stdin=changed) == ""


def test_apply_names_a_field_nobody_knows(kubectl: Kubectl) -> None:
    output = kubectl("apply", "-f", "-", stdin=JOB.replace("template:", "tmplate: 1\n  template:", 1), fails=True)
    assert 'unknown field "spec.tmplate"' in output


def test_get_shows_tables_wide_yaml_json_and_paths(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=JOB)
    assert re.match(r"NAME +STATUS +COMPLETIONS +DURATION +AGE\ncrunch +Running +0/1 ", kubectl("get", "jobs"))
    assert "CONTAINERS" in kubectl("get", "jobs", "-o", "wide")
    assert "\nkind: Job\n" in kubectl("get", "job", "crunch", "-o", "yaml")
    assert json.loads(kubectl("get", "jobs", "-o", "json"))["items"][0]["kind"] == "Job"
    assert kubectl("get", "jobs", "-l", "app=demo", "-o", "name") == "job.batch/crunch\n"
    assert "crunch" in kubectl("get", "all")
    assert "crunch" in kubectl("get", "jobs", "-A")
    assert kubectl("get", "job", "nothing", fails=True).endswith('jobs.batch "nothing" not found\n')


def test_get_watches(kubectl: Kubectl, ours: Api) -> None:
    kubectl("apply", "-f", "-", stdin=JOB)
    shown: list[str] = []
    arguments = ("get", "jobs", "-w", "--output-watch-events", "--request-timeout=6s")
    watcher = threading.Thread(target=lambda: shown.append(kubectl(*arguments)))
    watcher.start()
    while watcher.is_alive():
        ours.patch(f"{ours.jobs}/crunch", {"metadata": {"labels": {"at": str(time.monotonic_ns())}}})
        watcher.join(0.2)
    assert re.search(r"^ADDED +crunch ", shown[0], re.MULTILINE)
    assert re.search(r"^MODIFIED +crunch ", shown[0], re.MULTILINE)


def test_describe_tells_pods_and_events(kubectl: Kubectl, ours: Api) -> None:
    kubectl("apply", "-f", "-", stdin=JOB)
    about = {"apiVersion": "batch/v1", "kind": "Job", "name": "crunch", "namespace": ours.namespace}
    about["uid"] = ours.get(f"{ours.jobs}/crunch").body["metadata"]["uid"]
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": about, "count": 1}
    times = {"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"}
    event |= {"reason": "SuccessfulCreate", "message": "Created pod: x", "type": "Normal", **times}
    ours.create(f"/api/v1/namespaces/{ours.namespace}/events", event)
    text = kubectl("describe", "job", "crunch")
    assert re.search(r"^Name: +crunch$", text, re.MULTILINE)
    assert "Created pod: x" in text
    assert "SuccessfulCreate" in kubectl("get", "events")
    assert "Created pod: x" in kubectl("events")


def test_delete_waits_and_cascades(kubectl: Kubectl, ours: Api) -> None:
    for policy, left in (("background", False), ("foreground", False), ("orphan", True)):
        kubectl("apply", "-f", "-", stdin=JOB)
        uid = ours.get(f"{ours.jobs}/crunch").body["metadata"]["uid"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "crunch", "uid": uid, "blockOwnerDeletion": True}
        ours.create(ours.pods, pod(policy, ownerReferences=[owner]))
        assert 'job.batch "crunch" deleted' in kubectl("delete", "job", "crunch", f"--cascade={policy}")
        assert ours.get(f"{ours.jobs}/crunch").code == 404
        if left:
            assert ours.get(f"{ours.pods}/{policy}").code == 200
        else:
            until(lambda name=policy: ours.get(f"{ours.pods}/{name}").code == 404, "the pod is gone")  # type: ignore[misc]
    assert "deleted" in kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


def test_patch_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=JOB)
    kubectl("patch", "job", "crunch", "--type=merge", "-p", '{"spec":{"parallelism":2}}')
    kubectl("patch", "job", "crunch", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/j","value":"k"}]')
    kubectl("patch", "job", "crunch", "-p", '{"metadata":{"labels":{"s":"t"}}}')
    kubectl("label", "job", "crunch", "l=m")
    kubectl("annotate", "job", "crunch", "note=text")
    kubectl("patch", "job", "crunch", "--subresource=status", "--type=merge", "-p", '{"status":{"active":1}}')
    body = json.loads(kubectl("get", "job", "crunch", "-o", "json"))
    assert {"j": "k", "s": "t", "l": "m"}.items() <= body["metadata"]["labels"].items()
    assert (body["metadata"]["annotations"]["note"], body["spec"]["parallelism"]) == ("text", 2)
    assert body["status"]["active"] == 1


def test_create_and_scale_what_kubectl_sends_as_protobuf(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=none", "--replicas=1")
    assert kubectl("scale", "deployment", "web", "--replicas=3") == "deployment.apps/web scaled\n"
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"
    kubectl("create", "configmap", "conf", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "hidden", "--from-literal=password=x")
    assert kubectl("get", "secret", "hidden", "-o", "jsonpath={.data.password}") == "eA=="
    kubectl("create", "quota", "few", "--hard=requests.cpu=1500m,pods=2", "--scopes=NotBestEffort")
    bounds = {"hard": {"requests.cpu": "1500m", "pods": "2"}, "scopes": ["NotBestEffort"]}
    assert json.loads(kubectl("get", "quota", "few", "-o", "json"))["spec"] == bounds
    kubectl("create", "priorityclass", "urgent", "--value=7", "--preemption-policy=Never")
    assert kubectl("get", "priorityclass", "urgent", "-o", "jsonpath={.value} {.preemptionPolicy}") == "7 Never"
    kubectl("delete", "priorityclass", "urgent")
    kubectl("create", "namespace", "made-by-kubectl")
    kubectl("delete", "namespace", "made-by-kubectl")
    assert kubectl("auth", "can-i", "create", "jobs") == "yes\n"


def test_a_cron_job_is_created_shown_paused_and_deleted(kubectl: Kubectl, ours: Api) -> None:
    made = kubectl("create", "cronjob", "nightly", "--image=none", "--schedule=0 2 * * *", "--", "true")
    assert made == "cronjob.batch/nightly created\n"
    row = r"^NAME +SCHEDULE +TIMEZONE +SUSPEND +ACTIVE +LAST SCHEDULE +AGE *\nnightly +0 2 \* \* \* +<none> +{} +0 +{} "
    assert re.search(row.format("False", "<none>"), kubectl("get", "cj"), re.MULTILINE)
    status = {"lastScheduleTime": "2026-01-01T02:00:00Z", "active": [{"kind": "Job", "name": "nightly-1"}]}
    path = f"/apis/batch/v1/namespaces/{ours.namespace}/cronjobs/nightly"
    assert ours.patch(f"{path}/status", {"status": status}).code == 200
    kubectl("patch", "cronjob", "nightly", "-p", '{"spec":{"suspend":true}}')
    assert re.search(r"^nightly .* True +1 +\S+ +\S+ +nightly +none +<none>$", kubectl("get", "cj", "-o", "wide"), re.M)
    described = kubectl("describe", "cronjob", "nightly")
    assert re.search(r"^Suspend: +True$", described, re.MULTILINE)
    assert re.search(r"^Active Jobs: +nightly-1$", described, re.MULTILINE)
    refused = kubectl("patch", "cj", "nightly", "-p", '{"spec":{"schedule":"0 2 * *"}}', fails=True)
    assert 'spec.schedule: Invalid value: "0 2 * *": expected exactly 5 fields, found 4' in refused
    assert "deleted" in kubectl("delete", "cj", "nightly")


def test_a_job_is_paused_and_described_to_its_end(kubectl: Kubectl, ours: Api) -> None:
    indexed = "  completionMode: Indexed\n  completions: 4\n  parallelism: 2\n  backoffLimitPerIndex: 1\n"
    kubectl("apply", "-f", "-", stdin=JOB.replace("spec:\n", f"spec:\n{indexed}", 1))
    kubectl("patch", "job", "crunch", "-p", '{"spec":{"suspend":true}}')
    at = f"{ours.jobs}/crunch/status"
    paused = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert ours.patch(at, {"status": {"conditions": [paused]}}).code == 200
    assert re.search(r"^crunch +Suspended +0/4 ", kubectl("get", "job", "crunch"), re.MULTILINE)
    start, end = "2026-01-01T00:00:00Z", "2026-01-01T00:01:40Z"
    failed = [{"type": kind, "status": "True", "lastTransitionTime": end} for kind in ("FailureTarget", "Failed")]
    status = {"startTime": start, "succeeded": 3, "failed": 2, "completedIndexes": "0,2-3", "failedIndexes": "1"}
    assert ours.patch(at, {"status": {**status, "conditions": failed}}).code == 200
    described = kubectl("describe", "job", "crunch")
    for line in (r"Completed Indexes: +0,2-3", r"Pods Statuses: +0 Active / 3 Succeeded / 2 Failed", r"Suspend: +true"):
        assert re.search(f"^{line}", described, re.MULTILINE), described
    assert re.search(r"^crunch +Failed +3/4 ", kubectl("get", "job", "crunch"), re.MULTILINE)
    assert kubectl("wait", "--for=condition=failed", "job/crunch") == "job.batch/crunch condition met\n"
    kubectl("delete", "job", "crunch", "--wait=false")
    assert kubectl("wait", "--for=delete", "job/crunch", "--timeout=30s") in ("", "job.batch/crunch condition met\n")


def test_the_logs_of_a_job_are_those_of_its_pods(kubectl: Kubectl, ours: Api, embedded: Embedded) -> None:
    kubectl("apply", "-f", "-", stdin=JOB)
    labels = ours.get(f"{ours.jobs}/crunch").body["spec"]["template"]["metadata"]["labels"]
    uid = ours.create(ours.pods, pod(labels=labels))["metadata"]["uid"]
    ours.patch(f"{ours.pods}/worker/status", {"status": {"phase": "Succeeded"}})
    file = embedded.logs / f"{ours.namespace}_worker_{uid}" / "main" / "0.log"
    file.parent.mkdir(parents=True)
    file.write_text("2026-01-01T00:00:00.000000000Z stdout F hello\n")
    assert kubectl("logs", "job/crunch") == "hello\n"
    assert "hello\n" in kubectl("logs", "-l", "job-name=crunch", "--prefix")


def test_a_pod_is_evicted_by_drain(kubectl: Kubectl, ours: Api) -> None:
    ours.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{ours.namespace}"}})
    body = pod(finalizers=["test.dev/a"])
    ours.create(ours.pods, {**body, "spec": {**body["spec"], "nodeName": f"n-{ours.namespace}"}})
    ours.patch(f"{ours.pods}/worker/status", {"status": {"phase": "Succeeded"}})
    drained = kubectl("drain", f"n-{ours.namespace}", "--force", "--timeout=3s", fails=True)
    assert f"evicting pod {ours.namespace}/worker" in drained
    [target] = ours.get(f"{ours.pods}/worker").body["status"]["conditions"]
    assert (target["type"], target["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")
    ours.patch(f"{ours.pods}/worker", {"metadata": {"finalizers": None}})
    assert "drained" in kubectl("drain", f"n-{ours.namespace}", "--force", "--timeout=30s")


def test_a_job_is_made_from_a_cron_job(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=CRON_JOB)
    assert kubectl("create", "job", "--from=cronjob/nightly", "now") == "job.batch/now created\n"
    body = json.loads(kubectl("get", "job", "now", "-o", "json"))
    assert body["metadata"]["ownerReferences"][0]["name"] == "nightly"
    assert body["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}]


def test_wait_ends_with_the_condition(kubectl: Kubectl, ours: Api) -> None:
    kubectl("apply", "-f", "-", stdin=JOB)
    waited: list[str] = []
    waiter = threading.Thread(
        target=lambda: waited.append(kubectl("wait", "--for=condition=complete", "job/crunch", "--timeout=30s"))
    )
    waiter.start()
    start = "2026-01-01T00:00:00Z"
    met = [{"type": kind, "status": "True", "lastTransitionTime": start} for kind in ("SuccessCriteriaMet", "Complete")]
    status = {"conditions": met, "startTime": start, "completionTime": start, "succeeded": 1}
    assert ours.patch(f"{ours.jobs}/crunch/status", {"status": status}).code == 200
    waiter.join(40)
    assert waited == ["job.batch/crunch condition met\n"]


def test_logs_are_shown_and_followed(kubectl: Kubectl, ours: Api, embedded: Embedded) -> None:
    uid = ours.create(ours.pods, pod())["metadata"]["uid"]
    file = embedded.logs / f"{ours.namespace}_worker_{uid}" / "main" / "0.log"
    file.parent.mkdir(parents=True)
    file.write_text("2026-01-01T00:00:00.000000000Z stdout F hello\n")
    assert kubectl("logs", "worker") == "hello\n"
    assert ours.patch(f"{ours.pods}/worker/status", {"status": {"phase": "Succeeded"}}).code == 200
    assert kubectl("logs", "-f", "worker") == "hello\n"


def test_resources_and_fields_are_explained(kubectl: Kubectl, ours: Api) -> None:
    size = {"type": "integer", "description": "How big it is."}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": size}}}}
    ours.create(DEFINITIONS, definition("levers", schema))
    listed = kubectl("api-resources")
    assert re.search(r"^jobs +batch/v1 +true +Job$", listed, re.MULTILINE)
    assert re.search(r"^levers +lev +test.penstock.dev/v1 +true +Lever$", listed, re.MULTILINE)
    assert "parallelism" in kubectl("explain", "job.spec")
    explained = kubectl("explain", "cronjob.spec")
    assert all(field in explained for field in ("schedule\t", "timeZone\t", "jobTemplate\t", "GROUP:      batch"))
    assert "<[]Container>" in kubectl("explain", "cronjob.spec.jobTemplate.spec.template.spec.containers")
    assert "How big it is." in kubectl("explain", "lever.spec.size")


def test_a_custom_resource_is_applied_and_listed_with_its_columns(kubectl: Kubectl, ours: Api) -> None:
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    ours.create(DEFINITIONS, definition("cranks", additionalPrinterColumns=columns))
    text = "apiVersion: test.penstock.dev/v1\nkind: Crank\nmetadata: {name: c}\nspec: {size: %d}\n"
    assert kubectl("apply", "-f", "-", stdin=text % 3) == "crank.test.penstock.dev/c created\n"
    assert kubectl("apply", "-f", "-", stdin=text % 4) == "crank.test.penstock.dev/c configured\n"
    assert re.search(r"^NAME +SIZE\nc +4$", kubectl("get", "cranks"), re.MULTILINE)
    assert kubectl("get", "cra", "-o", "name") == "crank.test.penstock.dev/c\n"


def test_a_replaced_object_must_be_the_one_that_was_read(kubectl: Kubectl, ours: Api) -> None:
    made = ours.create(ours.jobs, job())
    ours.patch(f"{ours.jobs}/crunch", {"metadata": {"labels": {"a": "b"}}})
    output = kubectl("replace", "-f", "-", stdin=json.dumps(made), fails=True)
    assert "the object has been modified" in output


def test_what_pods_consume_is_shown(kubectl: Kubectl) -> None:
    """Written by the kubelet of the embedded cluster; a real one has a server of its own for it."""
    body = {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {"name": "busy"},
        "timestamp": "2026-03-01T12:00:00Z",
        "window": "5s",
        "containers": [{"name": "main", "usage": {"cpu": "250000000n", "memory": "2048Ki"}}],
    }
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    assert re.search(r"^busy +250m +2Mi *$", kubectl("top", "pods"), re.MULTILINE)
