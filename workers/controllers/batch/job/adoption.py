"""Adoption and release of pods by the Job's selector, and their tracking finalizers."""

from workers.api.kinds import JOB, POD, Object, ref_of
from workers.controllers.batch.job.creation import owner_reference
from workers.controllers.batch.job.pods import TRACKING, existing, is_deleting, is_finished, is_tracked
from workers.controllers.batch.job.spec import BatchJobSpec
from workers.controllers.label_selectors import selects
from workers.decision.plan import Patch, Together
from workers.decision.snapshot import Snapshot


def claim(snapshot: Snapshot, job: Object, spec: BatchJobSpec) -> tuple[Patch | Together, ...]:
    """Returns the steps that adopt matching pods without a controller and release pods that match no longer.

    The fence: an empty patch of the Job at the observed version goes before any adoption. If the Job was changed since,
    perhaps deleted with its pods orphaned, that patch conflicts and no pod is adopted.
    """
    if spec.selector is None:
        return ()
    matches = selects(spec.selector)
    loose = [pod for pod in existing(snapshot.unowned.get(POD.id, ())) if not is_deleting(pod)]
    adopted = [_adoption(job, pod) for pod in loose if matches(pod)]
    released = [_release(job, pod) for pod in existing(snapshot.children.get(POD.id, ())) if not matches(pod)]
    if not adopted and not released:
        return ()
    metadata = job["metadata"]
    fence = Patch(snapshot.ref, {"metadata": {"uid": metadata["uid"]}}, metadata["resourceVersion"])
    return (*((fence,) if adopted else ()), Together((*adopted, *released)))


def track(pod: Object) -> Patch:
    """Puts the finalizer on an active pod without one, so that its end is counted."""
    return _patch(pod, {"finalizers": [*_finalizers(pod), TRACKING]})


def untrack(pod: Object) -> Patch:
    """Takes the finalizer off an active pod, so that its end is not counted.

    Fenced by the observed version: a pod that finished meanwhile must be counted.
    """
    return _patch(pod, {"finalizers": [name for name in _finalizers(pod) if name != TRACKING]})


def _adoption(job: Object, pod: Object) -> Patch:
    # A finished pod gets no finalizer: it may have been counted before its adoption.
    metadata: Object = {"ownerReferences": [*(pod["metadata"].get("ownerReferences") or ()), owner_reference(JOB, job)]}
    if not is_tracked(pod) and not is_finished(pod):
        metadata["finalizers"] = [*_finalizers(pod), TRACKING]
    return _patch(pod, metadata)


def _release(job: Object, pod: Object) -> Patch:
    owners = [each for each in pod["metadata"].get("ownerReferences") or () if each["uid"] != job["metadata"]["uid"]]
    finalizers = [name for name in _finalizers(pod) if name != TRACKING]
    return _patch(pod, {"ownerReferences": owners, "finalizers": finalizers})


def _finalizers(pod: Object) -> list[str]:
    return list(pod["metadata"].get("finalizers") or ())


def _patch(pod: Object, metadata: Object) -> Patch:
    return Patch(ref_of(POD, pod), {"metadata": metadata}, pod["metadata"]["resourceVersion"])
