"""The scenario of the tests of the roles: objects of every kind, and what makes a process do all that it may do."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from tests.support import kube, terminal
from tests.support.role_rig import PASSWORD, Running, direct
from tests.support.terminal import PATIENCE
from workers.api.kinds import VC_CRON_JOB

Body = dict[str, Any]


def until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> None:
    """Waits until the condition is true. It looks seldom: each look is a request to the API server."""
    terminal.until(condition, what, patience, pause=0.4)


def body(kind: str, api: str, name: str, **more: Any) -> Body:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}, **more}


def template(script: str = "true") -> Body:
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def vc_job(name: str, script: str = "true") -> Body:
    return body("Job", "batch.volcano.sh/v1alpha1", name, spec=vc_spec(script))


def vc_spec(script: str = "true") -> Body:
    return {"minAvailable": 1, "tasks": [{"name": "work", "replicas": 1, "template": template(script)}]}


def condition(found: Body, type_: str) -> str | None:
    """The status of a condition."""
    conditions = found.get("status", {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == type_), None)


def redis_trigger(running: Running, name: str) -> list[Body]:
    """A Secret with the server's password, and an authentication that refers to it."""
    with redis.Redis(port=running.source.port, password=PASSWORD) as link:
        link.rpush(name, "one", "two")
    reference = [{"parameter": "password", "name": name, "key": "password"}]
    return [
        body("Secret", "v1", name, stringData={"password": PASSWORD}),
        body("TriggerAuthentication", "keda.sh/v1alpha1", name, spec={"secretTargetRef": reference}),
    ]


def trigger(running: Running, name: str) -> Body:
    metadata = {"address": f"127.0.0.1:{running.source.port}", "listName": name, "listLength": "1"}
    return {"type": "redis", "metadata": metadata, "authenticationRef": {"name": name}}


def scaled_job(running: Running) -> Callable[[], bool]:
    spec = {"pollingInterval": 1, "maxReplicaCount": 1, "triggers": [trigger(running, "items")]}
    spec["jobTargetRef"] = {"template": template()}
    limit = {"apiVersion": "penstock.dev/v1alpha1", "kind": "ScalePolicy", "metadata": {"name": "all"}}
    limit["spec"] = {"maxJobs": 1}
    running.apply(*redis_trigger(running, "items"), limit, body("ScaledJob", "keda.sh/v1alpha1", "items", spec=spec))
    return lambda: any(
        condition(job, "Complete") == "True"
        for job in running.find("jobs.batch", **{"scaledjob.keda.sh/name": "items"})
    )


def scaled_object(running: Running) -> Callable[[], bool]:
    labels = {"app": "pool"}
    pool = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {**template(), "metadata": {"labels": labels}},
    }
    pool["template"]["spec"]["restartPolicy"] = "Always"
    spec = {"pollingInterval": 1, "scaleTargetRef": {"name": "pool"}, "triggers": [trigger(running, "pool")]}
    running.apply(
        *redis_trigger(running, "pool"),
        body("Deployment", "apps/v1", "pool", spec=pool),
        body("ScaledObject", "keda.sh/v1alpha1", "pool", spec=spec),
    )
    return lambda: running.read("deployments", "pool")["spec"]["replicas"] == 2


def _names(running: Running, resource: str) -> set[str]:
    return {one["metadata"]["name"] for one in running.find(resource)}


def scheduled_job(running: Running) -> Callable[[], bool]:
    # A slow machine makes one run or two before the suspension: without a history their Jobs are deleted all the same.
    spec = {"schedule": "* * * * * *", "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 0}
    spec["jobTemplate"] = {"spec": {"template": template()}}
    running.apply(body("ScheduledJob", "penstock.dev/v1alpha1", "ticks", spec=spec))
    until(lambda: "lastSuccessfulTime" in running.read("scheduledjobs", "ticks").get("status", {}), "a first run")
    running.patch("scheduledjobs", "ticks", {"metadata": {"annotations": {"penstock.dev/run.once": "{}"}}})

    def started() -> bool:
        remaining = running.read("scheduledjobs", "ticks")["metadata"].get("annotations", {})
        return "penstock.dev/run.once" not in remaining

    until(started, "the request is handled")
    # Its pods would take the machine from the others.
    running.patch("scheduledjobs", "ticks", {"spec": {"suspend": True}})
    return lambda: not any(name.startswith("ticks") for name in _names(running, "jobs.batch"))


def cron_job(running: Running) -> Callable[[], bool]:
    if not running.serves_cron_jobs():
        pytest.skip("CronJob in batch/v1 came with Kubernetes 1.21: NOT tested against this kube-apiserver")
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template()}}}
    running.apply(body("CronJob", "batch/v1", "minutes", spec=spec))
    return lambda: "lastSuccessfulTime" in running.read("cronjobs.batch", "minutes").get("status", {})


def job(running: Running) -> Callable[[], bool]:
    running.apply(body("Job", "batch/v1", "plain", spec={"template": template()}))
    return lambda: condition(running.read("jobs.batch", "plain"), "Complete") == "True"


def volcano_job(running: Running) -> Callable[[], bool]:
    running.apply(vc_job("gang"))
    return lambda: phase(running, "jobs.batch.volcano.sh", "gang") == "Completed"


def phase(running: Running, resource: str, name: str) -> str | None:
    found: str | None = running.read(resource, name).get("status", {}).get("state", {}).get("phase")
    return found


def queue(running: Running) -> Callable[[], bool]:
    running.apply(
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "own"}, "spec": {}}
    )
    until(lambda: running.read("queues", "own").get("status", {}).get("state") == "Open", "the queue is open")
    running.patch("queues", "own", {"spec": {"weight": 2}})
    # The webhook judges by its PodGroups, and refuses an open one.
    program = kube.assets() / "kubectl"
    words = [program, "--kubeconfig", running.config, "delete", "queue", "own"]
    return lambda: subprocess.run(words, capture_output=True).returncode == 1


def pod_group(running: Running) -> Callable[[], bool]:
    running.apply(body("PodGroup", "scheduling.volcano.sh/v1beta1", "alone", spec={"minMember": 1}))
    return lambda: running.read("podgroups", "alone").get("status", {}).get("phase") in ("Pending", "Inqueue")


def flow(running: Running) -> Callable[[], bool]:
    api = "flow.volcano.sh/v1alpha1"
    entries = [{"name": "first"}, {"name": "second", "dependsOn": {"targets": ["first"]}}]
    running.apply(
        *(body("JobTemplate", api, name, spec=vc_spec()) for name in ("first", "second")),
        body("JobFlow", api, "both", spec={"jobRetainPolicy": "retain", "flows": entries}),
    )
    return lambda: (
        phase(running, "jobflows", "both") == "Succeed"
        and bool(running.read("jobtemplates", "first")["status"]["jobDependsOnList"])
    )


def command(running: Running) -> Callable[[], bool]:
    running.apply(vc_job("long", "exec sleep 600"))
    until(lambda: phase(running, "jobs.batch.volcano.sh", "long") == "Running", "the Job runs")
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "long", "controller": True}
    target["uid"] = running.read("jobs.batch.volcano.sh", "long")["metadata"]["uid"]
    running.apply(body("Command", "bus.volcano.sh/v1alpha1", "abort", action="AbortJob", target=target))
    return lambda: phase(running, "jobs.batch.volcano.sh", "long") == "Aborted"


def volcano_cron_job(running: Running) -> Callable[[], bool]:
    missed = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=3)
    spec = {"schedule": f"{missed.minute} * * * *", "suspend": True, "jobTemplate": {"spec": vc_spec()}}
    spec["successfulJobsHistoryLimit"] = 0
    running.apply(body("CronJob", "batch.volcano.sh/v1alpha1", "hourly", spec=spec))
    # The last run was so long ago that one was missed.
    before = (missed - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    # A Job that somebody made from it is marked, and warned of.
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "name": "hourly", "controller": True}
    by_hand = vc_job("by-hand", "exec sleep 30")
    by_hand["metadata"]["ownerReferences"] = [
        {**owner, "uid": running.read("cronjobs.batch.volcano.sh", "hourly")["metadata"]["uid"]}
    ]
    running.apply(by_hand)
    path = VC_CRON_JOB.path("default", "hourly", "status")
    running.ask(path, {"status": {"lastScheduleTime": before}})
    running.patch("cronjobs.batch.volcano.sh", "hourly", {"spec": {"suspend": False}})
    return lambda: running.read("cronjobs.batch.volcano.sh", "hourly")["status"]["lastScheduleTime"] > before


def authentications(running: Running) -> Callable[[], bool]:
    """ScaledJobs whose triggers use every kind of credential, and measure the cluster itself."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    with redis.Redis(port=running.source.port, password=PASSWORD) as link:
        link.rpush("wide", "one")
    running.apply(
        {**account, "metadata": {"name": "reader", "namespace": "default"}},
        {**body("ConfigMap", "v1", "words", data={"word": PASSWORD, "number": "1"})},
        body(
            "TriggerAuthentication",
            "keda.sh/v1alpha1",
            "words",
            spec={
                "configMapTargetRef": [{"parameter": "password", "name": "words", "key": "word"}],
                "boundServiceAccountToken": [{"parameter": "token", "serviceAccountName": "reader"}],
            },
        ),
        {
            **body("ClusterTriggerAuthentication", "keda.sh/v1alpha1", "wide"),
            "spec": {"secretTargetRef": [{"parameter": "password", "name": "wide", "key": "password"}]},
            "metadata": {"name": "wide"},
        },
        {
            **body("Secret", "v1", "wide", stringData={"password": PASSWORD}),
            "metadata": {"name": "wide", "namespace": "penstock"},
        },
    )
    wide = {**trigger(running, "wide"), "authenticationRef": {"name": "wide", "kind": "ClusterTriggerAuthentication"}}
    # This API server may take an empty text for null: every object names an authentication.
    plain = trigger(running, "items")
    pods = {"type": "kubernetes-workload", "metadata": {"podSelector": "app=pool", "value": "1"}}
    url = "http://sums.default:8080/"
    sums = {"url": url, "valueLocation": "sum", "targetValue": "1", "aggregateFromKubeServiceEndpoints": "true"}
    triggers: dict[str, list[Body]] = {
        "words": [{**trigger(running, "words"), "authenticationRef": {"name": "words"}}],
        "wide": [wide],
        "counted": [pods, plain],
        "summed": [{"type": "metrics-api", "metadata": sums}, plain],
    }
    for name, some in triggers.items():
        spec: Body = {"pollingInterval": 1, "maxReplicaCount": 1, "triggers": some}
        spec["jobTargetRef"] = {"template": template()}
        spec["successfulJobsHistoryLimit"] = 0
        running.apply(body("ScaledJob", "keda.sh/v1alpha1", name, spec=spec))

    def done() -> bool:
        found = {name: running.read("scaledjobs", name) for name in triggers}
        listed = running.read("clustertriggerauthentications", "wide").get("status") or {}
        return "default/wide" in listed.get("scaledjobs", "") and all(
            condition(one, "Ready") == "True" for name, one in found.items() if name != "summed"
        )

    return done


def workloads(running: Running) -> Callable[[], bool]:
    """ScaledObjects of workloads whose variables hold the password, with an autoscaler to replace."""
    selector = {"matchLabels": {"app": "other"}}
    variables = {**template(), "metadata": {"labels": {"app": "other"}}}
    variables["spec"]["restartPolicy"] = "Always"
    variables["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": PASSWORD}]
    spec = {"replicas": 1, "selector": selector, "template": variables}
    metadata = {"address": f"127.0.0.1:{running.source.port}", "listName": "items", "passwordFromEnv": "PASSWORD"}
    with_env = {"type": "redis", "metadata": {**metadata, "listLength": "1"}}
    old = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other"}, "maxReplicas": 2}
    running.apply(
        body("ReplicaSet", "apps/v1", "other", spec=spec),
        body("StatefulSet", "apps/v1", "other", spec={**spec, "serviceName": "other"}),
        body("Deployment", "apps/v1", "other", spec=spec),
        body("HorizontalPodAutoscaler", "autoscaling/v1", "old", spec=old),
    )
    usage = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
    for kind in ("ReplicaSet", "StatefulSet", "Deployment"):
        target = {"apiVersion": "apps/v1", "kind": kind, "name": "other"}
        wanted: Body = {"pollingInterval": 1, "scaleTargetRef": target}
        wanted["triggers"] = [{**with_env, "metricType": "Value"}, usage, trigger(running, "pool")]
        one = body("ScaledObject", "keda.sh/v1alpha1", kind.lower(), spec=wanted)
        if kind == "ReplicaSet":
            one["metadata"]["annotations"] = {"scaledobject.keda.sh/transfer-hpa-ownership": "true"}
            wanted["advanced"] = {"horizontalPodAutoscalerConfig": {"name": "old"}}
        running.apply(one)
    return lambda: not running.find("horizontalpodautoscalers")


def adopted_pods(running: Running) -> Callable[[], bool]:
    """A Job that adopts a pod, and one that is over its deadline."""
    labels = {"of": "adopter"}
    adopting = {"manualSelector": True, "selector": {"matchLabels": labels}, "template": template("exec sleep 60")}
    adopting["template"]["metadata"] = {"labels": labels}
    orphan = body("Pod", "v1", "orphan", **template("exec sleep 60"))
    orphan["metadata"]["labels"] = labels
    running.apply(orphan, body("Job", "batch/v1", "adopter", spec=adopting))
    late = {"activeDeadlineSeconds": 1, "template": template("exec sleep 60")}
    running.apply(body("Job", "batch/v1", "late", spec=late))
    return lambda: (
        bool(running.read("pods", "orphan")["metadata"].get("ownerReferences"))
        and condition(running.read("jobs.batch", "late"), "Failed") == "True"
    )


def pushes(running: Running) -> Callable[[], bool]:
    """Events that senders with a service account's token, or a token in a Secret, push to the gateway."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sender", "namespace": "default"}}
    push = {"auth": [{"serviceAccount": {"name": "sender"}}, {"bearer": {"name": "pushers", "key": "ci"}}]}
    secret = "a token of sixteen bytes"
    spec = {"push": push, "jobTemplate": {"spec": {"template": template()}}}
    running.apply(
        account,
        body("Secret", "v1", "pushers", stringData={"ci": secret}),
        body("EventJob", "penstock.dev/v1alpha1", "orders", spec=spec),
    )
    # Of a push trigger on another server the gateway reads the authentication.
    reference = [{"parameter": "password", "name": "words", "key": "word"}]
    running.apply(
        body("ConfigMap", "v1", "words", data={"word": PASSWORD, "number": "1"}),
        body("TriggerAuthentication", "keda.sh/v1alpha1", "plain", spec={"configMapTargetRef": reference}),
    )
    for name, kind in (("plain", "TriggerAuthentication"), ("wide", "ClusterTriggerAuthentication")):
        elsewhere = {"address": f"127.0.0.1:{running.source.port}"}
        remote = {"type": "push", "metadata": elsewhere, "authenticationRef": {"name": name, "kind": kind}}
        wanted = {"triggers": [remote], "jobTargetRef": {"template": template()}, "push": {"anonymous": True}}
        wanted["maxReplicaCount"] = 1
        running.apply(body("ScaledJob", "keda.sh/v1alpha1", f"remote-{name}", spec=wanted))
        until(lambda name=name: ask(running, f"/events/default/remote-{name}", data=b"{}") != 401, name)  # type: ignore[misc]
    tokens = (running.token("sender", "default", "penstock"), secret)
    for token in tokens:
        until(lambda token=token: ask(running, "/events/default/orders", token, b"{}") < 300, "the push is taken")  # type: ignore[misc]
    return lambda: len(running.find("jobs.batch", **{"penstock.dev/eventjob": "orders"})) > 0


def page(running: Running) -> Callable[[], bool]:
    """What the page shows of a pod and its Job."""
    running.apply(body("Pod", "v1", "shown", **template("echo shown; exec sleep 60")))
    until(lambda: running.read("pods", "shown")["status"].get("phase") == "Running", "the pod runs")
    paths = ("/objects/scaledjobs.keda.sh/default/items", "/pods/default/shown/log", "/pods/default/shown/log?follow=1")
    # The API server reaches no kubelet for the logs here; it was allowed to try.
    return lambda: not {401, 403, 404} & {ask(running, f"/api/v1{path}") for path in paths}


def ask(running: Running, path: str, token: str = "", data: bytes | None = None) -> int:
    """The status of an answer of the gateway."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(running.gateway + path, data=data, headers=headers)
    try:
        with direct().open(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)


def plugins(running: Running) -> Callable[[], bool]:
    """A Volcano Job whose plugins make objects, with a claim of a volume, that grows and is then ended."""
    spec = vc_spec("exec sleep 600")
    spec["plugins"] = {"svc": [], "ssh": []}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    spec["volumes"] = [{"mountPath": "/data", "volumeClaim": claim}]
    running.apply(body("Job", "batch.volcano.sh/v1alpha1", "plugged", spec=spec))
    until(lambda: phase(running, "jobs.batch.volcano.sh", "plugged") == "Running", "the Job runs")
    grown = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}]
    running.kubectl("patch", "jobs.batch.volcano.sh", "plugged", "--type=json", "-p", json.dumps(grown))
    until(lambda: len(running.find("pods", **{"volcano.sh/job-name": "plugged"})) == 2, "a second pod")
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "plugged", "controller": True}
    target["uid"] = running.read("jobs.batch.volcano.sh", "plugged")["metadata"]["uid"]
    running.apply(body("Command", "bus.volcano.sh/v1alpha1", "end", action="TerminateJob", target=target))
    return lambda: phase(running, "jobs.batch.volcano.sh", "plugged") == "Terminated"


def gang_of_pods(running: Running) -> Callable[[], bool]:
    """Pods of a gang scheduler: one without an owner, one of a ReplicaSet."""
    bare = body("Pod", "v1", "bare", **template("exec sleep 60"))
    bare["spec"]["schedulerName"] = "volcano"
    until(lambda: running.find("replicasets"), "the ReplicaSet of another part")
    owner = running.read("replicasets", "other")["metadata"]
    owned = body("Pod", "v1", "owned", **template("exec sleep 60"))
    owned["spec"]["schedulerName"] = "volcano"
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": owner["uid"]}
    owned["metadata"]["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    running.apply(bare, owned)
    running.patch("replicasets", "other", {"spec": {"replicas": 0}})
    return lambda: any(one.get("status", {}).get("phase") == "Running" for one in running.find("podgroups"))


def scheduled_flow(running: Running) -> Callable[[], bool]:
    """A flow with a schedule, whose old flows go; and one that is cancelled."""
    api = "flow.volcano.sh/v1alpha1"
    entries = [{"name": "long"}]
    running.apply(
        body("JobTemplate", api, "long", spec=vc_spec("exec sleep 600")),
        body("JobFlow", api, "stopped", spec={"flows": entries}),
        body("JobFlow", api, "timed", spec={"flows": entries, "schedule": "@every 10s", "concurrencyPolicy": "Forbid"}),
        body(
            "JobFlow",
            api,
            "short",
            spec={"flows": [{"name": "first"}], "ttlSecondsAfterFinished": 0, "jobRetainPolicy": "delete"},
        ),
    )
    until(lambda: phase(running, "jobflows", "stopped") == "Running", "the flow runs")
    running.patch("jobflows", "stopped", {"spec": {"cancel": True}})
    return lambda: phase(running, "jobflows", "stopped") == "Terminated" and "short" not in _names(running, "jobflows")


KINDS = (
    scaled_job,
    scaled_object,
    scheduled_job,
    cron_job,
    job,
    volcano_job,
    queue,
    pod_group,
    flow,
    command,
    volcano_cron_job,
    authentications,
    workloads,
    adopted_pods,
    pushes,
    page,
    plugins,
    gang_of_pods,
    scheduled_flow,
)
