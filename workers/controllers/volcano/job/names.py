"""Names and words of what a Job is made of: its pods, its group, and the labels by which all of it is known."""

from dataclasses import dataclass

from workers.api import loopback_addresses
from workers.api.kinds import VC_JOB, Object
from workers.api.volcano.job import Job, Task

#: The scheduler of a Job that names none, as Volcano's webhook fills it in.
VOLCANO = "volcano"


@dataclass(frozen=True, slots=True)
class Site:
    """gang_schedulers: schedulers whose pods are admitted as gangs, by us. scheduler: who places the admitted pods.

    addresses: pods find each other by loopback addresses, as no names resolve (the embedded cluster).
    """

    gang_schedulers: frozenset[str] = frozenset({VOLCANO})
    scheduler: str = "default-scheduler"
    addresses: bool = False

    def placing(self, wanted: str) -> str:
        """The scheduler that is to place a pod whose author wants this one."""
        return self.scheduler if wanted in self.gang_schedulers else wanted

    def host(self, namespace: str, name: str) -> str:
        """How other pods reach the pod that is called `name` (``<hostname>.<subdomain>``) in this namespace."""
        return loopback_addresses.address(namespace, name) if self.addresses else name


JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
TASK = "volcano.sh/task-spec"
QUEUE = "volcano.sh/queue-name"
#: A pod's annotation: the version of the job it was made for.
VERSION = "volcano.sh/job-version"
PARTITION = "volcano.sh/partition-id"


def pod(job: Job, task: Task, index: int) -> str:
    """The name of one pod of a task."""
    return f"{job.metadata.name}-{task.name}-{index}"


def group(job: Job) -> str:
    """The name of the job's PodGroup."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def labels(job: Job) -> dict[str, str]:
    """The labels by which the job's pods are selected."""
    return {JOB_NAME: job.metadata.name, JOB_NAMESPACE: job.metadata.namespace}


def owner(job: Job) -> Object:
    """The reference by which everything that is made for the job belongs to it."""
    return {
        "apiVersion": VC_JOB.api_version,
        "kind": VC_JOB.kind,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def metadata(job: Job, name: str) -> Object:
    """The metadata of an object that is made for the job as a whole."""
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": {JOB_NAME: job.metadata.name},
        "ownerReferences": [owner(job)],
    }


def hostnames(job: Job, task: Task) -> tuple[str, ...]:
    """The host names of a task's pods. A template that fixes one gives all of them the same."""
    if fixed := task.pod_spec.get("hostname"):
        return (str(fixed),) if task.replicas else ()
    return tuple(pod(job, task, index) for index in range(task.replicas))


def subdomain(job: Job, task: Task) -> str:
    """The domain of a task's pods."""
    return str(task.pod_spec.get("subdomain") or job.metadata.name)


def hosts(job: Job, site: Site, task: Task) -> tuple[str, ...]:
    """How the pods of a task are reached."""
    domain = subdomain(job, task)
    return tuple(site.host(job.metadata.namespace, f"{name}.{domain}") for name in hostnames(job, task))


def first_host(job: Job, site: Site, task: Task) -> str:
    """How the first pod of a task is reached, whether the task has replicas or not."""
    name = task.pod_spec.get("hostname") or pod(job, task, 0)
    return site.host(job.metadata.namespace, f"{name}.{subdomain(job, task)}")


def variable(task: Task) -> str:
    """A task's name as a part of file names; in upper case, of variables."""
    return task.name.replace("-", "_")
