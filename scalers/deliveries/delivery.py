"""The values of deliveries: one event for one EventJob, its state and its attempts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from workers.decision import claim_names

#: waiting: for room, its turn or the rate limit. delayed: for its time. running: it has a Job. retrying: for its next
#: attempt. done: its Job completed. parked: its last attempt failed. dropped: a user gave it up.
DeliveryState = Literal["waiting", "delayed", "running", "retrying", "done", "parked", "dropped"]
STATES: tuple[DeliveryState, ...] = ("waiting", "delayed", "running", "retrying", "done", "parked", "dropped")

AttemptOutcome = Literal["done", "failed", "returned"]


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One ended attempt. job: the Job's name. ended: µs, broker's clock."""

    job: str
    ended: int
    outcome: AttemptOutcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one EventJob.

    entry: names it among the deliveries: the id of its entry in the channel. attributes: the event's, without
    its data. key: its ordering key, None without one. arrived: when the channel took it; due: before when it gets no
    Job (both µs, broker's clock). attempts: those that ended, the oldest first. reason: of a parked or dropped one.
    replays: how often it was started anew after it had ended. claim: id and attempt of a running one's claim. data: the
    event's `data`, or `data_base64` as it is; None where it was not asked for or is gone. is_base64: data is the
    event's `data_base64`.
    """

    entry: str
    attributes: Mapping[str, str]
    state: DeliveryState
    arrived: int
    due: int = 0
    key: str | None = None
    attempts: tuple[DeliveryAttempt, ...] = ()
    reason: str = ""
    replays: int = 0
    claim: tuple[str, int] | None = None
    data: str | None = None
    is_base64: bool = False

    def job(self, eventjob: str, uid: str) -> str | None:
        """Returns the name of the running attempt's Job, None if none runs. A delivery just claimed awaits its Job.

        eventjob, uid: name and uid of its EventJob.
        """
        return claim_names.of_event(eventjob, uid, *self.claim) if self.claim else None


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """The deliveries that are asked for. since, until: of their arrival (µs). type: of the event, exactly."""

    states: frozenset[DeliveryState] = frozenset(STATES)
    type: str | None = None
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Some deliveries, the newest first. after: passed on to read the following ones; None at the end."""

    deliveries: tuple[Delivery, ...]
    after: str | None = None
