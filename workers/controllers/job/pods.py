"""A Job's pods: sorting the ones that are there, and building new ones."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from hashlib import blake2b

from workers.api.kinds import JOB, POD, Object
from workers.controllers import conditions
from workers.snapshot import Entry

#: The letters of generated names: no vowels, so that no words appear (the API server's own alphabet).
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
#: A pod's name is its host name as well: longer Job names are cut, as the API server cuts a `generateName`.
_STEM = 57


@dataclass(frozen=True, slots=True)
class Pods:
    """A Job's pods by what they mean for it. active: not finished and not being deleted. terminating: the latter.

    A pod that failed while it was being deleted is in none of them. Who deleted it cannot be told, and a Job that
    was suspended or shrunk must not pay for it: such a pod is replaced and not counted as a failure.
    """

    active: tuple[Object, ...]
    terminating: tuple[Object, ...]
    succeeded: tuple[Object, ...]
    failed: tuple[Object, ...]

    @property
    def ready(self) -> int:
        """How many active pods are ready."""
        return sum(conditions.holds(pod, "Ready") for pod in self.active)


def sort(entries: Iterable[Entry]) -> Pods:
    """Sort the pods that exist."""
    active: list[Object] = []
    terminating: list[Object] = []
    succeeded: list[Object] = []
    failed: list[Object] = []
    for entry in entries:
        if (pod := entry.body) is None:
            continue
        phase, leaving = phase_of(pod), bool(pod["metadata"].get("deletionTimestamp"))
        if phase == "Succeeded":
            succeeded.append(pod)
        elif phase == "Failed":
            failed += [] if leaving else [pod]
        else:
            (terminating if leaving else active).append(pod)
    return Pods(tuple(active), tuple(terminating), tuple(succeeded), tuple(failed))


def phase_of(pod: Object) -> str:
    """The pod's phase; one that has none yet is Pending."""
    return (pod.get("status") or {}).get("phase") or "Pending"


def build(job: Object, names: Iterable[str]) -> Iterator[Object]:
    """One pod per name, from the Job's template."""
    template = job["spec"]["template"]
    metadata = template.get("metadata") or {}
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    ours = {
        "batch.kubernetes.io/job-name": name,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "controller-uid": uid,
    }
    shared = {
        "namespace": job["metadata"]["namespace"],
        "labels": {**ours, **(metadata.get("labels") or {})},
        "annotations": metadata.get("annotations") or {},
        "ownerReferences": [
            {
                "apiVersion": JOB.api_version,
                "kind": JOB.kind,
                "name": name,
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    for pod in names:
        yield {
            "apiVersion": POD.api_version,
            "kind": POD.kind,
            "metadata": {"name": pod, **shared},
            "spec": template.get("spec") or {},
        }


def free_names(job: Object, taken: Set[str], number: int) -> Iterator[str]:
    """Names for new pods: the first of the Job's fixed row of names that no known pod has.

    A row, not chance: a plan that was cut short before its pods became known asks for the same names again, and
    so makes no pod twice.
    """
    used = set(taken)
    ordinal = 0
    while number > 0:
        name = pod_name(job["metadata"]["name"], job["metadata"]["uid"], ordinal)
        if name not in used:
            used.add(name)
            yield name
            number -= 1
        ordinal += 1


def pod_name(job: str, uid: str, ordinal: int) -> str:
    """``<job>-<5 letters>``, the letters made from the Job's uid and the pod's ordinal."""
    number = int.from_bytes(blake2b(f"{uid}/{ordinal}".encode(), digest_size=8).digest())
    letters = ""
    for _ in range(5):
        number, letter = divmod(number, len(_LETTERS))
        letters += _LETTERS[letter]
    return f"{job[:_STEM].rstrip('-.')}-{letters}"
