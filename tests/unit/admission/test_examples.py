"""Every example is admitted, and keeps everything that its author wrote."""

from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT
from tests.unit.admission.bodies import queue
from workers.admission.admission_options import AdmissionOptions
from workers.admission.lookup import Known
from workers.admission.rules import RULES
from workers.api import kinds
from workers.api.kinds import JOB_FLOW, NAMESPACE, POD_GROUP, QUEUE, SCALED_OBJECT, VC_JOB, Object, Ref

FILES = sorted((ROOT / "examples").glob("*.yaml"))
#: As they are written for Volcano 1.8.
SAMPLES = yaml.safe_load_all("""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: web}
spec:
  minAvailable: 3
  schedulerName: volcano
  priorityClassName: urgent
  policies: [{event: PodEvicted, action: RestartJob}]
  plugins: {ssh: [], env: [], svc: []}
  maxRetry: 5
  queue: default
  volumes:
  - {mountPath: /in, volumeClaimName: dataset}
  - {mountPath: /out, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
  tasks:
  - replicas: 6
    name: front
    template: {metadata: {name: front}, spec: {containers: [{image: server, name: server}], restartPolicy: OnFailure}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: digits}
spec:
  minAvailable: 3
  plugins: {env: [], svc: []}
  tasks:
  - {replicas: 1, name: ps, template: {spec: {containers: [{image: train, name: train}]}}}
  - replicas: 2
    name: worker
    policies: [{event: TaskCompleted, action: CompleteJob}, {exitCode: 137, action: RestartJob}]
    template: {spec: {containers: [{image: train, name: train}], restartPolicy: Never}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 1, reclaimable: false, capability: {cpu: 2}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: guaranteed}
spec: {weight: 1, guarantee: {resource: {cpu: 2, memory: 4G}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: pair}
spec: {minMember: 2, minResources: {cpu: "3", memory: 2048Mi}, priorityClassName: urgent, queue: research}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: report}
spec:
  jobRetainPolicy: delete
  flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}, {name: c, dependsOn: {targets: [b]}}]
---
apiVersion: batch.volcano.sh/v1alpha1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "*/5 * * * *"
  timeZone: Asia/Shanghai
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      minAvailable: 1
      tasks: [{replicas: 1, name: work, template: {spec: {containers: [{image: work, name: work}]}}}]
""")


def documents() -> list[Any]:
    found = [(file.name, body) for file in FILES for body in yaml.load_all(file.read_text(), yaml.CSafeLoader)]
    found += [("1.8", body) for body in SAMPLES]
    return [
        pytest.param(body, id=f"{name}:{body['kind']}:{body['metadata']['name']}")
        for name, body in found
        if (kind := kinds.by_manifest(body["apiVersion"], body["kind"])) and kind.id in RULES
    ]


DOCUMENTS = documents()
ALL = [each.values[0] for each in DOCUMENTS]


def cluster() -> Known:
    """A cluster with the queues of the examples, opened."""
    queues = [{**body, "status": {"state": "Open"}} for body in ALL if body["kind"] == "Queue"]
    whole = {QUEUE.id: [queue("default"), queue("root"), *queues], POD_GROUP.id: [], SCALED_OBJECT.id: []}
    return Known({Ref(NAMESPACE, "", "default"): {"metadata": {"name": "default"}}}, whole)


def placed(body: Object) -> Object:
    """The object as `apply` sends it."""
    return {**body, "metadata": {"namespace": "default", **body["metadata"]}}


def kept(small: Any, large: Any) -> bool:
    """Returns True if all values of the first are in the second."""
    if isinstance(small, dict):
        return isinstance(large, dict) and all(kept(value, large.get(key)) for key, value in small.items())
    if isinstance(small, list):
        return isinstance(large, list) and len(small) == len(large) and all(map(kept, small, large))
    return bool(small == large)


@pytest.mark.parametrize("body", DOCUMENTS)
def test_an_example_is_admitted_and_only_filled_in(body: Object) -> None:
    kind = kinds.by_manifest(body["apiVersion"], body["kind"])
    assert kind
    rules, lookup = RULES[kind.id], cluster()
    filled = rules.defaulted(placed(body), lookup, AdmissionOptions())
    assert kept(placed(body), filled)
    assert rules.defaulted(filled, lookup, AdmissionOptions()) == filled
    assert list(rules.problems(filled, None, lookup, AdmissionOptions())) == []
    assert list(rules.problems(filled, filled, lookup, AdmissionOptions())) == []


def test_there_are_examples() -> None:
    assert {VC_JOB.kind, QUEUE.kind, POD_GROUP.kind, JOB_FLOW.kind} <= {body["kind"] for body in ALL}
