"""The Job of one claim: it carries the item, and stays until the claim is settled."""

from collections.abc import Iterable

from workers.api.kinds import Object
from workers.controllers import conditions
from workers.handoff.claims import ClaimedItem
from workers.reconcile.plan import Step, Together, Unfinalize
from workers.reconcile.snapshot import CachedObject

#: On every Job of a claim: it must not go, whoever deletes it, before the ledger knows how it ended.
FINALIZER = "penstock.dev/claim"

CLAIM = "penstock.dev/claim"
ATTEMPT = "penstock.dev/claim-attempt"
ITEM = "penstock.dev/item"
ENCODING = "penstock.dev/item-encoding"

VOLUME = "penstock-item"
FOLDER = "/var/run/penstock"

#: Bytes of an item that still becomes a variable: Linux starts no process with a longer one than 128 KiB.
LONGEST_VARIABLE = 100_000


def bind(job: Object, claim: ClaimedItem) -> Object:
    """A Job that works on this claim, and carries its item."""
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
        # By reference: in a literal value $(NAME) would be replaced.
        origin = {"fieldRef": {"fieldPath": f"metadata.annotations['{ITEM}']"}}
        variables.append({"name": "PENSTOCK_ITEM", "valueFrom": origin})
    mount = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
    return {
        **container,
        "env": [*(container.get("env") or ()), *variables],
        "volumeMounts": [*(container.get("volumeMounts") or ()), mount],
    }


def is_bound(job: Object) -> bool:
    """Whether the Job waits for its claim to be settled."""
    return FINALIZER in (job["metadata"].get("finalizers") or ())


def has_ended(job: Object) -> bool:
    """Whether the Job has finished or is being deleted."""
    return bool(conditions.finished(job) or job["metadata"].get("deletionTimestamp"))


def claim_of(job: Object) -> tuple[str, int] | None:
    """Claim and attempt this Job was made for."""
    annotations = job["metadata"].get("annotations") or {}
    attempt = annotations.get(ATTEMPT, "")
    return (annotations[CLAIM], int(attempt)) if CLAIM in annotations and attempt.isdecimal() else None


def ended(jobs: Iterable[CachedObject]) -> tuple[CachedObject, ...]:
    """Jobs that wait for their claim although they have ended."""
    return tuple(entry for entry in jobs if entry.body and is_bound(entry.body) and has_ended(entry.body))


def unbind(jobs: Iterable[CachedObject]) -> tuple[Step, ...]:
    """Let these Jobs go whenever somebody deletes them."""
    steps = tuple(Unfinalize(entry.ref, entry.body["metadata"]["uid"], FINALIZER) for entry in jobs if entry.body)
    return (Together(steps),) if steps else ()
