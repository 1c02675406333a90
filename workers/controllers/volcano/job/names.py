"""Names, labels and host names of a job's pods and objects, and the cluster that resolves them."""

from dataclasses import dataclass

from workers.api import loopback_addresses
from workers.api.kinds import VC_JOB, Object, owner_reference
from workers.api.volcano.job import Job, Task

#: The scheduler of a Job that names none, as Volcano's webhook fills it in.
VOLCANO = "volcano"


@dataclass(frozen=True, slots=True)
class Site:
    """The cluster that pods are created for.

    gang_schedulers: schedulers whose pods Penstock admits as gangs. scheduler: places the admitted pods. addresses:
    pods reach each other by loopback addresses, because no names resolve (the embedded cluster). topology: node labels
    by tier, the nearest first.
    """

    gang_schedulers: frozenset[str] = frozenset({VOLCANO})
    scheduler: str = "default-scheduler"
    addresses: bool = False
    topology: tuple[str, ...] = ()

    def placing(self, wanted: str) -> str:
        """Returns the scheduler that places a pod whose manifest names `wanted`."""
        return self.scheduler if wanted in self.gang_schedulers else wanted

    def host(self, namespace: str, name: str) -> str:
        """Returns the host name or address of the pod `name` (``<hostname>.<subdomain>``) in a namespace."""
        return loopback_addresses.address(namespace, name) if self.addresses else name


JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
QUEUE = "volcano.sh/queue-name"
#: Pod annotation: the version of the job that the pod was created for.
VERSION = "volcano.sh/job-version"
PARTITION = "volcano.sh/partition-id"


def pod(job: Job, task: Task, index: int) -> str:
    """Returns the name of one pod of a task."""
    return f"{job.metadata.name}-{task.name}-{index}"


def group(job: Job) -> str:
    """Returns the name of the job's PodGroup."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def labels(job: Job) -> dict[str, str]:
    """Returns the labels that select the job's pods."""
    return {JOB_NAME: job.metadata.name, JOB_NAMESPACE: job.metadata.namespace}


def owner(job: Job) -> Object:
    """Returns the owner reference of the objects created for the job."""
    return owner_reference(VC_JOB, {"metadata": {"name": job.metadata.name, "uid": job.metadata.uid}})


def metadata(job: Job, name: str) -> Object:
    """Returns the metadata of an object created for the job as a whole."""
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": {JOB_NAME: job.metadata.name},
        "ownerReferences": [owner(job)],
    }


def hostnames(job: Job, task: Task) -> tuple[str, ...]:
    """Returns the host names of a task's pods. A template with a fixed host name gives all of them the same."""
    if fixed := task.pod_spec.get("hostname"):
        return (str(fixed),) if task.replicas else ()
    return tuple(pod(job, task, index) for index in range(task.replicas))


def subdomain(job: Job, task: Task) -> str:
    """Returns the DNS subdomain of a task's pods."""
    return str(task.pod_spec.get("subdomain") or job.metadata.name)


def hosts(job: Job, site: Site, task: Task) -> tuple[str, ...]:
    """Returns the addresses of a task's pods."""
    domain = subdomain(job, task)
    return tuple(site.host(job.metadata.namespace, f"{name}.{domain}") for name in hostnames(job, task))


def first_host(job: Job, site: Site, task: Task) -> str:
    """Returns the address of a task's first pod, even if the task has no replicas."""
    name = task.pod_spec.get("hostname") or pod(job, task, 0)
    return site.host(job.metadata.namespace, f"{name}.{subdomain(job, task)}")


def variable(task: Task) -> str:
    """Returns a task's name as used in file names, and in upper case in environment variables."""
    return task.name.replace("-", "_")
