"""The manifests of the soak's objects. Pure.

address: ``host:port`` of the server that keeps lists, streams and notes. measured: where triggers find it.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.soak import pod_program
from workers.api.kinds import (
    DEPLOYMENT,
    EVENT_JOB,
    JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    SCALE_POLICY,
    SCALED_JOB,
    SCALED_OBJECT,
    VC_JOB,
    Kind,
    Object,
)

NAMESPACE = "default"
#: Seconds between the slots of the ScheduledJobs.
PERIOD = 5
#: Unfinished Jobs of all ScaledJobs under the policy together, and the label of those.
LIMIT, TEAM = 3, "limited"
#: A pod that the kubelet lost is done anew, as often as it takes; one that says so itself is not.
_PATIENT = {"backoffLimit": 1000}
_FAILS_FOR_GOOD = {
    **_PATIENT,
    "podFailurePolicy": {
        "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [pod_program.EXIT_CODE]}}]
    },
}
_JOB_NAME = "metadata.labels['batch.kubernetes.io/job-name']"


@dataclass(frozen=True)
class Manifests:
    """Makes manifests whose pods write to the server at `address`."""

    address: str
    measured: str

    def pod(self, by: str, *words: str, job: str = _JOB_NAME) -> Object:
        """Returns the spec of a pod that runs the program with these words."""
        variables = [
            {"name": "SOAK_REDIS", "value": self.address},
            {"name": "SOAK_BY", "value": by},
            {"name": "SOAK_JOB", **_field(job)},
            {"name": "SOAK_POD", **_field("metadata.name")},
        ]
        # -S -E: only the standard library, independent of installed packages and environment variables.
        command = [sys.executable, "-S", "-E", str(Path(pod_program.__file__).resolve()), *words]
        container = {"name": "main", "image": "none", "command": command, "env": variables}
        return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container]}

    def scaled_job(self, name: str, strategy: str, trigger: Object, *words: str, **spec: Any) -> Object:
        scaling: Object = {"strategy": strategy}
        if strategy == "claim":
            scaling["claim"] = {"retries": 100}
        return _object(
            SCALED_JOB,
            name,
            {
                "pollingInterval": 5,
                "maxReplicaCount": 4,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 3,
                "scalingStrategy": scaling,
                "jobTargetRef": {**_PATIENT, "template": {"spec": self.pod(name, *words)}},
                "triggers": [trigger],
                **spec,
            },
        )

    def list_trigger(self, name: str) -> Object:
        return {"type": "redis", "metadata": {"address": self.measured, "listName": name, "listLength": "1"}}

    def stream_trigger(self, name: str, **more: str) -> Object:
        return {"type": "redis-streams", "metadata": {"address": self.measured, "stream": name, **more}}

    def event_job(self, name: str, **spec: Any) -> Object:
        pod = self.pod(name, "flaky", "$(event.id)", "$(PENSTOCK_ATTEMPT)")
        return _object(
            EVENT_JOB,
            name,
            {
                "push": {"anonymous": True, "durability": "fsync"},
                "concurrency": {"total": 4, "orderingKey": "event.data.repository.full_name"},
                "retry": {"limit": 100, "delaySeconds": 1, "maxDelaySeconds": 2},
                "ttlSecondsAfterFinished": 20,
                **spec,
                "jobTemplate": {"spec": {**_FAILS_FOR_GOOD, "template": {"spec": pod}}},
            },
        )

    def schedule(self, kind: Kind, name: str, schedule: str, **spec: Any) -> Object:
        # The name of a run's Job follows from its slot.
        pod = self.pod(name, "given", "$(SOAK_JOB)")
        body = {"successfulJobsHistoryLimit": 3, "jobTemplate": {"spec": {**_PATIENT, "template": {"spec": pod}}}}
        return _object(kind, name, {"schedule": schedule, **body, **spec})

    def indexed_job(self, name: str, by: str, completions: int) -> Object:
        pod = self.pod(by, "given", f"{name}/$(JOB_COMPLETION_INDEX)")
        spec = {"completionMode": "Indexed", "completions": completions, "parallelism": 2, **_PATIENT}
        return _object(JOB, name, {**spec, "ttlSecondsAfterFinished": 20, "template": {"spec": pod}})

    def gang(self, name: str, by: str, size: int) -> Object:
        words = ("gang", f"{name}/$(VC_TASK_INDEX)", f"gang:{name}", str(size))
        pod = self.pod(by, *words, job="metadata.labels['volcano.sh/job-name']")
        return _object(
            VC_JOB,
            name,
            {
                "minAvailable": size,
                "maxRetry": 1000,
                "plugins": {"env": []},
                "policies": [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}],
                "ttlSecondsAfterFinished": 20,
                "tasks": [{"name": "worker", "replicas": size, "template": {"spec": pod}}],
            },
        )

    def flow_template(self, by: str) -> Object:
        pod = self.pod(by, "given", "$(WORK)", job="metadata.labels['volcano.sh/job-name']")
        return _object(JOB_TEMPLATE, "step", {"tasks": [{"name": "work", "replicas": 1, "template": {"spec": pod}}]})

    def flow(self, name: str, after: "dict[str, tuple[str, ...]]") -> Object:
        """Returns a flow of entries, each after those that it names."""
        return _object(JOB_FLOW, name, {"flows": [_step(name, entry, waits) for entry, waits in after.items()]})

    def pool(self, name: str) -> list[tuple[Kind, Object]]:
        """Returns a Deployment that serves the list of its name, and the ScaledObject that scales it."""
        pod = self.pod(name, "serve", name, job="metadata.labels['app']")
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {**pod, "restartPolicy": "Always"}}
        deployment = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        scaled = {
            "scaleTargetRef": {"name": name},
            "pollingInterval": 5,
            "cooldownPeriod": 10,
            "minReplicaCount": 0,
            "maxReplicaCount": 3,
            "advanced": {
                "horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}}
            },
            "triggers": [self.list_trigger(name)],
        }
        return [
            (DEPLOYMENT, _object(DEPLOYMENT, name, deployment)),
            (SCALED_OBJECT, _object(SCALED_OBJECT, name, scaled)),
        ]

    @staticmethod
    def policy() -> Object:
        return _object(SCALE_POLICY, TEAM, {"maxJobs": LIMIT, "selector": {"matchLabels": {"team": TEAM}}})


def _field(path: str) -> Object:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def _step(flow: str, entry: str, waits: tuple[str, ...]) -> Object:
    container = {"name": "main", "env": [{"name": "WORK", "value": f"{flow}/{entry}"}]}
    tasks = [{"name": "work", "template": {"spec": {"containers": [container]}}}]
    return {
        "name": entry,
        "template": "step",
        "retry": {"limit": 100, "backoffSeconds": 0},
        "patch": {"jobSpec": {"tasks": tasks}},
        **({"dependsOn": {"targets": list(waits)}} if waits else {}),
    }


def _object(kind: Kind, name: str, spec: Object) -> Object:
    metadata = {"name": name, **({"namespace": NAMESPACE} if kind.namespaced else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
