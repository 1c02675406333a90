"""The status of a flow: Volcano's lists, histories and conditions, and the throttling of its writes.

A status write costs by its length, and each Job passes through several phases: the phases of single Jobs in a long
flow are written with a delay. Tracks that ended, attempts and the flow's phase never wait.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice

from scheduler.cron.durations import duration
from scheduler.cron.errors import CronError
from workers.api import times
from workers.api.conditions import moved
from workers.api.kinds import Object
from workers.controllers.volcano.jobflow import node_progress as tracks
from workers.controllers.volcano.jobflow.job_creation import StartRound
from workers.controllers.volcano.jobflow.node_progress import COMPLETED, Track
from workers.controllers.volcano.jobflow.observed import LONG, ObservedFlow
from workers.controllers.volcano.jobflow.progress import Tracks
from workers.flows.flow_nodes import FlowNode

#: By phase of a Job, its list. Completing and Terminating have none.
LISTS: Mapping[str, str] = {
    "Pending": "pendingJobs",
    "Running": "runningJobs",
    "Failed": "failedJobs",
    "Completed": "completedJobs",
    "Terminated": "terminatedJobs",
    "": "unKnowJobs",
    "Restarting": "unKnowJobs",
    "Aborting": "unKnowJobs",
    "Aborted": "unKnowJobs",
}

#: Most histories of a status, and phases of each: etcd limits the size of an object.
LISTED, PHASES = 1000, 50
#: Cached ends: finished Jobs are rendered again with every status.
_KEPT = 4096


@dataclass(frozen=True, slots=True)
class FlowReady:
    """The FlowReady condition: everything that could start has started, or the reason why not."""

    status: str
    reason: str
    message: str

    def render(self, observed: Object, now: datetime) -> list[Object]:
        """Returns the conditions; the transition time changes with the status only."""
        ready = {"type": "Ready", "status": self.status, "reason": self.reason, "message": self.message}
        return [moved(ready, condition(observed), now)]

    def is_news(self, observed: Object) -> bool:
        """Returns True if the condition differs from the stored one."""
        before = condition(observed)
        return (before.get("reason"), before.get("message")) != (self.reason, self.message)


def condition(status: Object) -> Object:
    """Returns the stored condition; empty without one."""
    listed = status.get("flowConditions") or ()
    return next((dict(each) for each in listed if each.get("type") == "Ready"), {})


def lists(nodes: Iterable[FlowNode], tracks: Mapping[str, Track], jobs: Mapping[str, Object]) -> Object:
    """Returns the Jobs by phase: the newest of every node, even after its deletion."""
    found: dict[str, list[str]] = {name: [] for name in dict.fromkeys(LISTS.values())}
    for node in nodes:
        track = tracks[node.id]
        if track.job is None or track.taken:
            continue
        job = jobs.get(track.job)
        remembered = track.phase if track.over or track.live else "Failed"
        phase = _phase(job) if job is not None else remembered or ""
        if phase in LISTS:
            found[LISTS[phase]].append(track.job)
    return {name: listed or None for name, listed in found.items()}


def conditions(jobs: Iterable[Object]) -> Object:
    """Returns the conditions of the existing Jobs."""
    return {job["metadata"]["name"]: _condition(job) for job in jobs}


def _condition(job: Object) -> Object:
    status = job.get("status") or {}
    fields = {
        "phase": _phase(job) or None,
        "createTime": job["metadata"].get("creationTimestamp"),
        "runningDuration": status.get("runningDuration"),
        "taskStatusCount": status.get("taskStatusCount"),
    }
    return {key: value for key, value in fields.items() if value is not None}


def histories(observed: Sequence[Object], jobs: Iterable[Object], now: datetime) -> list[Object]:
    """Returns the history of every Job the flow has had."""
    there = {job["metadata"]["name"]: job for job in jobs}
    moment = times.render(now)
    kept = [_history(each, there.pop(each["name"], None), moment) for each in observed]
    return kept + [_history({"name": name}, job, moment) for name, job in there.items()]


def shortened(found: Sequence[Object], observed: Sequence[Object], settled: Collection[str]) -> list[Object]:
    """Returns at most LISTED histories. Those of the first settled Jobs go, and never return.

    observed: the stored list. settled: names of Jobs whose end is stored.
    """
    known = {each["name"] for each in observed}
    kept = [each for each in found if each["name"] in known or each["name"] not in settled]
    over = (each["name"] for each in kept if each["name"] in settled)
    surplus = frozenset(islice(over, max(0, len(kept) - LISTED)))
    return [each for each in kept if each["name"] not in surplus]


def _history(before: Object, job: Object | None, now: str) -> Object:
    if job is None:
        return before
    status, created = job.get("status") or {}, job["metadata"].get("creationTimestamp")
    phase = _phase(job)
    fields = {
        **before,
        "state": phase or None,
        "startTimestamp": created,
        "endTimestamp": _end(created, status.get("runningDuration")),
        "restartCount": status.get("retryCount") or 0,
        "runningHistories": list(_states(before.get("runningHistories") or (), phase, now)) or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _states(before: Sequence[Object], phase: str, now: str) -> Iterator[Object]:
    """Yields the phases of a Job; the last is open."""
    if not before:
        if phase:
            yield {"startTimestamp": now, "state": phase}
        return
    if before[-1].get("state") == phase:
        yield from before
    else:
        yield from before[1 - PHASES : -1]
        yield {**before[-1], "endTimestamp": now}
        yield {"startTimestamp": now, "state": phase}


@lru_cache(_KEPT)
def _end(created: str | None, took: str | None) -> str | None:
    """Returns the end of a Job: creation plus running duration."""
    if not created or not took:
        return None
    try:
        return times.render(times.parse(created) + duration(took))
    except (CronError, OverflowError):
        return None


def _phase(job: Object) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "")


def merged(observed: Object, computed: Object) -> Object:
    """Returns the status to write: fields that are not computed stay, empty fields go."""
    return {key: value for key, value in {**observed, **computed}.items() if value not in (None, [], {})}


#: Up to so many nodes nothing waits; in a longer flow a Job's phase is written after a delay.
SHORT = 100
#: That delay, up to `GROWS` nodes, in proportion to the nodes beyond, and at most: a status grows with its flow, and of
#: a thousand entries it takes an API server a quarter of a second to write.
JOB_DELAY, GROWS, LONGEST_DELAY = timedelta(seconds=2), 250, timedelta(seconds=10)
#: Fields about single Jobs.
JOB_FIELDS = frozenset({*LISTS.values(), "jobStatusList", "conditions", "entries"})


def job_lists(view: ObservedFlow, known: Mapping[str, Track]) -> Object:
    """Returns histories and conditions. known: the tracks."""
    places = {track.job: place for place, track in enumerate(known.values())}
    listed = sorted(
        view.jobs.values(),
        key=lambda job: (places.get(job["metadata"]["name"], len(places)), job["metadata"]["name"]),
    )
    observed = view.status.get("jobStatusList") or ()
    found = histories(observed, listed, view.now)
    if len(found) > LISTED:
        found = shortened(found, observed, view.settled)
    names = {each["name"] for each in found}
    kept = (job for job in listed if job["metadata"]["name"] in names)
    return {"jobStatusList": found, "conditions": conditions(kept)}


def delay(nodes: int) -> timedelta:
    """Returns how long what a flow of so many nodes need not write at once may wait."""
    return min(JOB_DELAY * max(1, nodes / GROWS), LONGEST_DELAY)


def held_back_until(view: ObservedFlow, made: StartRound, known: Tracks, summary: Object) -> datetime | None:
    """Returns the time until which the write may wait; None to write now.

    made: the starts of this decision. known: the tracks after it. summary: what the status is to say about the flow as
    a whole.
    """
    if len(view.graph.nodes) <= SHORT or _has_facts(view, made, known, summary):
        return None
    before = view.status.get("conditions") or {}
    _compare(view, before)
    if view.stored.missing:
        return None
    differing = view.stored.differing
    changed: Collection[str] = differing
    if len(view.jobs) > LISTED:
        settled = view.settled
        changed = [name for name in differing if name in before or name not in settled]
    if not changed:
        return None
    due = min(*map(differing.__getitem__, changed), view.now) + delay(len(view.graph.nodes))
    return due if due > view.now else None


def _compare(view: ObservedFlow, before: Object) -> None:
    """Compares the Jobs that changed with the conditions of the status, `before`."""
    stored = view.stored
    while stored.uncompared:
        name = stored.uncompared.pop()
        job = view.jobs.get(name)
        stored.missing.discard(name)
        stored.differing.pop(name, None)
        if job is None:
            stored.missing.update({name} & before.keys())
        elif before.get(name) != _condition(job):
            stored.differing[name] = _since(job) or view.now


def _has_facts(view: ObservedFlow, made: StartRound, known: Tracks, summary: Object) -> bool:
    """Returns True if the status changes in more than the phases of live Jobs and what existing Jobs prove."""
    observed = {name: value for name, value in view.status.items() if name not in JOB_FIELDS}
    if merged(observed, summary) != observed:
        return True
    at_once = len(view.graph.nodes) <= LONG or made.more or made.missing or view.tries_again
    remembered = view.remembered
    # An end that was found again is found by the next decision, too.
    changed = (known.changed | view.differing) - (set() if at_once else view.stored.found_again)
    facts = [
        id for id in changed if (track := known[id]) is not (before := remembered[id]) and _fact(before) != _fact(track)
    ]
    if at_once:
        return bool(facts)
    names = {job["metadata"]["name"] for job in made.jobs}
    return not all(_is_found_again(view, id, known[id], names) for id in facts)


def _is_found_again(view: ObservedFlow, id: str, track: Track, made: Collection[str]) -> bool:
    """Returns True if the next decision finds this fact without the status. made: Jobs that this decision creates."""
    before = view.remembered[id]
    if track.attempts != 1 or track.before or before.over or before.phase == tracks.RETRYING or track.reason:
        return False
    if track.live:
        return track.job in made or track.job in view.jobs
    if track.phase != COMPLETED:
        return False
    node = view.graph.by_id[id]
    if view.is_proven(node):
        # Nothing takes this back before the status is written: a Job that is gone leaves a tombstone for longer.
        view.stored.found_again.add(id)
        return True
    return view.is_proven(node, made)


def _fact(track: Track) -> tuple[object, ...]:
    phase = track.phase if track.over or track.phase == tracks.RETRYING else None
    return phase, track.job, track.attempts, track.before, track.ended, track.retry_at, track.reason, track.message


def _since(job: Object) -> datetime | None:
    """Returns the time of a Job's last transition."""
    state = (job.get("status") or {}).get("state") or {}
    moment = state.get("lastTransitionTime") or job["metadata"].get("creationTimestamp")
    return times.parse(moment) if moment else None
