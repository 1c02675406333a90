"""Which pods are a Job's: those that match are taken on, those that no longer do are let go."""

from collections.abc import Sequence

from workers.api.kinds import POD, Object, ref_of
from workers.controllers.batch.job.creation import owner_reference
from workers.controllers.batch.job.pods import TRACKING, existing, is_finished, is_leaving, is_tracked
from workers.controllers.batch.job.spec import BatchJobSpec
from workers.controllers.selectors import selects
from workers.reconcile.plan import Patch, Together
from workers.reconcile.snapshot import CachedObject, Snapshot


def claims(snapshot: Snapshot, job: Object, spec: BatchJobSpec) -> tuple[Patch | Together, ...]:
    """The steps that adopt and release pods; none when every pod is where it belongs.

    Before pods are adopted the Job itself is touched at the version that was observed: if it has been changed since,
    perhaps deleted so that its pods stay, that fails, and no pod is tied to it again.
    """
    if spec.selector is None:
        return ()
    matches = selects(spec.selector)
    adopted = [_adoption(job, pod) for pod in _loose(snapshot.unowned.get(POD.id, ())) if matches(pod)]
    released = [_release(job, pod) for pod in existing(snapshot.children.get(POD.id, ())) if not matches(pod)]
    if not adopted and not released:
        return ()
    metadata = job["metadata"]
    fence = Patch(snapshot.ref, {"metadata": {"uid": metadata["uid"]}}, metadata["resourceVersion"])
    return (*((fence,) if adopted else ()), Together((*adopted, *released)))


def track(pod: Object) -> Patch:
    """Put the finalizer on a pod at work that has none, so that its end will be counted."""
    return _patch(pod, {"finalizers": [*_finalizers(pod), TRACKING]})


def untrack(pod: Object) -> Patch:
    """Take the finalizer off a pod at work, so that its end will not be counted.

    Only of the pod as it was observed: one that ended meanwhile must be counted.
    """
    return _patch(pod, {"finalizers": [name for name in _finalizers(pod) if name != TRACKING]})


def _loose(entries: Sequence[CachedObject]) -> list[Object]:
    return [pod for pod in existing(entries) if not is_leaving(pod)]


def _adoption(job: Object, pod: Object) -> Patch:
    """A pod that has finished gets no finalizer: nobody can tell whether it was counted before it came here."""
    metadata: Object = {"ownerReferences": [*(pod["metadata"].get("ownerReferences") or ()), owner_reference(job)]}
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
