"""The memory of decisions: what is kept, what is not written twice, and that it stays small."""

import pytest
from redis.exceptions import RedisError

from scheduler.keys import Keys
from tests.support.tables import cases
from workers.api.kinds import JOB, POD, SCALED_JOB, Ref
from workers.decision.plan import (
    ComeBack,
    Create,
    Delete,
    Figure,
    HoldKey,
    MarkObject,
    PatchStatus,
    Plan,
    PollNow,
    RecordEvent,
    Together,
)
from workers.decision.snapshot import Snapshot
from workers.reconcile import decision_log as module
from workers.reconcile.decision_log import DecisionLog

KEYS = Keys("test")
WORK = Ref(SCALED_JOB, "default", "work")
WRITES = Plan((PatchStatus({}),), "2 waiting: 2 to create", (Figure("to create", 2, "2 - 0"),))


def seen(ref=WORK, **more):
    return Snapshot(ref, {"metadata": {"uid": "u1", "name": ref.name}}, **more)


async def test_a_decision_comes_back_with_figures_deeds_and_the_failure_before_it(client):
    decisions = DecisionLog(client, KEYS)
    await decisions.note([(seen(last_error="refused"), WRITES)])
    (known,) = await decisions.of(WORK)
    assert (known.uid, known.why, known.failed) == ("u1", WRITES.why, "refused")
    assert known.figures == WRITES.figures
    assert known.did == ("write the status",)
    assert known.times == 1
    assert known.at > 1_700_000_000_000_000


@cases(
    ("the longest", 2**63 - 1, 2**63 - 1),
    ("longer", 10**30, 1e30),
    ("less", -(10**30), -1e30),
    ("longer than any", 10**400, module.LARGEST),
    ("a fraction", 0.5, 0.5),
)
async def test_the_arithmetic_of_any_answer_of_a_source_is_logged(value, read, client):
    decisions = DecisionLog(client, KEYS)
    await decisions.note([(seen(), Plan((), "much", (Figure("queue", value),)))])
    (known,) = await decisions.of(WORK)
    assert known.figures == (Figure("queue", read),)


@cases(
    ("the same deed twice is counted", [WRITES, WRITES], [("2 waiting: 2 to create", 2)]),
    ("the same words twice are one", [Plan((), "idle"), Plan((), "idle")], [("idle", 1)]),
    (
        "words that are known are no news after a deed",
        [Plan((PatchStatus({}),), "idle"), Plan((), "idle"), Plan((), "idle")],
        [("idle", 1)],
    ),
    (
        "another deed of the same words is news",
        [Plan((PatchStatus({}),), "idle"), Plan((Delete(WORK, "u1"),), "idle")],
        [("idle", 1), ("idle", 1)],
    ),
    (
        "looking again is no deed",
        [Plan((ComeBack(None), PollNow()), "idle"), Plan((ComeBack(None), PollNow()), "idle")],
        [("idle", 1)],
    ),
    ("new figures are news", [Plan((), "idle"), Plan((), "idle", (Figure("queue", 1),))], [("idle", 1), ("idle", 1)]),
    ("the newest comes first", [Plan((), "a"), Plan((), "b"), Plan((), "a")], [("a", 1), ("b", 1), ("a", 1)]),
    ("a decision without a reason", [Plan((PatchStatus({}),), "")], []),
)
async def test_what_is_remembered(plans, kept, client):
    decisions = DecisionLog(client, KEYS)
    for plan in plans:
        await decisions.note([(seen(), plan)])
    assert [(each.why, each.times) for each in await decisions.of(WORK)] == kept


async def test_another_process_does_not_repeat_what_is_there(client):
    for _ in range(2):
        await DecisionLog(client, KEYS).note([(seen(), Plan((), "idle"))])
    assert [each.times for each in await DecisionLog(client, KEYS).of(WORK)] == [1]


async def test_there_are_never_more_than_so_many_of_so_many(client, monkeypatch):
    monkeypatch.setattr(module, "PER_OBJECT", 3)
    monkeypatch.setattr(module, "OBJECTS", 2)
    decisions = DecisionLog(client, KEYS)
    refs = [Ref(SCALED_JOB, "default", name) for name in "abc"]
    for ref in refs:
        for number in range(5):
            await decisions.note([(seen(ref), Plan((), f"{number}"))])
    job = Ref(JOB, "default", "a")
    await decisions.note([(seen(job), Plan((), "of another kind"))])
    assert [[each.why for each in await decisions.of(ref)] for ref in (*refs, job)] == [
        [],
        ["4", "3", "2"],
        ["4", "3", "2"],
        ["of another kind"],
    ]
    assert len(await client.keys("*")) == 5


async def test_what_cannot_be_read_is_none(client):
    decisions = DecisionLog(client, KEYS)
    await decisions.note([(seen(), Plan((), "good"))])
    await client.lpush("{test}:decision:" + WORK.key, 'digest 1 5 {"why": 3}', "x")
    assert [each.why for each in await decisions.of(WORK)] == ["good"]


async def test_a_broker_that_refuses_costs_the_log_only(client, monkeypatch):
    decisions = DecisionLog(client, KEYS)

    async def refuses(*_):
        raise RedisError("no")

    monkeypatch.setattr(module, "_STORE", refuses)
    await decisions.note([(seen(), WRITES)])
    assert await decisions.of(WORK) == []


async def test_a_list_of_a_wrong_type_is_set_aside(client):
    decisions = DecisionLog(client, KEYS)
    await client.set("{test}:decision:" + WORK.key, "not a list")
    with pytest.raises(RedisError):
        await decisions.of(WORK)
    await decisions.note([(seen(), WRITES)])
    assert [each.why for each in await decisions.of(WORK)] == [WRITES.why]
    assert await client.get("{test}:generation") is None, "no work was lost"


def test_deeds_in_words():
    steps = (
        Together((Create(JOB, {}), Create(JOB, {}), Delete(Ref(POD, "default", "p"), "u"))),
        RecordEvent("Normal", "Made", "2 Jobs"),
        Delete(WORK, "u"),
        PollNow(),
        MarkObject(WORK),
        HoldKey(1.0),
        ComeBack(None),
    )
    assert list(module.done(steps)) == [
        "Create 2 Jobs",
        "Delete 1 Pod",
        "Record Made",
        "Delete ScaledJob",
        "ask for a fresh reading",
    ]
