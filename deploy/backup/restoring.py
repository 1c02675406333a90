"""Restores a backup into a broker that has none of its keys.

Each object is written under other names first; one script gives all its keys their names. What is there already is
noted in a marker: a restore that was killed is repeated, and goes on where it was. Until it has ended, a word stands
for the data's format, which every process, pusher and claim refuses (penstock/_broker_format.py).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from deploy.backup import archive, resettle, saved_objects
from deploy.backup.archive import SavedKey, VerifiedBackup
from deploy.backup.resettle import MadeClaim
from penstock._broker_format import RESTORING
from scheduler.format_check import stored_format
from scheduler.keys import Keys
from scheduler.scripts import Script, load
from workers.errors import UserError

_COMMIT = Script(load("deploy.backup", "commit"))
_LOSE = Script(load("scheduler", "lose"))
#: Commands that travel together.
_PIECE = 1000
#: Names of connections of processes, in CLIENT LIST.
_PROCESSES = ("penstock/", "penstock-beat")
#: Fields of a marker before the first object: backup, run, and the broker's former format.
_EMPTY = 3


@dataclass
class RestoreCounts:
    """objects: written now. before: that an earlier, killed restore had written. advanced, unknown: `Resettled`."""

    objects: int = 0
    before: int = 0
    advanced: int = 0
    unknown: int = 0


async def restore(
    client: Redis, keys: Keys, backup: VerifiedBackup, made: Mapping[str, Iterable[MadeClaim]]
) -> RestoreCounts:
    """Writes the backup's objects. made: the claims that Jobs in the cluster were made for, by their EventJob's UID.

    Raises UserError, before it writes anything, for a backup of another prefix, a broker with such keys or with running
    processes, and later if something else writes them; redis.exceptions.RedisError.
    """
    if backup.header.prefix != keys.prefix:
        raise UserError(
            f"{backup.path}: its keys begin with {{{backup.header.prefix}}}, and --prefix is {keys.prefix}: "
            f"restore it with --prefix {backup.header.prefix}"
        )
    await _check(client, keys, backup)
    # One that runs at the same time ends at its next object: what it has staged is removed here.
    run = uuid4().hex
    await _mark(client, keys, backup, run)
    counts = RestoreCounts()
    await _unlink_staged(client, keys)
    for number, (name, saved) in enumerate(archive.read(backup)):
        field = f"object {number}"
        if await client.hexists(keys.restoring, field):
            counts.before += 1
            continue
        saved = _resettled(keys, saved, made, counts)
        staged = await _stage(client, f"{keys.restoring}:{run}", saved)
        answer = await _COMMIT(client, (keys.restoring, *staged), (run, field))
        if answer == 0:
            raise UserError("another restore has begun meanwhile, or the broker was emptied")
        if answer != 1:
            raise UserError(
                f"{name}: the broker has {answer.decode()} already: something else writes to it. Stop all processes of "
                "Penstock, empty the broker (FLUSHDB), and begin anew"
            )
        counts.objects += 1
    if await client.exists(keys.generation):
        # What is derived from the cluster is obtained again, and holders of old leases end before others claim.
        await _LOSE(client, [keys.generation], [uuid4().hex])
    await _unlink_staged(client, keys)
    await _unmark(client, keys, backup.header.data_format)
    return counts


async def _check(client: Redis, keys: Keys, backup: VerifiedBackup) -> None:
    begun = await client.hget(keys.restoring, "id")
    if begun not in (None, backup.id.encode()):
        raise UserError(
            "a restore of another file was interrupted: repeat that one, or empty the broker (FLUSHDB) and begin anew"
        )
    await _refuse_running(client)
    if begun:
        return
    form = await stored_format(client, keys)
    if form and backup.header.data_format and form != backup.header.data_format:
        raise UserError(
            f"the backup's data have format {backup.header.data_format}, the broker's {form}: "
            "restore with the version of Penstock that took it"
        )
    async for name in client.scan_iter(count=1000):
        text = (name if isinstance(name, bytes) else name.encode()).decode(errors="replace")
        if text.startswith(f"{keys.tag}:") and saved_objects.wanted(keys, text):
            raise _not_empty(text)
    for names in archive.names(backup):
        # Queues and their ledgers: who pushes to them knows nothing of a restore.
        for each in names:
            if not each.startswith(f"{keys.tag}:") and await client.exists(each):
                raise _not_empty(each)


async def _refuse_running(client: Redis) -> None:
    # An access list may forbid it: what runs then is noticed when keys get their names.
    with suppress(ResponseError):
        running = sorted({each["name"] for each in await client.client_list() if each["name"].startswith(_PROCESSES)})
        if running:
            raise UserError(f"processes of Penstock are connected ({', '.join(running)}): stop them first")


async def _mark(client: Redis, keys: Keys, backup: VerifiedBackup, run: str) -> None:
    """Begins or goes on. Raises UserError if a process has connected since the check, which no marker kept away."""
    fields: dict[Any, Any] = {"id": backup.id, "run": run}
    if (form := await stored_format(client, keys)) != RESTORING:
        fields["format"] = form
    async with client.pipeline() as pipe:
        pipe.hset(keys.restoring, mapping=fields)
        pipe.set(keys.format, RESTORING)
        await pipe.execute()
    try:
        await _refuse_running(client)
    except UserError:
        # Nothing is there yet: processes may work on as before.
        if await client.hlen(keys.restoring) == _EMPTY:
            await _unmark(client, keys)
        raise


async def _unmark(client: Redis, keys: Keys, data_format: str = "") -> None:
    """Ends the restore. data_format: of the data, empty to leave them the one that they had."""
    former: Any = await client.hget(keys.restoring, "format")
    data_format = data_format or (former or b"").decode()
    async with client.pipeline() as pipe:
        if data_format:
            pipe.set(keys.format, data_format)
        else:
            pipe.delete(keys.format)
        pipe.delete(keys.restoring)
        await pipe.execute()


def _not_empty(name: str) -> UserError:
    return UserError(
        f"the broker is not empty: it has {name}. A restore needs one without Penstock's work: empty it (FLUSHDB) if "
        "what was accepted since the loss may be lost, and begin anew"
    )


async def _unlink_staged(client: Redis, keys: Keys) -> None:
    pattern = "".join(f"[{each}]" if each in "*?[]" else each for each in keys.restoring) + ":*"
    async for name in client.scan_iter(match=pattern, count=1000):
        await client.unlink(name)


def _resettled(
    keys: Keys, saved: Mapping[str, SavedKey], made: Mapping[str, Iterable[MadeClaim]], counts: RestoreCounts
) -> dict[str, SavedKey]:
    ledgers: dict[str, dict[str, SavedKey]] = defaultdict(dict)
    others = {}
    for name, each in saved.items():
        uid = saved_objects.uid_of(keys, name)
        if uid and uid in made:
            ledgers[uid][name.rpartition(":")[2]] = each
        else:
            others[name] = each
    for uid, ledger in ledgers.items():
        after, did = resettle.resettled(ledger, made[uid])
        counts.advanced += did.advanced
        counts.unknown += did.unknown
        others |= {keys.deliveries(uid).of(part): each for part, each in after.items()}
    return others


async def _stage(client: Redis, prefix: str, saved: Mapping[str, SavedKey]) -> list[str]:
    """Writes an object under names with this prefix. Returns pairs of each such name and its own."""
    pairs = []
    for number, (name, each) in enumerate(saved.items()):
        staged = f"{prefix}:{number}"
        commands = list(_commands(staged, each))
        for start in range(0, len(commands), _PIECE):
            async with client.pipeline(transaction=False) as pipe:
                for command in commands[start : start + _PIECE]:
                    # redis-py reads an answer with JUSTID by this option alone.
                    pipe.execute_command(*command, **({"parse_justid": True} if command[0] == "XCLAIM" else {}))
                await pipe.execute()
        # A set that expired since is gone.
        if await client.exists(staged):
            pairs += [staged, name]
    return pairs


def _commands(key: str, saved: SavedKey) -> Iterable[tuple[Any, ...]]:
    """Yields the commands that make a key."""
    value = saved.value
    match saved.type:
        case "string":
            yield ("SET", key, value[0])
        case "hash":
            yield from (("HSET", key, *piece) for piece in _pieces(value))
        case "zset":
            for piece in _pieces(value):
                yield ("ZADD", key, *(text for member, score in _pairs(piece) for text in (score, member)))
        case "set":
            yield from (("SADD", key, *piece) for piece in _pieces(value))
        case "list":
            yield from (("RPUSH", key, *piece) for piece in _pieces(value))
        case "stream":
            yield from _stream(key, value)
        case other:
            raise UserError(f"the backup has a key of type {other}, which this Penstock cannot restore")
    if saved.expires is not None:
        yield ("PEXPIREAT", key, saved.expires)


def _stream(key: str, value: Any) -> Iterable[tuple[Any, ...]]:
    entries, last, groups = value
    for entry, fields in entries:
        yield ("XADD", key, entry, *fields)
    # A group makes the stream of which only its place is left; what is added later must not have an older id.
    yield ("XGROUP", "CREATE", key, "penstock:restoring", "0", "MKSTREAM")
    if last != b"0-0":
        yield ("XSETID", key, last)
    for name, delivered, pending in groups:
        yield ("XGROUP", "CREATE", key, name, delivered)
        for entry, consumer, _, deliveries in pending:
            # Idle since now: whoever had taken it gets the time to go on.
            yield ("XCLAIM", key, name, consumer, 0, entry, "RETRYCOUNT", deliveries, "FORCE", "JUSTID")
    yield ("XGROUP", "DESTROY", key, "penstock:restoring")


def _pieces(flat: list[Any]) -> Iterable[list[Any]]:
    return (flat[start : start + 500] for start in range(0, len(flat), 500))


def _pairs(flat: list[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)
