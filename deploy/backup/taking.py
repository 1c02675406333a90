"""Takes a backup of a running broker: each object at one moment, one after the other."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from deploy.backup import saved_objects
from deploy.backup.archive import BackupHeader, BackupWriter, SavedKey
from deploy.backup.saved_objects import SavedObject
from scheduler.format_check import stored_format
from scheduler.keys import Keys, type_of
from workers.api import times
from workers.errors import UserError

#: EventJobs may join a channel while it is read; more often than this in a row is a defect.
_ATTEMPTS = 10
_GROUP = b"eventjob:"
#: Pending entries of a group: more than any may have.
_ALL = 10_000_000


@dataclass
class BackupCounts:
    """The contents of a backup."""

    objects: int = 0
    keys: int = 0
    deliveries: int = 0
    events: int = 0


async def take(client: Redis, keys: Keys, path: Path) -> BackupCounts:
    """Writes a backup of what lives in the broker alone. The broker serves all others meanwhile.

    Raises redis.exceptions.RedisError, and UserError while a restore is unfinished.
    """
    if await client.exists(keys.restoring):
        raise UserError("the broker has half of a restore: finish it with `penstock restore` first")
    seconds, micros = await client.time()
    now = times.of_micros(int(seconds) * 1_000_000 + int(micros))
    form = await stored_format(client, keys)
    header = BackupHeader(keys.prefix, times.render(now), await _server(client), form)
    writer, counts = BackupWriter(path, header), BackupCounts()
    try:
        async for name, saved in objects(client, keys):
            writer.add(name, saved)
            _count(counts, keys, saved)
        writer.finish()
    except BaseException:
        writer.abandon()
        raise
    return counts


async def objects(client: Redis, keys: Keys) -> AsyncIterator[tuple[str, dict[str, SavedKey]]]:
    """Yields every object of the broker, with the keys it has. Raises UserError if a key goes from one to another."""
    names = [_decoded(name) async for name in client.scan_iter(count=1000)]
    uids = {uid for name in names if name and (uid := saved_objects.uid_of(keys, name))}
    intakes = await _intakes(client, keys, uids)
    written: set[str] = set()
    for each in saved_objects.grouped(keys, [name for name in names if name], intakes):
        saved = await _whole(client, keys, each)
        if twice := written & saved.keys():
            # An EventJob has gone to another channel. A restore could not give the name twice.
            raise UserError(f"{each.name}: {min(twice)} came from another object meanwhile: take the backup again")
        written |= saved.keys()
        if saved:
            yield each.name, saved


async def _whole(client: Redis, keys: Keys, wanted: SavedObject) -> dict[str, SavedKey]:
    """Returns the keys of an object at one moment, with the deliveries of every EventJob that its channel knows."""
    uids = set(wanted.uids)
    for _ in range(_ATTEMPTS):
        names = (*wanted.keys, *(key for uid in uids - wanted.uids for key in keys.deliveries(uid).all()))
        saved = await _read(client, keys, names)
        missing = _members(saved) - uids
        if not missing:
            return saved
        uids |= missing
    raise UserError(f"{wanted.name}: EventJobs come and go too fast for a backup")


def _members(saved: Mapping[str, SavedKey]) -> set[str]:
    """Returns the UIDs of the EventJobs that take events of the channels among these keys."""
    return {
        group[0].removeprefix(_GROUP).decode()
        for each in saved.values()
        if each.type == "stream"
        for group in each.value[2]
        if group[0].startswith(_GROUP)
    }


async def _read(client: Redis, keys: Keys, names: Sequence[str]) -> dict[str, SavedKey]:
    """Returns these keys at one moment.

    One transaction asks for all of them: a script would need several times as long, and block all other clients.
    What has to be known before (types, groups) is read before, and compared with what the transaction found.
    """
    for _ in range(_ATTEMPTS):
        types = await _answers(client, [("TYPE", name) for name in names])
        groups = await _answers(client, [("XINFO", "GROUPS", name) for name in names])
        plans = [
            _Plan(name, _type(keys, name, type_), _groups(found))
            for name, type_, found in zip(names, types, groups, strict=True)
        ]
        commands = [command for plan in plans for command in plan.commands()]
        seconds, _ = await client.time()
        answers = iter(await _answers(client, commands, atomically=True))
        try:
            found = {plan.name: plan.saved([next(answers) for _ in plan.commands()], int(seconds)) for plan in plans}
        except _ChangedError:
            continue
        return {name: each for name, each in found.items() if each}
    raise UserError(f"{names[0]}: changes too fast for a backup")


class _ChangedError(Exception):
    """A key has another type, or other groups, than a moment before."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The way in which one key is read. type: empty for one that is not there and may be of any type."""

    name: str
    type: str
    groups: tuple[bytes, ...]

    def commands(self) -> list[tuple[Any, ...]]:
        """Returns the commands, TYPE and PTTL first."""
        reading: list[tuple[Any, ...]] = []
        match self.type:
            case "string":
                reading = [("GET", self.name)]
            case "hash":
                reading = [("HGETALL", self.name)]
            case "zset":
                reading = [("ZRANGE", self.name, 0, -1, "WITHSCORES")]
            case "set":
                reading = [("SMEMBERS", self.name)]
            case "list":
                reading = [("LRANGE", self.name, 0, -1)]
            case "stream":
                reading = [("XRANGE", self.name, "-", "+"), ("XINFO", "STREAM", self.name)]
                reading += [("XINFO", "GROUPS", self.name)]
                reading += [("XPENDING", self.name, group, "-", "+", _ALL) for group in self.groups]
        return [("TYPE", self.name), ("PTTL", self.name), *reading]

    def saved(self, answers: list[Any], seconds: int) -> SavedKey | None:
        """Returns the key, None for one that is not there. Raises _ChangedError; seconds: of the broker's clock."""
        type_, left, *found = answers
        if type_ == b"none":
            return None
        if type_.decode() != self.type:
            raise _ChangedError
        value = found
        if self.type == "stream":
            entries, info, groups, *pending = found
            if isinstance(info, ResponseError) or _groups(groups) != self.groups:
                raise _ChangedError
            at = [_facts(each)[b"last-delivered-id"] for each in groups]
            rows = [list(each) for each in zip(self.groups, at, pending, strict=True)]
            value = [entries, _facts(info)[b"last-generated-id"], rows]
        elif self.type != "string":
            [value] = found
        return SavedKey(self.type, seconds * 1000 + left if left >= 0 else None, value)


def _type(keys: Keys, name: str, found: Any) -> str:
    """Returns the type of a key, or that which it would have."""
    if found != b"none":
        return str(found.decode())
    if saved_objects.channel_of(keys, name):
        end = name.rpartition(":")[2]
        return {"seen": "zset", "signed": "zset", "counts": "hash", "unfinished": "hash"}.get(end, "stream")
    return (type_of(name) or b"").decode()


def _facts(flat: list[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _groups(found: Any) -> tuple[bytes, ...]:
    """Returns the names of a stream's groups, none for any other key."""
    return () if isinstance(found, ResponseError) else tuple(_facts(each)[b"name"] for each in found)


async def _answers(client: Redis, commands: Sequence[tuple[Any, ...]], *, atomically: bool = False) -> list[Any]:
    """Returns the answers as the server gives them; redis-py would make dicts of entries, which lose fields."""
    pool = client.connection_pool
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]
    asked = [("MULTI",), *commands, ("EXEC",)] if atomically else list(commands)
    answers: list[Any] = []
    try:
        await connection.send_packed_command(connection.pack_commands(asked))
        for _ in asked:
            try:
                answers.append(await connection.read_response())
            except ResponseError as error:
                answers.append(error)
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    finally:
        await pool.release(connection)
    if not atomically:
        return answers
    if isinstance(answers[-1], ResponseError):
        raise next(each for each in answers if isinstance(each, ResponseError))
    return list(answers[-1])


async def _intakes(client: Redis, keys: Keys, uids: set[str]) -> dict[str, str]:
    listed = sorted(uids)
    async with client.pipeline(transaction=False) as pipe:
        for uid in listed:
            pipe.hget(keys.deliveries(uid).of("meta"), "intake")
        found = await pipe.execute()
    return {uid: (intake or b"").decode() for uid, intake in zip(listed, found, strict=True)}


async def _server(client: Redis) -> str:
    with suppress(ResponseError):
        info: Mapping[str, Any] = await client.info("server")
        name = info.get("server_name", "redis")
        return f"{name} {info.get(f'{name}_version', info.get('redis_version', ''))}"
    return ""


def _count(counts: BackupCounts, keys: Keys, saved: Mapping[str, SavedKey]) -> None:
    counts.objects += 1
    counts.keys += len(saved)
    for name, each in saved.items():
        if saved_objects.uid_of(keys, name) and name.endswith(":records"):
            counts.deliveries += len(each.value) // 2
        elif each.type == "stream" and saved_objects.channel_of(keys, name) and not name.endswith(":parked"):
            counts.events += len(each.value[0])


def _decoded(name: bytes | str) -> str:
    """Returns a key's name, empty for one that is no text and so none of ours."""
    try:
        return name if isinstance(name, str) else name.decode()
    except UnicodeDecodeError:
        return ""
