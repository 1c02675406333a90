"""`penstock check`: verdicts, their fields, and what is printed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.tables import for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import KINDS, FakeCluster
from workers.api.kinds import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    CRON_JOB,
    DEPLOYMENT,
    JOB_FLOW,
    JOB_TEMPLATE,
    QUEUE,
    SCALED_OBJECT,
    SECRET,
    TRIGGER_AUTHENTICATION,
    VC_CRON_JOB,
    Kind,
)
from workers.errors import Forbidden

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
REDIS = {"type": "redis", "metadata": {"address": "redis:6379", "listName": "work", "listLength": "5"}}


def container(**fields: Any) -> dict[str, Any]:
    """A template whose container has these fields."""
    return {"spec": {**TEMPLATE["spec"], "containers": [{"name": "main", "image": "busybox", **fields}]}}


UNFIT = container(name="A_b", volumeMounts=[{"name": "v", "mountPath": "/v"}])


def manifest(api_version: str, kind: str, name: str = "it", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def scaled_job(*triggers: Any, **spec: Any) -> dict[str, Any]:
    spec = {"jobTargetRef": {"template": TEMPLATE}, "triggers": [*triggers] or [REDIS], **spec}
    return manifest("keda.sh/v1alpha1", "ScaledJob", spec=spec)


def scaled_object(*triggers: Any, **spec: Any) -> dict[str, Any]:
    spec = {"scaleTargetRef": {"name": "web"}, "triggers": [*triggers] or [REDIS], **spec}
    return manifest("keda.sh/v1alpha1", "ScaledObject", spec=spec)


def cron_job(schedule: str = "0 2 * * *", template: Any = TEMPLATE, **spec: Any) -> dict[str, Any]:
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}, **spec}
    return manifest("batch/v1", "CronJob", spec=spec)


def vc_job(queue: str = "default", **spec: Any) -> dict[str, Any]:
    tasks = [{"name": "main", "replicas": 2, "template": TEMPLATE}]
    spec = {"minAvailable": 2, "queue": queue, "schedulerName": "volcano", "tasks": tasks, **spec}
    return manifest("batch.volcano.sh/v1alpha1", "Job", spec=spec)


def queue(**spec: Any) -> dict[str, Any]:
    return manifest("scheduling.volcano.sh/v1beta1", "Queue", spec=spec)


MISSPELT = {"spec": {**TEMPLATE["spec"], "imagePullPolcy": "Never"}}
BY_VALUE = {"formula": "a * 2", "target": "3", "metricType": "Value"}
WHOLE = {"spec": {"containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]}}


def template_of(job: dict[str, Any]) -> dict[str, Any]:
    return manifest("flow.volcano.sh/v1alpha1", "JobTemplate", spec=job["spec"])


def cron_of(job: dict[str, Any]) -> dict[str, Any]:
    spec = {"schedule": "0 2 * * *", "jobTemplate": {"spec": job["spec"]}}
    return manifest("batch.volcano.sh/v1alpha1", "CronJob", spec=spec)


def pod_group(**spec: Any) -> dict[str, Any]:
    return manifest("scheduling.volcano.sh/v1beta1", "PodGroup", spec={"minMember": 2, "queue": "default", **spec})


RABBIT = {"queueName": "q", "mode": "QueueLength", "value": "5", "host": "http://user:secret@rabbit:15672/"}
EXTERNAL = {"serverAddress": "http://prometheus:9090", "query": "up", "threshold": "3"}


@for_each(

        (scaled_job(), "same", []),
        (scaled_job(nonsense=1), "not supported", ["spec.nonsense"]),
        (scaled_job({"type": "aws-sqs-queue", "metadata": {}}), "not supported", ["spec.triggers[0].type"]),
        (scaled_job({"type": "redis", "metadata": {"listName": "x"}}), "not supported", ["spec.triggers"]),
        (
            scaled_job({"type": "rabbitmq", "metadata": {**RABBIT, "operation": "avg"}}),
            "differs",
            ["spec.triggers[0].metadata.operation"],
        ),
        (scaled_job({**REDIS, "metadata": {**REDIS["metadata"], "mine": "x"}}), "differs", ["spec.triggers"]),
        (scaled_job({**REDIS, "authenticationRef": {"name": "gone"}}), "unknown", ["spec.triggers"]),
        (
            scaled_job(minReplicaCount=2, scalingStrategy={"strategy": "custom"}),
            "differs",
            ["spec.scalingStrategy.strategy"],
        ),
        (scaled_job(pollingInterval="5"), "not supported", ["spec.pollingInterval"]),
        (scaled_object(), "differs", ["spec.triggers[0]"]),
        (scaled_object(pollingInterval=15), "same", []),
        (scaled_object({**REDIS, "useCachedMetrics": True}), "same", []),
        (
            scaled_object({"type": "prometheus", "metricType": "Value", "metadata": EXTERNAL}, pollingInterval=5),
            "differs",
            ["spec.triggers[0].metricType"],
        ),
        (
            scaled_object(pollingInterval=5, fallback={"failureThreshold": 3, "replicas": 0}),
            "differs",
            ["spec.fallback.replicas"],
        ),
        (
            scaled_object({**REDIS, "name": "a"}, pollingInterval=5, advanced={"scalingModifiers": BY_VALUE}),
            "differs",
            ["spec.advanced.scalingModifiers.metricType"],
        ),
        (cron_job(), "same", []),
        (cron_job("0 2 * *"), "not supported", ["spec.schedule"]),
        (cron_job("CRON_TZ=UTC 0 2 * * *"), "not supported", ["spec.schedule"]),
        (cron_job(startingDeadlineSeconds=0), "differs", ["spec.startingDeadlineSeconds"]),
        (cron_job("@every 1h", startingDeadlineSeconds=3599), "differs", ["spec.startingDeadlineSeconds"]),
        (cron_job("@every 1h", startingDeadlineSeconds=3600), "same", []),
        (vc_job(), "same", []),
        (vc_job("elsewhere"), "unknown", [""]),
        (vc_job(plugins={"unheard": []}), "not supported", ["spec.plugins[unheard]"]),
        (
            vc_job(networkTopology={"mode": "hard", "highestTierAllowed": 2}),
            "not supported",
            ["spec.networkTopology"],
        ),
        (queue(weight=1, reclaimable=False), "same", []),
        (queue(weight=1, reclaimable=True), "differs", ["spec.reclaimable"]),
        # Volcano's webhook stores true.
        (queue(weight=1), "differs", ["spec.reclaimable"]),
        (vc_job(runningEstimate="1h"), "not supported", ["spec.runningEstimate"]),
        (
            vc_job(tasks=[{"name": "main", "replicas": 2, "topologyPolicy": "single-numa-node", "template": WHOLE}]),
            "not supported",
            ["spec.tasks[0].topologyPolicy"],
        ),
        (template_of(vc_job()), "same", []),
        (
            template_of(vc_job(networkTopology={"mode": "hard", "highestTierAllowed": 2})),
            "not supported",
            ["spec.networkTopology"],
        ),
        (
            cron_of(vc_job(networkTopology={"mode": "hard", "highestTierAllowed": 2}, runningEstimate="1h")),
            "not supported",
            ["spec.jobTemplate.spec.networkTopology", "spec.jobTemplate.spec.runningEstimate"],
        ),
        (pod_group(minResources={"cpu": "1"}), "same", []),
        (
            pod_group(minResources={"cpu": "1"}, networkTopology={"mode": "hard", "highestTierAllowed": 2}),
            "not supported",
            ["spec.networkTopology"],
        ),
        (
            queue(
                reclaimable=False,
                affinity={"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["gpu"]}},
            ),
            "not supported",
            ["spec.affinity"],
        ),
        (queue(reclaimable=False, extendClusters=[{"name": "other"}]), "not supported", ["spec.extendClusters"]),
        (
            scaled_job(jobTargetRef={"template": container(image=5)}),
            "not supported",
            ["spec.jobTargetRef"],
        ),
        (
            scaled_job(jobTargetRef={"template": UNFIT}),
            "not supported",
            [
                "spec.jobTargetRef.template.spec.containers[0].name",
                "spec.jobTargetRef.template.spec.containers[0].volumeMounts[0].name",
            ],
        ),
        (
            scaled_job(jobTargetRef={"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}}),
            "not supported",
            ["spec.jobTargetRef.template.spec.restartPolicy"],
        ),
        (scaled_job(jobTargetRef={"template": {"spec": {"containers": TEMPLATE["spec"]["containers"]}}}), "same", []),
        (
            vc_job(tasks=[{"name": "main", "replicas": 2, "template": container(name="A_b")}]),
            "not supported",
            ["spec.tasks[0].template.spec.containers[0].name"],
        ),
        (
            cron_of(vc_job(tasks=[{"name": "main", "replicas": 2, "template": container(image=5)}])),
            "not supported",
            ["spec.jobTemplate.spec.tasks[0].template"],
        ),
        (
            template_of(vc_job(tasks=[{"name": "main", "replicas": 2, "template": {"spec": {"containers": []}}}])),
            "not supported",
            ["spec.tasks[0].template.spec.containers"],
        ),
        (
            scaled_job(jobTargetRef={"backofLimit": 1, "template": MISSPELT}),
            "not supported",
            ["spec.jobTargetRef.backofLimit", "spec.jobTargetRef.template.spec.imagePullPolcy"],
        ),
        ({**cron_job(), "apiVersion": "batch/v1beta1"}, "not supported", ["apiVersion"]),
        (
            cron_job(template=MISSPELT),
            "not supported",
            ["spec.jobTemplate.spec.template.spec.imagePullPolcy"],
        ),
        (
            vc_job(tasks=[{"name": "main", "replicas": 2, "template": MISSPELT}]),
            "not supported",
            ["spec.tasks[0].template.spec.imagePullPolcy"],
        ),

)  # fmt: skip
def test_an_object_is_judged_by_its_content(
    body: dict[str, Any], verdict: str, fields: list[str], penstock: Type, tmp_path: Path
) -> None:
    file = tmp_path / "object.yaml"
    file.write_text(yaml.safe_dump(body))
    printed = penstock("check", "-f", str(file), "-o", "json")
    [judged] = json.loads(printed.out)
    assert (judged["verdict"], [point.get("field", "") for point in judged["points"]]) == (verdict, fields)
    assert printed.code == (verdict == "not supported")


@for_each(

        (scaled_job(jobTargetRef=7), "spec.jobTargetRef"),
        (scaled_job(triggers={}), "spec.triggers"),
        (scaled_job({"type": ["redis"], "metadata": {}}), "spec.triggers[0].type"),
        (scaled_job({"type": "redis", "metadata": [7]}), "spec.triggers[0].metadata"),
        (scaled_object(advanced={"scalingModifiers": "x"}), "spec.advanced.scalingModifiers"),
        (scaled_object(fallback=7), "spec.fallback"),
        (scaled_object(scaleTargetRef="web"), "spec.scaleTargetRef"),
        (manifest("batch/v1", "CronJob"), "spec"),
        (vc_job(["default"]), "spec.queue"),
        (queue(parent={}), "spec.parent"),
        (queue(capability=7), "spec.capability"),
        (manifest("batch.volcano.sh/v1alpha1", "CronJob", spec={"jobTemplate": 5}), "spec.jobTemplate"),
        (manifest("keda.sh/v1alpha1", "ScaledJob", spec=7), "spec"),

)  # fmt: skip
def test_a_value_of_another_form_is_named(body: dict[str, Any], field: str, penstock: Type, tmp_path: Path) -> None:
    file = tmp_path / "object.yaml"
    file.write_text(yaml.safe_dump(body))
    [judged] = json.loads(penstock("check", "-f", str(file), "-o", "json").out)
    assert judged["verdict"] == "not supported"
    assert any(point.get("field", "").startswith(field) for point in judged["points"])


def test_a_flag_that_keeps_the_other_behaviour_is_named(penstock: Type, tmp_path: Path) -> None:
    file = tmp_path / "object.yaml"
    file.write_text(yaml.safe_dump(scaled_job({**REDIS, "metadata": {**REDIS["metadata"], "mine": "x"}})))
    assert "    PENSTOCK_KEDA_QUIRKS=unknown-parameters keeps KEDA's way" in penstock("check", "-f", str(file)).out


@for_each(
    ("ready-pods-only", {"type": "prometheus", "metricType": "Value", "metadata": EXTERNAL}, {}),
    ("zero-fallback-activates", REDIS, {"fallback": {"failureThreshold": 3, "replicas": 0}}),
)
def test_a_flag_that_is_set_leaves_no_difference(
    flag: str, trigger: Any, spec: Any, penstock: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "object.yaml"
    file.write_text(yaml.safe_dump(scaled_object(trigger, pollingInterval=5, **spec)))
    assert "1 differs" in penstock("check", "-f", str(file)).out
    monkeypatch.setenv("PENSTOCK_KEDA_QUIRKS", flag)
    assert "scaledobjects.keda.sh default/it: same" in penstock("check", "-f", str(file)).out


@for_each(("false", "keeps its pods", True), ("true", "whole gangs of such a queue back out", False))
def test_what_a_queue_does_above_its_share_follows_the_setting(
    setting: str, here: str, advised: bool, penstock: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "object.yaml"
    file.write_text(yaml.safe_dump(queue(weight=1)))
    monkeypatch.setenv("PENSTOCK_GANG_RECLAIM", setting)
    printed = penstock("check", "-f", str(file)).out
    assert here in printed
    assert ("PENSTOCK_GANG_RECLAIM=true" in printed) == advised


@for_each(1, 2)
def test_the_number_of_objects_is_told_in_words_that_fit(number: int, penstock: Type, tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    jobs = [scaled_job() | {"metadata": {"name": f"it-{index}"}} for index in range(number)]
    file.write_text(yaml.safe_dump_all(jobs))
    assert f"{number} object{'s' * (number > 1)}: {number} same" in penstock("check", "-f", str(file)).out


def test_nothing_to_judge_is_told_in_one_line(penstock: Type, tmp_path: Path) -> None:
    file = tmp_path / "secret.yaml"
    file.write_text(yaml.safe_dump(manifest("v1", "Secret", "redis")))
    assert penstock("check", "-f", str(file)).lines[0] == "0 objects: 0 same, 0 differs, 0 unknown, 0 not supported"


def test_credentials_among_the_manifests_are_used(penstock: Type, tmp_path: Path) -> None:
    login = {"secretTargetRef": [{"parameter": "password", "name": "redis", "key": "password"}]}
    secret = manifest("v1", "Secret", "redis", stringData={"password": "hidden"})
    bodies = [
        scaled_job({**REDIS, "authenticationRef": {"name": "login"}}),
        manifest("keda.sh/v1alpha1", "TriggerAuthentication", "login", spec=login),
        secret,
    ]
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    printed = penstock("check", "-f", str(file))
    assert "2 objects: 2 same, 0 differs, 0 unknown, 0 not supported" in printed.lines
    assert "not judged, for they are of other kinds: 1 Secret" in printed.lines
    assert "hidden" not in printed.out
    file.write_text(yaml.safe_dump_all([*bodies[:2]]))
    assert "Secret default/redis is not among the manifests" in penstock("check", "-f", str(file)).out


def test_files_beside_the_manifests_end_no_check_and_are_named(penstock: Type, tmp_path: Path) -> None:
    made = manifest("batch/v1", "Job", spec={}) | {"metadata": {"generateName": "it-"}}
    for name, text in (
        ("job.yaml", yaml.safe_dump(scaled_job())),
        ("kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"),
        ("list.yaml", yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [made, cron_job()]})),
        ("template.yaml", "kind: {{ .Values.kind }}\n"),
        ("values.yaml", "replicas: 2\n"),
    ):
        (tmp_path / name).write_text(text)
    printed = penstock("check", "-f", str(tmp_path), "-o", "json")
    assert {(each["kind"], each["verdict"]) for each in json.loads(printed.out)} == {
        ("ScaledJob", "same"),
        ("CronJob", "same"),
    }
    assert printed.code == 0
    for name in ("kustomization.yaml: Kustomization", "list.yaml, items[0]", "template.yaml, line 1", "values.yaml"):
        assert f"not judged: {tmp_path}/{name}" in printed.err
    # A misspelt path, or a folder without any object, is still an error.
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "values.yaml").write_text("replicas: 2\n")
    assert penstock("check", "-f", str(tmp_path / "empty")).code != 0


def test_two_scaled_objects_of_one_target_are_told(penstock: Type, tmp_path: Path) -> None:
    second = {**scaled_object(pollingInterval=5), "metadata": {"name": "other"}}
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all([scaled_object(pollingInterval=5), second]))
    printed = penstock("check", "-f", str(file))
    assert "not supported: spec.scaleTargetRef: the target is scaled by ScaledObject other already" in printed.lines


def test_what_stays_the_same_is_listed_beside_what_does_not(penstock: Type, tmp_path: Path) -> None:
    file = tmp_path / "object.yaml"
    file.write_text(yaml.safe_dump(cron_job(startingDeadlineSeconds=0, suspend=True)))
    assert "same: spec.jobTemplate, spec.schedule, spec.suspend" in penstock("check", "-f", str(file)).lines


def test_a_kind_of_the_same_name_is_told_with_its_group(penstock: Type, tmp_path: Path) -> None:
    file = tmp_path / "object.yaml"
    file.write_text(yaml.safe_dump({**scaled_object(), "apiVersion": "keda.k8s.io/v1alpha1"}))
    told = "not judged, for they are of other kinds: 1 ScaledObject (keda.k8s.io/v1alpha1)"
    assert told in penstock("check", "-f", str(file)).lines


def test_of_an_object_that_cannot_be_read_nothing_is_the_same(penstock: Type, tmp_path: Path) -> None:
    file = tmp_path / "object.yaml"
    file.write_text(yaml.safe_dump(cron_job(suspend="false")))
    printed = penstock("check", "-f", str(file))
    assert printed.code == 1
    assert "CronJobSpec.spec.suspend of type bool" in printed.out
    assert "same: " not in printed.out


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> FakeCluster:
    cluster.kinds = [
        *KINDS,
        *(SCALED_OBJECT, TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION, DEPLOYMENT, SECRET),
        *(VC_CRON_JOB, JOB_FLOW, JOB_TEMPLATE, QUEUE),
    ]
    return cluster


def test_a_cluster_is_judged_as_it_is_without_what_servers_filled_in(penstock: Type, live: FakeCluster) -> None:
    body = scaled_object(pollingInterval=5)
    live.add(SCALED_OBJECT, "it", spec=body["spec"], status={"hpaName": "keda-hpa-it"})
    live.add(DEPLOYMENT, "keda-operator", "keda", spec={"replicas": 1})
    printed = penstock("check", "--all-namespaces")
    assert printed.lines[0] == "scaledobjects.keda.sh default/it: same"
    assert any("KEDA runs there (Deployment keda/keda-operator)" in line for line in printed.lines)
    assert {method for method, _ in live.calls} == {"GET"}


def forbidden(kind: Kind) -> Forbidden:
    message = f'{kind.plural} is forbidden: User "me" cannot list it'
    return Forbidden(f"GET {kind.path()}: 403: {message}", status=403, body={"message": message})


def test_a_cluster_that_may_not_be_listed_is_an_error(penstock: Type, live: FakeCluster) -> None:
    live.refused = {kind.path(): forbidden(kind) for kind in live.kinds}
    printed = penstock("check", "-A")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith("penstock: nothing can be judged, for no kind may be listed: scaledjobs is forbidden")


@for_each("", "json", "yaml")
def test_a_kind_that_may_not_be_listed_is_told_in_every_form(form: str, penstock: Type, live: FakeCluster) -> None:
    live.refused = {CRON_JOB.path(): forbidden(CRON_JOB)}
    live.add(DEPLOYMENT, "keda-operator", "keda", spec={"replicas": 1})
    printed = penstock("check", "-A", *(["-o", form] if form else []))
    assert printed.code == 0
    told = printed.err if form else printed.out
    assert 'cronjobs.batch could not be listed: cronjobs is forbidden: User "me" cannot list it' in told
    assert "KEDA runs there" in told
    assert json.loads(printed.out) == [] if form == "json" else True
