"""Channels that a ScaledJob with a push trigger already takes: its events would be acknowledged by two."""

from workers.api.eventing.eventjob import EventJob
from workers.api.kinds import SCALED_JOB, Object, Ref
from workers.decision.snapshot import Snapshot


def taken(snapshot: Snapshot, eventjob: EventJob) -> str | None:
    """Returns the reason why an EventJob may not take its channel, None if it may."""
    channel, namespace = eventjob.channel, snapshot.ref.namespace
    scaled = snapshot.relatives.get(Ref(SCALED_JOB, namespace, channel))
    if scaled is None or scaled["metadata"].get("deletionTimestamp"):
        return None
    for index, trigger in enumerate((scaled.get("spec") or {}).get("triggers") or ()):
        if _takes(trigger, namespace, channel):
            return f"ScaledJob {namespace}/{channel} takes channel {channel}: spec.triggers[{index}] is of type push"
    return None


def _takes(trigger: Object, namespace: str, channel: str) -> bool:
    """Returns True for a push trigger on Penstock's own broker whose stream is the channel's."""
    metadata = trigger.get("metadata") or {}
    if trigger.get("type") != "push" or any(metadata.get(name) for name in ("address", "addresses", "host", "hosts")):
        return False
    stream = metadata.get("stream")
    return not stream or str(stream).endswith(f":events:{namespace}/{channel}")
