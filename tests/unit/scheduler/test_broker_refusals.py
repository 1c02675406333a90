"""Answers of a server after which another one is asked, or the same one later."""

from redis import exceptions

from scheduler.broker import refusals
from scheduler.broker.address import parse
from tests.support.tables import cases, for_each


@for_each(exceptions.AskError("1 a:1"), exceptions.TryAgainError("keys are on their way"))
def test_a_slot_that_moves_is_an_outage_in_a_cluster_alone(error: exceptions.ResponseError) -> None:
    assert refusals.is_elsewhere(error, parse("redis://a/0?cluster=true"))
    assert not refusals.is_elsewhere(error, parse("redis://a/0"))


@for_each(
    exceptions.ReadOnlyError("You can't write against a read only replica."),
    exceptions.MasterDownError("Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
    exceptions.ResponseError("UNBLOCKED force unblock from blocking operation, instance state changed"),
)
def test_a_server_that_became_a_replica_is_an_outage(error: exceptions.ResponseError) -> None:
    assert refusals.is_elsewhere(error, parse("redis://a/0"))


@cases(
    ("no memory", exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), True),
    ("no replicas", exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."), True),
    ("a full disk", exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots, but cannot"), True),
    ("a script that runs on", exceptions.ResponseError("BUSY Redis is busy running a script."), True),
    ("a group of a stream that exists", exceptions.ResponseError("BUSYGROUP the name exists"), False),
    ("a wrong type", exceptions.ResponseError("WRONGTYPE Operation against a key"), False),
    ("no permission", exceptions.NoPermissionError("User x has no permissions to run the 'set' command"), False),
)
def test_refusals_that_end_by_themselves(error: exceptions.ResponseError, ends: bool) -> None:
    assert refusals.is_for_now(error) is ends
