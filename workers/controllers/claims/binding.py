"""The Job of one claim: it carries the item, and a finalizer keeps it until the claim is settled."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workers.api import conditions, job_annotations
from workers.api.kinds import Object, finalizers_of
from workers.decision.claims import ClaimedItem
from workers.decision.plan import Step, Together, Unfinalize
from workers.decision.snapshot import CachedObject

#: Keeps a deleted Job of a claim until the ledger knows how it ended.
FINALIZER = "penstock.dev/claim"

VOLUME = "penstock-item"
FOLDER = "/var/run/penstock"

#: Most bytes of an item that becomes a variable: Linux starts no process with a variable beyond 128 KiB.
LONGEST_VARIABLE = 100_000


@dataclass(frozen=True, slots=True)
class CarriedText:
    """The text that a Job carries as an annotation, which its containers get as a file.

    annotation: of the Job and its pods. volume: the pod's, mounted at `FOLDER`. file: the name in it. variables: of
    every container. yields: a variable that a container sets itself stays.
    """

    annotation: str
    volume: str
    file: str
    variables: tuple[Object, ...]
    yields: bool = False


def bind(job: Object, claim: ClaimedItem) -> Object:
    """Returns the Job with this claim's item as annotations, variables and a volume, and with the finalizer."""
    variables: list[Object] = [
        {"name": "PENSTOCK_CLAIM", "value": claim.id},
        {"name": "PENSTOCK_ITEM_ENCODING", "value": claim.encoding},
    ]
    if claim.size <= LONGEST_VARIABLE:
        variables.append({"name": "PENSTOCK_ITEM", "valueFrom": annotation_reference(job_annotations.ITEM)})
    annotations = {job_annotations.ITEM: claim.item or "", job_annotations.ITEM_ENCODING: claim.encoding}
    carried = CarriedText(job_annotations.ITEM, VOLUME, "item", tuple(variables))
    return carry(job, claim, annotations, carried)


def carry(job: Object, claim: ClaimedItem, annotations: Mapping[str, str], carried: CarriedText) -> Object:
    """Returns the Job with the claim and these annotations on it and its pods, the text, and the finalizer."""
    metadata, spec = job["metadata"], job["spec"]
    template = spec["template"]
    annotations = {
        job_annotations.CLAIM: claim.id,
        job_annotations.CLAIM_ATTEMPT: str(claim.attempt),
        **annotations,
    }
    return {
        **job,
        "metadata": {
            **metadata,
            "annotations": {**(metadata.get("annotations") or {}), **annotations},
            "finalizers": [FINALIZER],
        },
        "spec": {
            **spec,
            "template": {
                **template,
                "metadata": {
                    **template["metadata"],
                    "annotations": {**(template["metadata"].get("annotations") or {}), **annotations},
                },
                "spec": _pod(template["spec"], carried),
            },
        },
    }


def annotation_reference(annotation: str) -> Object:
    """Returns the origin of a variable with this annotation's text: Kubernetes expands $(NAME) in a literal value."""
    return {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}


def _pod(pod: Object, carried: CarriedText) -> Object:
    item = {"path": carried.file, **annotation_reference(carried.annotation)}
    volume = {"name": carried.volume, "downwardAPI": {"items": [item]}}
    given = {
        part: [_container(container, carried) for container in pod[part]]
        for part in ("initContainers", "containers")
        if pod.get(part)
    }
    return {**pod, **given, "volumes": [*(pod.get("volumes") or ()), volume]}


def _container(container: Object, carried: CarriedText) -> Object:
    mount = {"name": carried.volume, "mountPath": FOLDER, "readOnly": True}
    own = container.get("env") or ()
    taken = {each.get("name") for each in own} if carried.yields else set()
    return {
        **container,
        "env": [*own, *(each for each in carried.variables if each["name"] not in taken)],
        "volumeMounts": [*(container.get("volumeMounts") or ()), mount],
    }


def is_bound(job: Object) -> bool:
    """Returns True if the Job waits for its claim to be settled."""
    return FINALIZER in finalizers_of(job)


def has_ended(job: Object) -> bool:
    """Returns True if the Job has finished or is being deleted."""
    return bool(conditions.finished(job) or job["metadata"].get("deletionTimestamp"))


def claim_of(job: Object) -> tuple[str, int] | None:
    """Returns id and attempt of the claim that this Job was made for, None for any other Job."""
    annotations = job["metadata"].get("annotations") or {}
    attempt = annotations.get(job_annotations.CLAIM_ATTEMPT, "")
    return (
        (annotations[job_annotations.CLAIM], int(attempt))
        if job_annotations.CLAIM in annotations and attempt.isdecimal()
        else None
    )


def ended(jobs: Iterable[CachedObject]) -> tuple[CachedObject, ...]:
    """Returns the Jobs that have ended and still wait for their claim."""
    return tuple(entry for entry in jobs if entry.body and is_bound(entry.body) and has_ended(entry.body))


def bound(jobs: Iterable[CachedObject]) -> tuple[CachedObject, ...]:
    """Returns the Jobs that wait for their claim, ended or not."""
    return tuple(entry for entry in jobs if entry.body and is_bound(entry.body))


def unbind(jobs: Iterable[CachedObject]) -> tuple[Step, ...]:
    """Returns the step that takes the finalizer off these Jobs; empty without Jobs."""
    steps = tuple(Unfinalize(entry.ref, entry.body["metadata"]["uid"], FINALIZER) for entry in jobs if entry.body)
    return (Together(steps),) if steps else ()
