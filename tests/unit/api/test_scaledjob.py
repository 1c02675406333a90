"""The typed ScaledJob: what is accepted, what is refused and how it is said."""

import pytest

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import scaled_job
from workers.api.keda import scaledjob
from workers.errors import UserError

TRIGGER = {"type": "redis", "metadata": {"listName": "work"}}


def pod(**template):
    """The field of a spec with this pod template."""
    return {"jobTargetRef": {"template": template}}


def container(**fields):
    """The field of a spec with one container."""
    return pod(spec={"containers": [{"name": "main", **fields}]})


def value_from(**source):
    """The field of a spec with one variable that is set from elsewhere."""
    return container(env=[{"name": "A", "valueFrom": source}])


def test_every_field_of_keda_is_read():
    target = {"template": {"spec": {}}, "backoffLimit": 2}
    body = scaled_job(
        jobTargetRef=target,
        pollingInterval=5,
        minReplicaCount=1,
        maxReplicaCount=9,
        successfulJobsHistoryLimit=0,
        failedJobsHistoryLimit=3,
        envSourceContainerName="main",
        rollout={"strategy": "gradual", "propagationPolicy": "foreground"},
        rolloutStrategy="immediate",
        scalingStrategy={
            "strategy": "custom",
            "customScalingQueueLengthDeduction": -1,
            "customScalingRunningJobPercentage": "0.5",
            "pendingPodConditions": ["Ready"],
            "multipleScalersCalculation": "sum",
        },
        triggers=[{**TRIGGER, "name": "a", "authenticationRef": {"name": "x", "kind": "y"}, "useCachedMetrics": True}],
    )
    spec = scaledjob.parse(body).spec
    assert spec.job_target_ref == target
    assert (spec.interval, spec.min_replica_count, spec.max_replica_count) == (5, 1, 9)
    assert (spec.successful_jobs_history_limit, spec.failed_jobs_history_limit) == (0, 3)
    assert spec.env_source_container_name == "main"
    assert (spec.rollout.strategy, spec.rollout.propagation_policy, spec.rollout_strategy) == (
        "gradual",
        "foreground",
        "immediate",
    )
    assert spec.strategy.strategy == "custom"
    assert spec.strategy.custom_scaling_queue_length_deduction == -1
    assert spec.strategy.custom_scaling_running_job_percentage == "0.5"
    assert spec.strategy.pending_pod_conditions == ("Ready",)
    assert spec.strategy.multiple_scalers_calculation == "sum"
    assert spec.triggers[0].authentication_ref.name == "x"
    assert spec.triggers[0].use_cached_metrics


def test_a_short_manifest_has_kedas_defaults():
    spec = scaledjob.parse(scaled_job()).spec
    assert spec.interval == 30
    assert spec.strategy.strategy is None
    assert spec.min_replica_count is None


@cases(
    ("an unknown field", {}, {"unknown": {"deep": 1}}),
    ("an unknown field of a trigger", {}, {"triggers": [{**TRIGGER, "unknown": 1}]}),
    ("null is not set", {}, {"minReplicaCount": None, "rollout": None, "scalingStrategy": None}),
    ("null metadata", {"labels": None, "annotations": None, "finalizers": None}, {}),
    ("triggers without names", {}, {"triggers": [TRIGGER, TRIGGER]}),
    ("a variable without a value", {}, container(env=[{"name": "A"}, {"name": "B", "value": None}])),
    ("a variable of the pod", {}, value_from(fieldRef={"fieldPath": "metadata.name"})),
    ("a ConfigMap without a name", {}, value_from(configMapKeyRef={"key": "k", "optional": True})),
    ("a whole ConfigMap", {}, container(envFrom=[{"configMapRef": {"name": "c"}, "prefix": None}])),
    ("null in a pod template", {}, pod(metadata={"labels": None}, spec={"containers": None})),
    ("a null environment", {}, container(env=None, envFrom=None)),
    ("useCachedMetrics switched off", {}, {"triggers": [{**TRIGGER, "type": "cpu", "useCachedMetrics": False}]}),
)
def test_what_keda_accepts_is_accepted(metadata, spec):
    assert scaledjob.parse(scaled_job(metadata=metadata, **spec)).metadata.name == "work"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"jobTargetRef": {}}, "spec.jobTargetRef.template: is required"),
        ({"jobTargetRef": {"template": {"spec": ["a"]}}}, "spec.jobTargetRef.template.spec: must be an object"),
        ({"jobTargetRef": {"template": {"metadata": 1}}}, "spec.jobTargetRef.template.metadata: must be an object"),
        ({"jobTargetRef": None}, "spec.jobTargetRef: "),
        (pod(metadata={"labels": ["a"]}), "spec.jobTargetRef.template.metadata.labels: must be an object"),
        (pod(metadata={"annotations": {"a": 1}}), "spec.jobTargetRef.template.metadata.annotations.a: must be a text"),
        (pod(spec={"containers": "x"}), "spec.jobTargetRef.template.spec.containers: must be a list"),
        (pod(spec={"containers": {"name": "m"}}), "spec.jobTargetRef.template.spec.containers: must be a list"),
        (pod(spec={"containers": ["x"]}), "spec.jobTargetRef.template.spec.containers[0]: must be an object"),
        (pod(spec={"initContainers": [None]}), "spec.jobTargetRef.template.spec.initContainers[0]: must be an obj"),
        (container(env={"A": "1"}), "template.spec.containers[0].env: must be a list"),
        (container(env=["A"]), "template.spec.containers[0].env[0]: must be an object"),
        (container(env=[{"value": "x"}]), "template.spec.containers[0].env[0].name: is required"),
        (
            container(env=[{"name": "A"}, {"name": "B", "value": 5}]),
            "containers[0].env[1].value: must be a text",
        ),
        (container(env=[{"name": "A", "valueFrom": "x"}]), "containers[0].env[0].valueFrom: must be an object"),
        (value_from(configMapKeyRef={"name": "c"}), "env[0].valueFrom.configMapKeyRef.key: is required"),
        (value_from(secretKeyRef={"name": 1, "key": "k"}), "env[0].valueFrom.secretKeyRef.name: must be a text"),
        (value_from(secretKeyRef="s"), "env[0].valueFrom.secretKeyRef: must be an object"),
        (container(envFrom=["x"]), "template.spec.containers[0].envFrom[0]: must be an object"),
        (container(envFrom=[{"prefix": 1}]), "template.spec.containers[0].envFrom[0].prefix: must be a text"),
        (container(envFrom=[{"secretRef": "s"}]), "containers[0].envFrom[0].secretRef: must be an object"),
        ({"triggers": []}, "spec.triggers: "),
        ({"triggers": None}, "spec.triggers: "),
        ({"triggers": [{"metadata": {}}]}, "spec.triggers[0].type: "),
        ({"triggers": [{"type": "", "metadata": {}}]}, "spec.triggers[0].type: "),
        ({"triggers": [{"type": "redis"}]}, "spec.triggers[0].metadata: "),
        ({"triggers": [{"type": "redis", "metadata": {"listLength": 5}}]}, "spec.triggers[0].metadata.listLength: "),
        ({"triggers": [{**TRIGGER, "name": "a"}] * 2}, "spec.triggers[1].name: 'a' is used"),
        ({"triggers": [{**TRIGGER, "metricType": "Value"}]}, "spec.triggers[0].metricType: "),
        ({"triggers": [{**TRIGGER, "type": "cron", "useCachedMetrics": True}]}, "[0].useCachedMetrics: "),
        ({"triggers": [{**TRIGGER, "authenticationRef": {}}]}, "spec.triggers[0].authenticationRef.name: "),
        ({"pollingInterval": 0}, "spec.pollingInterval: "),
        ({"pollingInterval": "30"}, "spec.pollingInterval: "),
        ({"minReplicaCount": -1}, "spec.minReplicaCount: "),
        ({"maxReplicaCount": 0}, "spec.maxReplicaCount: "),
        ({"maxReplicaCount": True}, "spec.maxReplicaCount: "),
        ({"successfulJobsHistoryLimit": -1}, "spec.successfulJobsHistoryLimit: "),
        ({"failedJobsHistoryLimit": -1}, "spec.failedJobsHistoryLimit: "),
        *(
            ({field: 2**31}, f"spec.{field}: must be less than or equal to 2147483647")
            for field in (
                "pollingInterval",
                "minReplicaCount",
                "maxReplicaCount",
                "successfulJobsHistoryLimit",
                "failedJobsHistoryLimit",
                "pollingIntervalMilliseconds",
                "jobCreationCooldownSeconds",
            )
        ),
        ({"fallback": {"replicas": 2**31}}, "spec.fallback.replicas: "),
        ({"fallback": {"replicas": 1, "failureThreshold": 2**31}}, "spec.fallback.failureThreshold: "),
        ({"scalingStrategy": {"customScalingQueueLengthDeduction": 2**31}}, "customScalingQueueLengthDeduction: "),
        ({"scalingStrategy": {"customScalingQueueLengthDeduction": -(2**31) - 1}}, "QueueLengthDeduction: "),
        ({"scalingStrategy": {"strategy": "greedy"}}, "spec.scalingStrategy.strategy: "),
        ({"scalingStrategy": {"multipleScalersCalculation": "mean"}}, "multipleScalersCalculation: "),
        ({"rollout": {"strategy": "later"}}, "spec.rollout.strategy: "),
        ({"rollout": {"propagationPolicy": "Background"}}, "spec.rollout.propagationPolicy: "),
        ({"rolloutStrategy": "later"}, "spec.rolloutStrategy: "),
    ],
    ids=lambda value: value.rstrip(": ") if isinstance(value, str) else "",
)
def test_what_is_wrong_is_refused_and_named(spec, field):
    with pytest.raises(UserError) as refused:
        scaledjob.parse(scaled_job(**spec))
    assert str(refused.value).startswith("ScaledJob default/work: ")
    assert field in str(refused.value)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(UserError) as refused:
        scaledjob.parse(scaled_job(triggers=[], maxReplicaCount=0))
    assert "spec.triggers" in str(refused.value)
    assert "spec.maxReplicaCount" in str(refused.value)


@for_each({}, {"metadata": None}, {"metadata": {"name": "x"}, "spec": []})
def test_something_that_is_no_scaledjob_is_refused(body):
    with pytest.raises(UserError, match=r"^ScaledJob "):
        scaledjob.parse(body)
