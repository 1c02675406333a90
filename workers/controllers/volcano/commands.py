"""Commands: wishes that take effect once. Those that nobody can grant are answered here, so that none stays."""

from collections.abc import Sequence
from datetime import datetime

from workers.api import references
from workers.api.kinds import COMMAND, QUEUE, VC_JOB, Object, Ref, ref_of
from workers.reconcile.controller import Controller
from workers.reconcile.plan import NOTHING, Delete, Plan, RecordEvent, Together
from workers.reconcile.snapshot import Snapshot

#: Kinds whose own decisions grant what Commands ask of their objects.
GRANTING = (QUEUE, VC_JOB)


def in_order(snapshot: Snapshot) -> list[Object]:
    """The Commands that name the observed object, in the order in which they were made."""
    found = [entry.body for entry in snapshot.referrers.get(COMMAND.id, ()) if entry.body is not None]
    return sorted(found, key=_made)


def _made(command: Object) -> tuple[str, int, str]:
    """When a Command was made; within one second its version tells, which only its creation has given it."""
    metadata = command["metadata"]
    return (metadata.get("creationTimestamp") or "", int(metadata.get("resourceVersion") or 0), metadata["name"])


def consumed(commands: Sequence[Object]) -> tuple[Together, ...]:
    """The steps after which these Commands are gone."""
    steps = tuple(Delete(ref_of(COMMAND, body), body["metadata"]["uid"]) for body in commands)
    return (Together(steps),) if steps else ()


def target(command: Object) -> Ref | None:
    """Whom a Command is about, if that is an object of a kind that knows Commands."""
    ref = references.REFERENCES[COMMAND.id](command)
    return ref if ref and ref.kind in GRANTING else None


def decide(snapshot: Snapshot, _now: datetime) -> Plan:
    """Nothing for a Command that somebody will grant; any other is told why nobody does, and is gone."""
    command = snapshot.body
    if command is None or "deletionTimestamp" in command["metadata"]:
        return NOTHING
    ref = target(command)
    if ref and snapshot.relatives.get(ref) is not None:
        return NOTHING
    named = command.get("target") or {}
    called = f"{named.get('kind') or 'nothing'} {named.get('name') or ''}".strip()
    why = f"{ref} does not exist" if ref else f"{called} takes no commands; Jobs of Volcano and Queues do"
    told = RecordEvent("Warning", "CommandDropped", f"{command.get('action') or 'a command without an action'}: {why}")
    return Plan((told, *consumed([command])), why)


def _relatives(command: Object) -> tuple[Ref, ...]:
    ref = target(command)
    return (ref,) if ref else ()


CONTROLLER = Controller(kind=COMMAND, decide=decide, relatives=_relatives, follows=GRANTING)
