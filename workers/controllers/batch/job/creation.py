"""Bodies and names of a Job's new pods."""

from collections.abc import Iterable, Iterator, Mapping, Set

from workers.api.kinds import JOB, POD, Object, owner_reference
from workers.controllers import pod_names
from workers.controllers.batch.job.indexes import (
    FAILURE_COUNT,
    IGNORED_FAILURE_COUNT,
    INDEX,
    count_of,
    ignored_count_of,
)
from workers.controllers.batch.job.pods import TRACKING
from workers.controllers.batch.job.policies import judge_failure
from workers.controllers.batch.job.spec import BatchJobSpec

#: The variable that tells a container its index.
_VARIABLE: Object = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
}


def pods(job: Object, spec: BatchJobSpec, taken: Set[str], number: int) -> Iterator[Object]:
    """Yields this number of pods of a Job without indexes. taken: names in use, now or before."""
    metadata, body = _metadata(job, spec), spec.template.get("spec") or {}
    for name in pod_names.free(job, "", taken, number):
        yield _pod({"name": name, **metadata}, body)


def indexed_pods(
    job: Object, spec: BatchJobSpec, taken: Set[str], indexes: Iterable[int], replaced: Mapping[int, Object]
) -> Iterator[Object]:
    """Yields one pod per index. replaced: by index, the failed pod whose failure counts the new one continues."""
    metadata, body = _metadata(job, spec), _with_variable(spec.template.get("spec") or {})
    for index in indexes:
        (name,) = pod_names.free(job, f"-{index}", taken, 1)
        counts = _failure_counts(spec, replaced.get(index)) if spec.per_index else {}
        mine = {INDEX: str(index)}
        own = {
            "name": name,
            **metadata,
            "labels": {**metadata["labels"], **mine},
            "annotations": {**metadata["annotations"], **mine, **counts},
        }
        yield _pod(own, {**body, "hostname": f"{job['metadata']['name']}-{index}"})


def _pod(metadata: Object, body: Object) -> Object:
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": body}


def _metadata(job: Object, spec: BatchJobSpec) -> Object:
    """Returns the metadata that all pods of the Job share."""
    template = spec.template.get("metadata") or {}
    return {
        "namespace": job["metadata"]["namespace"],
        "labels": {**_labels(job, spec), **(template.get("labels") or {})},
        "annotations": dict(template.get("annotations") or {}),
        "finalizers": [*(name for name in template.get("finalizers") or () if name != TRACKING), TRACKING],
        "ownerReferences": [owner_reference(JOB, job)],
    }


def _labels(job: Object, spec: BatchJobSpec) -> Object:
    """Returns the generated labels. API servers put them into the template, older ones not all of them."""
    if spec.manual_selector:
        return {}
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    return {
        "batch.kubernetes.io/job-name": name,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "controller-uid": uid,
    }


def _with_variable(body: Object) -> Object:
    """Returns the pod's spec with JOB_COMPLETION_INDEX in every container that has no such variable."""
    parts = {
        part: [_with_index(each) for each in body[part]] for part in ("initContainers", "containers") if body.get(part)
    }
    return {**body, **parts}


def _with_index(container: Object) -> Object:
    variables = container.get("env") or []
    if any(each.get("name") == _VARIABLE["name"] for each in variables):
        return container
    return {**container, "env": [*variables, _VARIABLE]}


def _failure_counts(spec: BatchJobSpec, replaced: Object | None) -> dict[str, str]:
    """Returns the failures of an index so far as annotations of its next pod."""
    if replaced is None:
        return {FAILURE_COUNT: "0"}
    counted = judge_failure(spec.failure_policy, replaced).counted
    failures, ignored = count_of(replaced) + counted, ignored_count_of(replaced) + (not counted)
    return {FAILURE_COUNT: str(failures), **({IGNORED_FAILURE_COUNT: str(ignored)} if ignored else {})}
