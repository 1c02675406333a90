"""The account of a soak: it is even for correct runs alone."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as redis

from scheduler.keys import Keys
from scheduler.queue import Done, Lane
from tests.soak import witness
from tests.soak.account import UNKNOWN, Account, Note, Promise
from tests.soak.loads import Load, nothing, slots
from tests.soak.rest import more, pattern
from tests.soak.vitals import LONG, WARM, Vital, Vitals
from tests.support.paths import ROOT
from tests.support.tables import cases, for_each
from workers.runtime.leases import LeaseKeeper


def note(what: str, work: str = "a", job: str = "j1", at: float = 0.0) -> Note:
    return Note("work", job, "p", what, work, at)


def run(work: str = "a", job: str = "j1", at: float = 0.0) -> list[Note]:
    return [note("begin", work, job, at), note("end", work, job, at + 1)]


def test_a_run_in_which_each_work_was_done_once_is_even() -> None:
    account = Account({"work": Promise(["a", "b"])}, [*run("a"), *run("b", "j2"), note("idle", "")])
    assert account.faults() == []
    assert account.undone() == {}


@cases(
    ("never begun", Promise(["a", "b"]), run("a"), "1 lost"),
    ("begun and not ended", Promise(["a"]), [note("begin")], "1 lost"),
    ("failed", Promise(["a"]), [note("begin"), note("fail")], "1 lost"),
    ("a stranger", Promise(["a"]), run("a") + run("b"), "never asked for"),
    ("by two Jobs", Promise(["a"]), run() + run(job="j2", at=5), "done twice"),
    ("by two pods of one Job", Promise(["a"]), run() + run(at=5), "done twice"),
    ("order", Promise(["a", "b"], key_of={"a": "k", "b": "k"}), run("b", at=0) + run("a", at=5), "before"),
    ("overlap", Promise(["a", "b"], key_of={"a": "k", "b": "k"}), run("a", at=0) + run("b", at=0.5), "before"),
)
def test_what_is_wrong_is_told(promise: Promise, notes: list[Note], said: str) -> None:
    [fault] = Account({"work": promise}, notes).faults()
    assert said in fault


def test_pods_of_an_object_that_is_none_of_the_soaks_are_told() -> None:
    assert Account({}, run()).faults() == ["work: pods of an object that is none of the soak's"]


@for_each(
    (Promise(["a"]), "j1", 0.5, True),
    (Promise(["a"]), "j1", 1 + UNKNOWN + 1, False),
    (Promise(["a"]), "j1", -1.0, False),
    (Promise(["a"]), "j2", 0.5, False),
    (Promise(["a"], jobs=False), "j2", 0.5, True),
    (Promise(["a"], once=False), "j2", -1.0, True),
)
def test_only_the_death_of_a_kubelet_excuses_a_second_attempt(
    promise: Promise, second: str, death: float, even: bool
) -> None:
    notes = run(at=0.0) + run(job=second, at=30.0)
    assert (Account({"work": promise}, notes, [death]).faults() == []) is even
    assert Account({"work": promise}, notes, [death]).repeated() == {"work": 1}


def test_works_that_nobody_asked_for_are_right_where_an_object_feeds_itself() -> None:
    assert Account({"work": Promise(open=True)}, run()).faults() == []
    assert Account({"work": Promise(open=True)}, run() + run(job="j2", at=3)).faults() != []


def test_the_slots_of_a_schedule_are_those_after_its_creation() -> None:
    load = Load("every", [], 1, nothing, created=100.4)
    assert slots(load, 5, 1, 115.9) == ["every-105", "every-110", "every-115"]
    assert slots(load, 60, 60, 240.0) == ["every-2", "every-3", "every-4"]


def life(memory: Any, descriptors: Any = lambda _age: 20) -> Vitals:
    ages = [WARM + age for age in range(1, int(3 * LONG), 3)]
    samples = [Vital(age, memory(age - WARM), descriptors(age - WARM)) for age in [1.0, *ages]]
    vitals = Vitals()
    vitals.samples["worker", 1] = samples
    return vitals


def test_a_process_that_grows_is_told() -> None:
    assert life(lambda age: 80 + age % 7).growing() == []
    assert life(lambda age: 80 if age < 0 else 120).growing() == [], "it grew while it warmed up"
    [memory] = life(lambda age: 80 + age / 2).growing()
    assert "MiB" in memory
    [files] = life(lambda _: 80, lambda age: 20 + int(age / 2)).growing()
    assert "descriptors" in files


def test_a_life_that_was_too_short_says_nothing() -> None:
    vitals = Vitals()
    vitals.samples["worker", 1] = [Vital(WARM + age, 10.0 * age, 20) for age in range(int(LONG) - 2)]
    assert vitals.growing() == []


def test_keys_are_told_by_their_pattern() -> None:
    uid = "0d5b0e5c-7c0d-4e19-9d1c-3f6f6c1c2d3e"
    assert pattern(f"{{penstock}}:deliveries:{uid}:ended") == "{penstock}:deliveries:UID:ended"
    assert pattern("{penstock}:lane:poll:call:00ff00ff00ff00ff") == "{penstock}:lane:poll:call:HEX"
    assert more({"a": 1, "b": 2}, {"a": 2, "b": 2, "c": 1}) == {"a": (1, 2), "c": (0, 1)}


def test_a_deleted_object_may_leave_its_tombstone() -> None:
    buried = {"{p}:objects:jobs.batch": 3, "{p}:gone:jobs.batch": 3, "{p}:owners:jobs.batch": 3}
    assert more({}, buried) == {}
    assert more({}, {**buried, "{p}:objects:jobs.batch": 4}) == {"{p}:objects:jobs.batch": (0, 4)}
    assert set(more({}, buried, buried=False)) == set(buried)


def test_a_reading_makes_no_more_jobs_than_it_justifies() -> None:
    asked = [note("asked", "17 2", job) for job in ("j1", "j1", "j2")]
    promise = Promise(["a"])
    assert Account({"work": promise}, [*asked, *run()]).faults() == []
    [fault] = Account({"work": promise}, [*asked, note("asked", "17 2", "j3"), *run()]).faults()
    assert "3 Jobs of reading 17, which justifies 2" in fault


@cases(
    ("in turn", ["k 1 start 0", "k 1 effect 1", "k 1 settled 1", "k 2 start 1.1", "k 2 effect 2"], 0),
    ("a write of a former holder", ["k 1 start 0", "k 2 start 3", "k 1 effect 4"], 1),
    ("an outcome of a former holder", ["k 1 start 0", "k 2 start 3", "k 1 settled 4"], 1),
    ("a holder whose lease somebody else settled", ["k 2 start 3", "k 2 refused 4"], 1),
)
def test_what_leases_forbid_is_told(lines: list[str], number: int, tmp_path: Path) -> None:
    (tmp_path / "7").write_text("".join(f"{line}\n" for line in lines))
    assert len(witness.faults(tmp_path)) == number
    assert witness.holder(tmp_path, "k") == 7
    assert witness.holder(tmp_path, "l") is None


async def test_the_witness_notes_what_a_keeper_of_leases_does(
    tmp_path: Path, fake_redis: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for patched in ("take", "check", "_finish"):
        monkeypatch.setattr(LeaseKeeper, patched, getattr(LeaseKeeper, patched))
    witness.install(tmp_path)
    lane = Lane(fake_redis, "reconcile", Keys("test"), lease=30.0)
    await lane.open()
    await lane.mark(["a", "b", "c"])
    keeper = LeaseKeeper(lane, _notify, lease=30.0)
    leases = (await lane.claim(3)).leases
    keeper.take(leases)
    keeper.check(leases[0])
    await keeper.settle(leases[0], Done())
    await keeper.settle_all([(leases[1], Done())])
    await keeper.settle_all([(leases[2], Done())], lane.finish)
    await keeper.close()
    noted = [line.split()[2] for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert noted == ["start"] * 3 + ["effect"] + ["settled"] * 3
    assert witness.faults(tmp_path) == []


async def _notify(_notifications: Mapping[str, int]) -> None:
    """Nothing waits for these keys."""


def test_every_fence_stands_where_it_is_taken_out() -> None:
    program = "from tests.soak.fences import FENCES, take_out\nfor name in FENCES: take_out(name)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
