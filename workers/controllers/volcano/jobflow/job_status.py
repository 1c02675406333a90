"""What a flow's status tells of its Jobs one by one, and how long that may wait.

Every write of a status costs by its length, and each Job passes through several phases: a long flow that told of each
at once would be busy with nothing else. What is remembered of entries never waits, nor does the flow's own phase.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.controllers.volcano.jobflow import status, tracks
from workers.controllers.volcano.jobflow.observed import ObservedFlow
from workers.controllers.volcano.jobflow.tracks import Track

#: Nodes of a flow so short that all is told at once, and how long a Job of any other is in its phase before it is.
FEW, WAIT = 100, timedelta(seconds=2)
#: Fields of a status that tell of Jobs.
TOLD = frozenset({*status.LISTS.values(), "jobStatusList", "conditions", "entries"})


def of_jobs(sight: ObservedFlow, known: Mapping[str, Track]) -> Object:
    """Histories and conditions. known: how far each node is."""
    places = {track.job: place for place, track in enumerate(known.values())}
    listed = sorted(
        sight.jobs.values(),
        key=lambda job: (places.get(job["metadata"]["name"], len(places)), job["metadata"]["name"]),
    )
    observed = sight.status.get("jobStatusList") or ()
    found = status.histories(observed, listed, sight.now)
    if len(found) > status.LISTED:
        found = status.shortened(found, observed, sight.settled)
    names = {each["name"] for each in found}
    told = (job for job in listed if job["metadata"]["name"] in names)
    return {"jobStatusList": found, "conditions": status.conditions(told)}


def waits(sight: ObservedFlow, known: Mapping[str, Track], new: Object) -> datetime | None:
    """Until when this status need not be written; None when it is written now. known: how far each node is."""
    if len(sight.nodes) <= FEW or _has_facts(sight, known, new):
        return None
    before, after = sight.status.get("conditions") or {}, new.get("conditions") or {}
    changed = [name for name, condition in after.items() if before.get(name) != condition]
    if not changed or not before.keys() <= after.keys():
        return None
    due = min(min(_since(sight.jobs[name]) or sight.now for name in changed), sight.now) + WAIT
    return due if due > sight.now else None


def _has_facts(sight: ObservedFlow, known: Mapping[str, Track], new: Object) -> bool:
    """Whether a status says something new beside what phase Jobs are in that have not ended."""
    observed = sight.status
    if any(observed.get(name) != new.get(name) for name in (observed.keys() | new.keys()) - TOLD):
        return True
    changed = (id for id, track in known.items() if track is not sight.remembered[id])
    return any(_fact(sight.remembered[id]) != _fact(known[id]) for id in changed)


def _fact(track: Track) -> tuple[object, ...]:
    phase = track.phase if track.over or track.phase == tracks.RETRYING else None
    return phase, track.job, track.attempts, track.before, track.ended, track.again, track.reason, track.message


def _since(job: Object) -> datetime | None:
    """Since when a Job is as it is."""
    state = (job.get("status") or {}).get("state") or {}
    moment = state.get("lastTransitionTime") or job["metadata"].get("creationTimestamp")
    return times.parse(moment) if moment else None
