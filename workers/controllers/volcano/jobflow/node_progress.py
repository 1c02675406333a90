"""The track of a node: its stored progress, advanced by what its Job says.

A stored end stays even after the deletion of the Job: a Job that cleaned itself up is not run again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from workers.api import times
from workers.api.kinds import Object
from workers.api.volcano.jobflow import FlowRetry
from workers.flows.flow_nodes import FlowNode

COMPLETED, FAILED, TERMINATED, SKIPPED, RETRYING = "Completed", "Failed", "Terminated", "Skipped", "Retrying"
ENDS = frozenset({COMPLETED, FAILED, TERMINATED, SKIPPED})
#: Reason of a Job that took too long.
TIMED_OUT = "TimedOut"
#: Upper bound of a multiplied backoff.
_LONGEST = timedelta(days=365 * 68)
#: Stored characters of a message.
_TOLD = 256
#: Cached tracks: nearly all entries of a long flow are unchanged from one decision to the next.
_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Track:
    """The progress of a node.

    phase: of its Job, Retrying between two Jobs, one of `ENDS`, or None before the first Job. attempts: Jobs created.
    before: those of them before the last retry request. retry_at: start of the next attempt. started: creation of its
    Job, None until observed. lost: its Job was deleted before it ended. taken: another owner's Job has its name. stale:
    its Job belongs to a replaced attempt of a dependency; the node starts over when that Job ends.
    """

    phase: str | None = None
    job: str | None = None
    attempts: int = 0
    before: int = 0
    started: datetime | None = None
    ended: datetime | None = None
    retry_at: datetime | None = None
    reason: str | None = None
    message: str | None = None
    lost: bool = False
    taken: bool = False
    stale: bool = False

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return self.phase in ENDS

    @property
    def bad(self) -> bool:
        """True if it failed or was terminated."""
        return self.phase in (FAILED, TERMINATED)

    @property
    def live(self) -> bool:
        """True if its Job has not ended."""
        return self.phase is not None and self.phase != RETRYING and not self.over

    @property
    def next(self) -> int:
        """The number of the next attempt."""
        return self.attempts if self.lost or self.taken else self.attempts + 1

    def render(self) -> Object:
        """Returns the stored form."""
        fields = {
            "phase": self.phase,
            "job": self.job,
            "attempts": self.attempts or None,
            "before": self.before or None,
            "startTime": times.render(self.started) if self.started else None,
            "completionTime": times.render(self.ended) if self.ended else None,
            "retryTime": times.render(self.retry_at) if self.retry_at else None,
            "reason": self.reason,
            "message": self.message[:_TOLD] if self.message else None,
            "stale": self.stale or None,
        }
        return {key: value for key, value in fields.items() if value is not None}

    def end(self, phase: str, now: datetime, reason: str | None = None, message: str | None = None) -> "Track":
        """Returns the ended track."""
        return replace(
            self, phase=phase, ended=now, retry_at=None, reason=reason, message=message, lost=False, taken=False
        )

    def anew(self) -> "Track":
        """Returns a track that starts over. Created Jobs keep their names."""
        return Track(attempts=self.attempts, before=self.attempts)


_UNTOUCHED = Track()


def read(written: Object | None) -> Track:
    """Returns the stored track; the same object for the same text."""
    return _read(tuple(written.items())) if written else _UNTOUCHED


@lru_cache(_KEPT)
def _read(written: tuple[tuple[str, Any], ...]) -> Track:
    fields = dict(written)
    moments = {name: _moment(fields.get(name)) for name in ("startTime", "completionTime", "retryTime")}
    return Track(
        phase=fields.get("phase"),
        job=fields.get("job"),
        attempts=fields.get("attempts") or 0,
        before=fields.get("before") or 0,
        started=moments["startTime"],
        ended=moments["completionTime"],
        retry_at=moments["retryTime"],
        reason=fields.get("reason"),
        message=fields.get("message"),
        stale=bool(fields.get("stale")),
    )


def observed(
    node: FlowNode, track: Track, flow: str, jobs: Mapping[str, Object], gone: Collection[str], now: datetime
) -> Track:
    """Returns the track after observation. jobs: the flow's Jobs by name. gone: names of Jobs deleted lately."""
    if track.over:
        return track
    found = _observed(node, track, flow, jobs, gone, now)
    return found.anew() if found.stale and not found.live else found


def _observed(
    node: FlowNode, track: Track, flow: str, jobs: Mapping[str, Object], gone: Collection[str], now: datetime
) -> Track:
    attempts = track.attempts
    while node.job(flow, attempts + 1) in jobs:
        attempts += 1
    if attempts == track.before:
        # No Job was created since the beginning, or since the last retry request.
        return track
    if attempts > track.attempts:
        # A later Job exists, so the stale one had ended.
        before = track.attempts if track.stale else track.before
        track = Track(attempts=attempts, before=before)
    name = node.job(flow, attempts)
    if (job := jobs.get(name)) is not None:
        return _of_job(node, replace(track, job=name), job, now)
    if track.phase == RETRYING:
        return track
    # The write-through cache shows own creations at once: an unseen Job's name belongs to another owner.
    ours = track.started is not None or name in gone
    return replace(track, phase=None, lost=ours, taken=not ours)


def _of_job(node: FlowNode, track: Track, job: Object, now: datetime) -> Track:
    """Returns the track advanced by its newest Job."""
    state = (job.get("status") or {}).get("state") or {}
    phase = state.get("phase") or "Pending"
    created = _moment(job["metadata"].get("creationTimestamp")) or now
    track = replace(track, started=created)
    ended = _moment(state.get("lastTransitionTime")) or now
    timed_out = track.reason == TIMED_OUT
    if phase == COMPLETED:
        return track.end(COMPLETED, ended)
    if phase == FAILED or (timed_out and phase in (TERMINATED, "Aborted")):
        if timed_out:
            return _failed(node, track, ended, TIMED_OUT, track.message)
        return _failed(node, track, ended, state.get("reason"), state.get("message"))
    if phase == TERMINATED:
        return track.end(TERMINATED, ended, state.get("reason"), state.get("message"))
    return replace(track, phase=phase, retry_at=None)


def _failed(node: FlowNode, track: Track, ended: datetime, reason: str | None, message: str | None) -> Track:
    """Returns the track after a failure: Retrying, or Failed after the last attempt."""
    retry, made = node.entry.retry, track.attempts - track.before
    if retry is None or made > retry.limit:
        return track.end(FAILED, ended, reason, message)
    if track.phase == RETRYING:
        return track
    again = ended + backoff(retry, made)
    return replace(track, phase=RETRYING, retry_at=again, reason=reason, message=message)


def backoff(retry: FlowRetry, failed: int) -> timedelta:
    """Returns the wait after `failed` Jobs in a row."""
    try:
        seconds = retry.backoff_seconds * retry.factor ** (failed - 1)
    except OverflowError:
        seconds = retry.max_backoff_seconds
    return min(timedelta(seconds=min(seconds, retry.max_backoff_seconds)), _LONGEST)


def _moment(text: str | None) -> datetime | None:
    return times.parse(text) if text else None
