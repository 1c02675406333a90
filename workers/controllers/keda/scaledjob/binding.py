"""The Job of one claim: it carries the item, and a finalizer keeps it until the claim is settled."""

from collections.abc import Iterable

from workers.api import conditions
from workers.api.kinds import Object
from workers.decision.claims import ClaimedItem
from workers.decision.plan import Step, Together, Unfinalize
from workers.decision.snapshot import CachedObject

#: Keeps a deleted Job of a claim until the ledger knows how it ended.
FINALIZER = "penstock.dev/claim"

CLAIM = "penstock.dev/claim"
ATTEMPT = "penstock.dev/claim-attempt"
ITEM = "penstock.dev/item"
ENCODING = "penstock.dev/item-encoding"

VOLUME = "penstock-item"
FOLDER = "/var/run/penstock"

#: Most bytes of an item that becomes a variable: Linux starts no process with a variable beyond 128 KiB.
LONGEST_VARIABLE = 100_000


def bind(job: Object, claim: ClaimedItem) -> Object:
    """Returns the Job with this claim's item as annotations, variables and a volume, and with the finalizer."""
    metadata, spec = job["metadata"], job["spec"]
    template = spec["template"]
    annotations = {CLAIM: claim.id, ATTEMPT: str(claim.attempt), ITEM: claim.item or "", ENCODING: claim.encoding}
    return {
        **job,
        "metadata": {
            **metadata,
            "annotations": {**metadata["annotations"], **annotations},
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
                "spec": _pod(template["spec"], claim),
            },
        },
    }


def _pod(pod: Object, claim: ClaimedItem) -> Object:
    item = {"path": "item", "fieldRef": {"fieldPath": f"metadata.annotations['{ITEM}']"}}
    volume = {"name": VOLUME, "downwardAPI": {"items": [item]}}
    given = {
        part: [_container(container, claim) for container in pod[part]]
        for part in ("initContainers", "containers")
        if pod.get(part)
    }
    return {**pod, **given, "volumes": [*(pod.get("volumes") or ()), volume]}


def _container(container: Object, claim: ClaimedItem) -> Object:
    variables: list[Object] = [
        {"name": "PENSTOCK_CLAIM", "value": claim.id},
        {"name": "PENSTOCK_ITEM_ENCODING", "value": claim.encoding},
    ]
    if claim.size <= LONGEST_VARIABLE:
        # The value comes by reference, because Kubernetes would expand $(NAME) in a literal one.
        origin = {"fieldRef": {"fieldPath": f"metadata.annotations['{ITEM}']"}}
        variables.append({"name": "PENSTOCK_ITEM", "valueFrom": origin})
    mount = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
    return {
        **container,
        "env": [*(container.get("env") or ()), *variables],
        "volumeMounts": [*(container.get("volumeMounts") or ()), mount],
    }


def is_bound(job: Object) -> bool:
    """Returns True if the Job waits for its claim to be settled."""
    return FINALIZER in (job["metadata"].get("finalizers") or ())


def has_ended(job: Object) -> bool:
    """Returns True if the Job has finished or is being deleted."""
    return bool(conditions.finished(job) or job["metadata"].get("deletionTimestamp"))


def claim_of(job: Object) -> tuple[str, int] | None:
    """Returns id and attempt of the claim that this Job was made for, None for any other Job."""
    annotations = job["metadata"].get("annotations") or {}
    attempt = annotations.get(ATTEMPT, "")
    return (annotations[CLAIM], int(attempt)) if CLAIM in annotations and attempt.isdecimal() else None


def ended(jobs: Iterable[CachedObject]) -> tuple[CachedObject, ...]:
    """Returns the Jobs that have ended and still wait for their claim."""
    return tuple(entry for entry in jobs if entry.body and is_bound(entry.body) and has_ended(entry.body))


def unbind(jobs: Iterable[CachedObject]) -> tuple[Step, ...]:
    """Returns the step that takes the finalizer off these Jobs; empty without Jobs."""
    steps = tuple(Unfinalize(entry.ref, entry.body["metadata"]["uid"], FINALIZER) for entry in jobs if entry.body)
    return (Together(steps),) if steps else ()
