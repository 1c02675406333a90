"""A broker that is lost and restored: what a backup holds, and what runs again."""

import asyncio
import gzip
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis.asyncio as redis

from deploy.backup import archive, resettle, restoring, taking
from deploy.backup.archive import SavedKey, VerifiedBackup
from deploy.backup.resettle import MadeClaim
from penstock._broker_format import RESTORING, FormatRefused
from penstock.client import AsyncEventStream, Event
from scheduler.broker import clients
from scheduler.keys import Keys
from tests.support.conditions import eventually
from tests.support.event_jobs import KEYS, PolledEventJob, spec_of
from tests.support.paths import ROOT
from tests.support.tables import cases, for_each
from workers import wiring
from workers.decision.claims import ClaimSettlement
from workers.errors import UserError
from workers.settings import Settings

pytestmark = pytest.mark.broker


async def everything(client: redis.Redis) -> dict[str, dict[str, SavedKey]]:
    """All that a backup would hold, without times of deliveries of pending entries."""
    found = {name: saved async for name, saved in taking.objects(client, KEYS)}
    for saved in found.values():
        for key, each in saved.items():
            if each.type == "stream":
                entries, last, groups = each.value
                shown = [[name, at, [[row[0], row[1], row[3]] for row in rows]] for name, at, rows in groups]
                saved[key] = SavedKey("stream", None, [entries, last, sorted(shown)])
            if each.type == "string":
                saved[key] = SavedKey("string", None, each.value)
            if each.type in ("hash", "set", "zset"):
                step = 1 if each.type == "set" else 2
                rows = [each.value[i : i + step] for i in range(0, len(each.value), step)]
                saved[key] = SavedKey(each.type, None, sorted(_comparable(row) for row in rows))
    return found


def _comparable(row: list[bytes]) -> list[object]:
    """Records are JSON whose fields may change places."""
    return [
        orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS) if text.startswith(b'{"') else text
        for text in row
    ]


async def taken(client: redis.Redis, path: Path) -> VerifiedBackup:
    await taking.take(client, KEYS, path)
    return archive.verify(path)


async def worked(client: redis.Redis) -> PolledEventJob:
    """An EventJob with deliveries in every state, an intake of a ScaledJob, and a list with its ledger."""
    job = PolledEventJob(client, spec_of(concurrency={"total": 9, "orderingKey": "event.subject"}))
    for id in ("done", "parked", "retrying", "running"):
        await job.push(id, subject=id)
    await job.push("first", "second", subject="one")
    await job.poll(5)
    await job.settle("done", "done", limit=5)
    await job.settle("parked", "parked", limit=4, reason="it failed")
    await job.settle("retried", "retrying", limit=3, attempt=1, delay=3_600_000)
    await job.push("later", subject="later")
    scans = "{penstock}:events:default/scans:accepted"
    await client.xadd(scans, {"specversion": "1.0", "id": "s", "data": b"\xff\x00"})
    await client.xgroup_create(scans, "penstock", "0")
    await client.xreadgroup("penstock", "pod-1", {scans: ">"})
    await client.rpush("work", "a", "b")
    await client.hset("{work}:penstock:0b5fe9f1-3f0c-4f4e-8a38-4f3d0b9c7d11", mapping={"i:1": "c", "last": "1"})
    await client.hset("{penstock}:beat:runs", "nightly", "1763")
    await client.zadd("{penstock}:decisions", {"default/a": 1})
    await client.rpush("{penstock}:decision:default/a", "{}")
    await client.set("{penstock}:signature:x", "4711", ex=300)
    await client.hset("{penstock}:objects:jobs.batch", "default/a", "derived")
    return job


async def lost(client: redis.Redis, path: Path) -> tuple[dict[str, dict[str, SavedKey]], VerifiedBackup]:
    """What a broker at work held before it was emptied, and its backup."""
    await worked(client)
    before = await everything(client)
    backup = await taken(client, path)
    await client.flushall()
    return before, backup


async def test_everything_comes_back_as_it_was_and_what_is_derived_does_not(
    real_redis: redis.Redis, tmp_path: Path
) -> None:
    before, backup = await lost(real_redis, tmp_path / "b")
    await restoring.restore(real_redis, KEYS, backup, {})
    assert await everything(real_redis) == before
    assert len(before) == 7
    assert not await real_redis.exists("{penstock}:objects:jobs.batch", KEYS.restoring)
    assert 0 < await real_redis.ttl("{penstock}:signature:x") <= 300


async def test_an_event_that_is_added_after_a_restore_has_a_later_id_than_any_before_the_loss(
    real_redis: redis.Redis, tmp_path: Path
) -> None:
    await real_redis.xadd("{penstock}:events:default/x", {"a": "1"}, id="9999999999999-7")
    await real_redis.xtrim("{penstock}:events:default/x", maxlen=0)
    backup = await taken(real_redis, tmp_path / "b")
    await real_redis.flushall()
    await restoring.restore(real_redis, KEYS, backup, {})
    assert await real_redis.xadd("{penstock}:events:default/x", {"a": "2"}) == b"9999999999999-8"


class RunningCluster:
    """The Jobs of claims, which stay when the broker is lost. ran: how many Jobs each event has had."""

    def __init__(self) -> None:
        self.jobs: dict[tuple[str, int], str] = {}
        self.ran: dict[str, int] = {}

    async def decide(self, job: PolledEventJob, *, limit: int, most: int = 100) -> None:
        """Creates the Jobs that claims lack, ends at most so many, and settles claims whose Job has ended."""
        assert job.last is not None
        settlements = []
        for claim in job.last.claims:
            name = (claim.id, claim.attempt)
            if name not in self.jobs:
                event = orjson.loads(claim.item or "{}")["id"]
                self.jobs[name] = "flaky" if event.startswith("flaky") and not claim.attempt else "complete"
                self.ran[event] = self.ran.get(event, 0) + 1
            if len(settlements) < most:
                how = "retried" if self.jobs[name] == "flaky" else "done"
                settlements.append(ClaimSettlement(claim.id, how, attempt=1 if how == "retried" else 0, job="j"))
        await job.poll(limit, *settlements)

    def forget_all_but_the_last(self) -> None:
        """Of each event the Job of the last attempt stays."""
        last = {claim.entry: claim for claim in sorted(self.made()["u1"])}
        self.jobs = {name: how for name, how in self.jobs.items() if resettle.claim(*name) in last.values()}

    def made(self) -> dict[str, list[MadeClaim]]:
        claims = [resettle.claim(id, attempt) for id, attempt in self.jobs]
        return {"u1": [claim for claim in claims if claim]}


@cases(("all Jobs are kept", True), ("of an event the last Job is kept", False))
async def test_nothing_that_ran_after_the_backup_runs_again_and_nothing_in_it_is_lost(
    kept: bool, real_redis: redis.Redis, tmp_path: Path
) -> None:
    ids = [f"{'flaky' if n % 5 == 0 else 'e'}{n}" for n in range(60)]
    job, cluster = PolledEventJob(real_redis), RunningCluster()
    await job.push(*ids[:50])
    await job.poll(8)
    await cluster.decide(job, limit=8)
    await job.push(*ids[50:])
    backup = await taken(real_redis, tmp_path / "b")
    # Work goes on: some run, some are claimed, some retry.
    for _ in range(4):
        await cluster.decide(job, limit=8, most=5)
    ran = dict(cluster.ran)
    assert len(ran) > 20
    if not kept:
        cluster.forget_all_but_the_last()
    await real_redis.flushall()
    counts = await restoring.restore(real_redis, KEYS, backup, cluster.made())
    assert counts.advanced > 10
    again = PolledEventJob(real_redis, orders=job.orders)
    await again.poll(8)

    async def settled() -> bool:
        await cluster.decide(again, limit=8)
        assert again.last is not None
        return again.last.counts is not None and again.last.counts["done"] == 60

    await eventually(settled)
    assert sorted(cluster.ran) == sorted(ids)
    for event, times in cluster.ran.items():
        assert times == (2 if event.startswith("flaky") else 1), event


async def test_without_the_clusters_jobs_an_event_of_the_backup_runs_again(
    real_redis: redis.Redis, tmp_path: Path
) -> None:
    job = PolledEventJob(real_redis)
    await job.push("1")
    await job.carry_out(None)
    backup = await taken(real_redis, tmp_path / "b")
    await job.poll(1)
    await job.settle("done", "1")
    await real_redis.flushall()
    await restoring.restore(real_redis, KEYS, backup, {})
    assert await job.ids("waiting") == ["1"]


async def test_an_event_that_the_backup_lacks_is_counted(real_redis: redis.Redis, tmp_path: Path) -> None:
    job = PolledEventJob(real_redis)
    await job.push("1")
    await job.carry_out(None)
    backup = await taken(real_redis, tmp_path / "b")
    await real_redis.flushall()
    counts = await restoring.restore(real_redis, KEYS, backup, {"u1": [MadeClaim("99-0", 0, 0)]})
    assert (counts.advanced, counts.unknown) == (0, 1)


async def test_an_eventjob_that_joins_while_the_channel_is_read_is_in_the_backup(
    real_redis: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, late = PolledEventJob(real_redis), PolledEventJob(real_redis, uid="u2")
    await job.push("1")
    await job.carry_out(None)
    looked = taking._intakes

    async def joining(client: redis.Redis, keys: Keys, uids: set[str]) -> dict[str, str]:
        intakes = await looked(client, keys, uids)
        await late.carry_out(None)
        await job.push("2")
        await late.carry_out(None)
        return intakes

    monkeypatch.setattr(taking, "_intakes", joining)
    backup = await taken(real_redis, tmp_path / "b")
    await real_redis.flushall()
    await restoring.restore(real_redis, KEYS, backup, {})
    assert "2" in await late.ids("waiting")


async def test_an_eventjob_that_changes_its_channel_meanwhile_is_not_saved_with_both(
    real_redis: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore would refuse the second: its deliveries are there already."""
    job, other = PolledEventJob(real_redis), PolledEventJob(real_redis, uid="u2", channel="orders-too")
    for each in (job, other):
        await each.push("1")
        await each.carry_out(None)
    whole = taking._whole

    async def moving(*arguments: Any) -> dict[str, SavedKey]:
        saved = await whole(*arguments)
        if job.channel == "orders" and KEYS.deliveries("u1").of("meta") in saved:
            job.channel = "orders-too"
            for _ in range(3):
                await job.carry_out(None)
        return saved

    monkeypatch.setattr(taking, "_whole", moving)
    with pytest.raises(UserError, match="take the backup again"):
        await taking.take(real_redis, KEYS, tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


# --- refusals


def rewritten(path: Path, change: dict[str, object]) -> Path:
    lines = gzip.decompress(path.read_bytes()).splitlines()
    lines[0] = orjson.dumps({**orjson.loads(lines[0]), **change})
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    return path


async def test_a_file_that_is_not_whole_is_refused_before_anything_is_written(
    real_redis: redis.Redis, tmp_path: Path
) -> None:
    await worked(real_redis)
    path = tmp_path / "b"
    await taken(real_redis, path)
    whole = path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0, "events may be confidential"
    for size in (0, 5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"truncated|damaged|no backup"):
            archive.verify(path)
    lines = gzip.decompress(whole).splitlines(keepends=True)
    for broken in (lines[:-1], [*lines[:1], *lines[2:]], [*lines, b"{}\n"], [b"{}\n"], [b"no\n"]):
        path.write_bytes(gzip.compress(b"".join(broken)))
        with pytest.raises(UserError, match=r"truncated|damaged|follows its end|no backup"):
            archive.verify(path)
    # Behind whole objects that can be read it says how many there are.
    random = archive.SavedKey("string", None, [os.urandom(2_000_000)])
    header = archive.BackupHeader("penstock", "2026-01-01T00:00:00Z", "redis 7")
    writer = archive.BackupWriter(path, header)
    for name in ("a", "b", "c"):
        writer.add(name, {name: random})
    writer.finish()
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 5 // 6])
    with pytest.raises(UserError, match="is truncated after 2 objects"):
        archive.verify(path)
    path.write_bytes(whole)
    with pytest.raises(UserError, match="has format 2"):
        archive.verify(rewritten(path, {"penstock-backup": 2}))


async def test_a_backup_of_another_prefix_and_a_broker_with_work_are_refused(
    real_redis: redis.Redis, tmp_path: Path
) -> None:
    await worked(real_redis)
    backup = await taken(real_redis, tmp_path / "b")
    before = await everything(real_redis)
    with pytest.raises(UserError, match=r"is not empty: it has [{]penstock[}]:"):
        await restoring.restore(real_redis, KEYS, backup, {})
    with pytest.raises(UserError, match="restore it with --prefix penstock"):
        await restoring.restore(real_redis, Keys("other"), backup, {})
    assert await everything(real_redis) == before


async def test_while_a_process_of_penstock_is_connected_nothing_is_restored(
    real_redis: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    _, backup = await lost(real_redis, tmp_path / "b")
    async with clients.client(redis_url, client_name="penstock/1.0") as process:
        await process.ping()
        with pytest.raises(UserError, match="processes of Penstock are connected"):
            await restoring.restore(real_redis, KEYS, backup, {})
    assert await real_redis.dbsize() == 0


@for_each(None, b"1")
async def test_a_process_that_connects_before_the_marker_is_there_stops_the_restore(
    form: bytes | None, real_redis: redis.Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, backup = await lost(real_redis, tmp_path / "b")
    if form:
        await real_redis.set(KEYS.format, form)
    await _overtaken(real_redis, redis_url, backup, monkeypatch)
    assert await real_redis.get(KEYS.format) == form
    assert await real_redis.keys("*") == ([KEYS.format.encode()] if form else [])
    await restoring.restore(real_redis, KEYS, backup, {})
    assert await everything(real_redis) == before
    assert await real_redis.get(KEYS.format) == form


async def test_a_process_that_connects_to_half_of_a_backup_leaves_the_marker(
    real_redis: redis.Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, backup = await lost(real_redis, tmp_path / "b")
    await _broken_off(real_redis, backup, monkeypatch)
    await _overtaken(real_redis, redis_url, backup, monkeypatch)
    assert await real_redis.get(KEYS.format) == RESTORING.encode()
    counts = await restoring.restore(real_redis, KEYS, backup, {})
    assert counts.before == 1
    assert await everything(real_redis) == before


async def test_nothing_is_pushed_into_half_of_a_backup(
    real_redis: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, backup = await lost(real_redis, tmp_path / "b")
    await _broken_off(real_redis, backup, monkeypatch)
    sender = AsyncEventStream(real_redis, "scans", namespace="default")
    with pytest.raises(FormatRefused, match="half of a backup"):
        await sender.push(Event("scanned", "/scanner", id="new"))
    await restoring.restore(real_redis, KEYS, backup, {})
    assert await everything(real_redis) == before
    [pushed] = await sender.push(Event("scanned", "/scanner", id="new"))
    assert pushed.entry


async def test_a_key_that_something_else_writes_during_a_restore_stops_it_with_what_to_do(
    real_redis: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, backup = await lost(real_redis, tmp_path / "b")
    stage = restoring._stage

    async def overtaken(client: redis.Redis, prefix: str, saved: Any) -> list[str]:
        if "work" in saved:
            await client.rpush("work", "by another")
        return await stage(client, prefix, saved)

    monkeypatch.setattr(restoring, "_stage", overtaken)
    with pytest.raises(UserError, match=r"the broker has work already: .* \(FLUSHDB\), and begin anew"):
        await restoring.restore(real_redis, KEYS, backup, {})
    monkeypatch.setattr(restoring, "_stage", stage)
    await real_redis.flushdb()
    await restoring.restore(real_redis, KEYS, backup, {})
    assert await everything(real_redis) == before


async def _overtaken(client: redis.Redis, url: str, backup: VerifiedBackup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores a backup while a process connects between the look at all connections and the marker."""
    mark = restoring._mark
    async with clients.client(url, client_name="penstock/1.0") as process:

        async def connected(*arguments: Any) -> None:
            await process.ping()
            await mark(*arguments)

        with monkeypatch.context() as late:
            late.setattr(restoring, "_mark", connected)
            with pytest.raises(UserError, match="processes of Penstock are connected"):
                await restoring.restore(client, KEYS, backup, {})


async def _broken_off(client: redis.Redis, backup: VerifiedBackup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores the first object of a backup alone."""
    stage, staged = restoring._stage, []

    async def killed(*arguments: Any) -> list[str]:
        if staged:
            raise RuntimeError("killed")
        staged.append(None)
        return await stage(*arguments)

    with monkeypatch.context() as broken:
        broken.setattr(restoring, "_stage", killed)
        with pytest.raises(RuntimeError, match="killed"):
            await restoring.restore(client, KEYS, backup, {})


async def test_an_object_that_got_its_names_before_the_answer_was_lost_stays_as_it_is(real_redis: redis.Redis) -> None:
    await real_redis.hset(KEYS.restoring, "run", "b")
    for value in ("first", "second"):
        await real_redis.set("staged", value)
        assert await restoring._COMMIT(real_redis, (KEYS.restoring, "staged", "own"), ("b", "object 0")) == 1
    assert await real_redis.get("own") == b"first"
    assert await restoring._COMMIT(real_redis, (KEYS.restoring, "staged", "own"), ("b", "object 1")) == b"own"
    assert await restoring._COMMIT(real_redis, (KEYS.restoring, "staged", "new"), ("another", "object 1")) == 0
    assert not await real_redis.exists("new")


async def test_a_staged_key_that_expires_before_it_gets_its_name_stops_no_other(real_redis: redis.Redis) -> None:
    await real_redis.hset(KEYS.restoring, "run", "b")
    await real_redis.set("staged 0", "first")
    await real_redis.set("staged 2", "last")
    pairs = (each for number in range(3) for each in (f"staged {number}", f"own {number}"))
    assert await restoring._COMMIT(real_redis, (KEYS.restoring, *pairs), ("b", "object 0")) == 1
    assert await real_redis.mget("own 0", "own 1", "own 2") == [b"first", None, b"last"]
    assert await real_redis.hexists(KEYS.restoring, "object 0")


async def test_a_queue_that_has_items_again_is_refused_before_anything_is_written(
    real_redis: redis.Redis, tmp_path: Path
) -> None:
    _, backup = await lost(real_redis, tmp_path / "b")
    await real_redis.rpush("work", "pushed since")
    with pytest.raises(UserError, match="the broker is not empty: it has work"):
        await restoring.restore(real_redis, KEYS, backup, {})
    assert await real_redis.keys("*") == [b"work"]


async def test_of_two_restores_at_once_one_ends_with_an_error_and_the_other_restores_everything(
    real_redis: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, backup = await lost(real_redis, tmp_path / "b")
    stage, second = restoring._stage, []

    async def overtaken(*arguments: Any) -> list[str]:
        staged = await stage(*arguments)
        if not second:
            second.append(None)
            # It ends before the first one gives what it has staged its names.
            second[0] = await restoring.restore(real_redis, KEYS, backup, {})
        return staged

    monkeypatch.setattr(restoring, "_stage", overtaken)
    with pytest.raises(UserError, match="another restore has begun"):
        await restoring.restore(real_redis, KEYS, backup, {})
    assert await everything(real_redis) == before
    assert not [key async for key in real_redis.scan_iter(match="*restoring*")]


async def test_a_restore_that_is_overtaken_while_it_stages_loses_no_key(
    real_redis: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, backup = await lost(real_redis, tmp_path / "b")
    stage, begun = restoring._stage, []

    async def overtaken(*arguments: Any) -> list[str]:
        if not begun:
            begun.append(True)
            staged = await stage(*arguments)
            with pytest.raises(RuntimeError, match="killed"):
                await restoring.restore(real_redis, KEYS, backup, {})
            return staged
        raise RuntimeError("killed")

    monkeypatch.setattr(restoring, "_stage", overtaken)
    with pytest.raises(UserError, match="another restore has begun"):
        await restoring.restore(real_redis, KEYS, backup, {})
    monkeypatch.setattr(restoring, "_stage", stage)
    await restoring.restore(real_redis, KEYS, backup, {})
    assert await everything(real_redis) == before


@for_each([b"x" * 2**23], [b"\xff" * 2**23], [[b"x" * 2**15] * 2**8])
def test_of_a_long_value_that_was_read_no_other_copy_stays(value: Any, tmp_path: Path) -> None:
    writer = archive.BackupWriter(tmp_path / "b", archive.BackupHeader("penstock", "2026-01-01T00:00:00Z", "redis 7"))
    writer.add("long", {"a": archive.SavedKey("string", None, value)})
    writer.finish()
    backup = archive.verify(tmp_path / "b")
    held = []
    tracemalloc.start()
    try:
        for _, saved in archive.read(backup):
            assert saved["a"].value == value
            held.append(tracemalloc.get_traced_memory()[0])
            del saved
        held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[0] < 2**23 * 1.2
    assert held[1] < 2**22


def test_a_backup_is_for_its_owner_alone_and_follows_no_link(tmp_path: Path) -> None:
    header = archive.BackupHeader("penstock", "2026-01-01T00:00:00Z", "redis 7")
    partial, other = tmp_path / "b.partial", tmp_path / "other"
    partial.touch(0o644)
    writer = archive.BackupWriter(tmp_path / "b", header)
    with pytest.raises(UserError, match="another backup writes it"):
        archive.BackupWriter(tmp_path / "b", header)
    writer.finish()
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    other.touch()
    partial.symlink_to(other)
    with pytest.raises(OSError, match="symbolic link"):
        archive.BackupWriter(tmp_path / "b", header)


async def test_a_key_that_changes_its_type_while_it_is_read_is_read_again(
    real_redis: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, asked = "{penstock}:decisions", taking._answers
    await real_redis.set(key, "strange")

    async def changing(client: redis.Redis, commands: Any, *, atomically: bool = False) -> list[Any]:
        answers = await asked(client, commands, atomically=atomically)
        if not atomically and commands[0][0] == "TYPE" and answers == [b"string"]:
            await real_redis.delete(key)
            await real_redis.zadd(key, {"default/a": 1})
        return answers

    monkeypatch.setattr(taking, "_answers", changing)
    assert await taking._read(real_redis, KEYS, [key]) == {key: SavedKey("zset", None, [b"default/a", b"1"])}


async def test_a_restore_that_was_killed_goes_on_where_it_was_and_no_process_starts_before(
    real_redis: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    await worked(real_redis)
    for number in range(400):
        await real_redis.xadd(f"{{penstock}}:events:default/c{number}", {"id": "1"})
    before = await everything(real_redis)
    backup = await taken(real_redis, tmp_path / "b")
    other = await taken(real_redis, tmp_path / "other")
    await real_redis.flushall()
    command = (sys.executable, "-m", "deploy.cli.main", "restore", str(backup.path), "--without-cluster")
    child = await asyncio.create_subprocess_exec(
        *command, "--broker", redis_url, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )

    async def under_way() -> bool:
        # Two of the fields name the backup and the run; the others are objects.
        return bool(await real_redis.hlen(KEYS.restoring) > 4)

    await eventually(under_way)
    await real_redis.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
    child.kill()
    await child.wait()
    await real_redis.execute_command("CLIENT", "UNPAUSE")
    assert await real_redis.exists(KEYS.restoring), "it was killed too late"

    with pytest.raises(UserError, match="half of a backup"):
        async with wiring.broker_services(Settings(broker=redis_url)):
            pass
    with pytest.raises(UserError, match="finish it"):
        await taking.take(real_redis, KEYS, tmp_path / "half")
    assert not list(tmp_path.glob("half*"))
    with pytest.raises(UserError, match="restore of another file was interrupted"):
        await restoring.restore(real_redis, KEYS, VerifiedBackup(other.path, other.header, "other"), {})
    counts = await restoring.restore(real_redis, KEYS, backup, {})
    assert counts.before >= 3
    assert counts.objects
    assert await everything(real_redis) == before
    assert not await real_redis.exists(KEYS.restoring)
