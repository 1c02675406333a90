"""Commands: requests that take effect once. A Command without a valid target is deleted here with an Event."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from workers.api import references
from workers.api.kinds import COMMAND, QUEUE, VC_JOB, Object, Ref, ref_of
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING, ComeBack, Delete, Plan, RecordEvent, Together
from workers.decision.snapshot import Snapshot

#: Kinds whose controllers carry Commands out.
GRANTING = (QUEUE, VC_JOB)
#: Interval of checks for the target: its deletion does not notify its Commands.
RECHECK = timedelta(minutes=1)


def in_order(snapshot: Snapshot) -> list[Object]:
    """Returns the Commands for the observed object in the order of their creation."""
    found = [entry.body for entry in snapshot.referrers.get(COMMAND.id, ()) if entry.body is not None]
    return sorted(found, key=_made)


def _made(command: Object) -> tuple[str, int, str]:
    """Orders Commands; within one second by the resourceVersion of their creation."""
    metadata = command["metadata"]
    return (metadata.get("creationTimestamp") or "", int(metadata.get("resourceVersion") or 0), metadata["name"])


def consumed(commands: Sequence[Object]) -> tuple[Together, ...]:
    """Returns the steps that delete these Commands."""
    steps = tuple(Delete(ref_of(COMMAND, body), body["metadata"]["uid"]) for body in commands)
    return (Together(steps),) if steps else ()


def target(command: Object) -> Ref | None:
    """Returns the target of a Command, None for a kind that takes no Commands."""
    ref = references.REFERENCES[COMMAND.id](command)
    return ref if ref and ref.kind in GRANTING else None


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Returns the next check of a Command with a valid target, which its controller carries out before.

    Any other is deleted with an Event.
    """
    command = snapshot.body
    if command is None or "deletionTimestamp" in command["metadata"]:
        return NOTHING
    ref = target(command)
    if ref and snapshot.relatives.get(ref) is not None:
        # A target that is deleted first leaves a Command without an owner reference behind.
        return Plan((ComeBack(now + RECHECK),), f"{ref} carries it out")
    named = command.get("target") or {}
    called = f"{named.get('kind') or 'nothing'} {named.get('name') or ''}".strip()
    why = f"{ref} does not exist" if ref else f"{called} takes no commands; Jobs of Volcano and Queues do"
    event = RecordEvent("Warning", "CommandDropped", f"{command.get('action') or 'a command without an action'}: {why}")
    return Plan((event, *consumed([command])), why)


def _relatives(command: Object) -> tuple[Ref, ...]:
    ref = target(command)
    return (ref,) if ref else ()


CONTROLLER = Controller(kind=COMMAND, decide=decide, relatives=_relatives, follows=GRANTING)
