"""Channels that push triggers of ScaledJobs take: an EventJob beside one would run every event a second time."""

from collections.abc import Iterable, Iterator

from workers.api.kinds import SCALED_JOB, Kind, Object, Ref

#: Parameters that name another server than Penstock's own broker; each also ends in `FromEnv`.
_ELSEWHERE = ("address", "addresses", "host", "hosts", "port", "ports")


def taker(scaled_jobs: Iterable[Object | None], namespace: str, channel: str) -> str | None:
    """Returns the reason why no EventJob may take a channel; None if none of these ScaledJobs takes it."""
    for scaled in scaled_jobs:
        if scaled is None or scaled["metadata"].get("deletionTimestamp"):
            continue
        name = scaled["metadata"]["name"]
        for index, stream in _streams(scaled):
            if (_channel(stream, namespace) if stream else name) == channel:
                return f"ScaledJob {namespace}/{name} takes channel {channel}: spec.triggers[{index}] is of type push"
    return None


def by_name(namespace: str, channel: str) -> Ref:
    """Returns the ScaledJob whose channel this is, unless its triggers name another stream."""
    return Ref(SCALED_JOB, namespace, channel)


def named(namespace: str) -> Ref:
    """Returns what every ScaledJob refers to that names a stream in its namespace: not an object, but their index."""
    # No real kind's id has upper case.
    return Ref(Kind("penstock.dev", "", "Channel", "Channels"), namespace, "named")


def index_of(scaled: Object) -> Ref | None:
    """Returns `named` for a ScaledJob with a push trigger that names the stream of a channel."""
    namespace = scaled["metadata"]["namespace"]
    found = any(stream and _channel(stream, namespace) for _, stream in _streams(scaled))
    return named(namespace) if found else None


def _streams(scaled: Object) -> Iterator[tuple[int, str]]:
    """Yields number and stream of each push trigger on Penstock's own broker; '' for the object's own channel."""
    for index, trigger in enumerate((scaled.get("spec") or {}).get("triggers") or ()):
        metadata = trigger.get("metadata") or {}
        elsewhere = any(metadata.get(name) or metadata.get(f"{name}FromEnv") for name in _ELSEWHERE)
        if trigger.get("type") == "push" and not elsewhere:
            yield index, str(metadata.get("stream") or "")


def _channel(stream: str, namespace: str) -> str:
    return stream.partition(f"}}:events:{namespace}/")[2]
