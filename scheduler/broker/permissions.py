"""The commands that a user of the broker needs, and which of them this one lacks (docs/brokers.md).

A transaction that is discarded asks: the server checks a command's permission when it is queued, and runs none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from scheduler.keys import Keys

#: A key's place in an example.
_KEY = "{key}"

#: Commands of our scripts, of our clients and of Celery's transport, by name, each with harmless arguments. The last
#: word of a name behind | is a subcommand.
NEEDED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("ping", "multi", "exec", "discard", "time"), ()),
    **dict.fromkeys(("del", "exists", "get", "mget", "type", "persist", "pttl", "unlink", "watch"), (_KEY,)),
    "unwatch": (),
    **dict.fromkeys(("expire", "pexpire", "set"), (_KEY, "1")),
    "pexpireat": (_KEY, "1"),
    "rename": (_KEY, _KEY),
    **dict.fromkeys(("hgetall", "hkeys", "hlen", "hvals"), (_KEY,)),
    **dict.fromkeys(("hdel", "hexists", "hget", "hmget", "hstrlen"), (_KEY, "f")),
    **dict.fromkeys(("hincrby", "hset", "hsetnx"), (_KEY, "f", "1")),
    "hscan": (_KEY, "0"),
    **dict.fromkeys(("llen", "lpop", "rpop"), (_KEY,)),
    **dict.fromkeys(("lindex", "lpush", "rpush"), (_KEY, "1")),
    **dict.fromkeys(("lrange", "lset", "ltrim"), (_KEY, "0", "1")),
    "brpop": (_KEY, "1"),
    **dict.fromkeys(("scard", "smembers"), (_KEY,)),
    **dict.fromkeys(("sadd", "smismember", "srem"), (_KEY, "m")),
    **dict.fromkeys(("zcard", "zpopmin"), (_KEY,)),
    **dict.fromkeys(("zmscore", "zrem", "zscore"), (_KEY, "m")),
    **dict.fromkeys(("zadd", "zcount", "zrange", "zremrangebyrank", "zremrangebyscore"), (_KEY, "0", "1")),
    **dict.fromkeys(("zrangebyscore", "zrevrangebyscore", "zrevrange"), (_KEY, "0", "1")),
    **dict.fromkeys(("zlexcount", "zrangebylex"), (_KEY, "-", "+")),
    "xack": (_KEY, "g", "0-1"),
    "xadd": (_KEY, "*", "f", "v"),
    "xclaim": (_KEY, "g", "c", "0", "0-1"),
    "xdel": (_KEY, "0-1"),
    "xgroup": ("DESTROY", _KEY, "g"),
    "xinfo": ("STREAM", _KEY),
    "xlen": (_KEY,),
    "xpending": (_KEY, "g"),
    "xrange": (_KEY, "-", "+"),
    "xrevrange": (_KEY, "+", "-"),
    "xreadgroup": ("GROUP", "g", "c", "STREAMS", _KEY, ">"),
    "xsetid": (_KEY, "0-1"),
    "xtrim": (_KEY, "MAXLEN", "0"),
    "eval": ("return 1", "1", _KEY),
    "evalsha": ("0" * 40, "1", _KEY),
    "script|load": ("return 1",),
    "publish": ("{tag}:objects:x", ""),
}

#: Commands without which something is missing: what.
OPTIONAL: Mapping[str, tuple[tuple[str, ...], str]] = {
    "info": ((), "a restart of the broker is noticed late, and there are no metrics of it"),
    "config|get": (("maxmemory-policy",), "`penstock doctor` does not see what the broker forgets when it is full"),
    "client|setname": (("penstock",), "CLIENT LIST and `penstock doctor` do not show which connections are Penstock's"),
    "client|list": ((), "`penstock doctor` and `penstock restore` do not see which processes are connected"),
    "subscribe": (
        ("__keyspace@{database}__:{key}",),
        "pushed events are noticed at the next poll, and what a dead worker had is done later",
    ),
    "wait": (("0", "1"), "events cannot be pushed with a number of replicas as their durability"),
    "scan": (("0",), "there is no `penstock backup`"),
}

#: Commands of servers of some kind, which others do not know or never need.
RARE = ("cluster|slots", "role", "unsubscribe", "auth", "select", "hello")


@dataclass(frozen=True, slots=True)
class Permissions:
    """The rights that a user lacks. needed: names of commands, and ``keys`` or ``channels``. optional: those, too."""

    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def rules() -> list[str]:
    """Returns the rules of the user, as of ACL SETUSER, without login, for the default prefix and database 0."""
    tag = Keys().tag
    names = sorted((*NEEDED, *OPTIONAL, *RARE))
    channels = (f"&{tag}:*", f"&__keyspace@0__:{tag}:*")
    return ["resetkeys", f"~{tag}:*", "resetchannels", *channels, "-@all", *(f"+{name}" for name in names)]


async def lacking(client: Redis, keys: Keys, database: int = 0) -> Permissions:
    """Returns what the client's user may not do. Raises redis.exceptions.RedisError if the broker does not answer."""
    place = {"tag": keys.tag, "key": f"{keys.tag}:permissions", "database": str(database)}
    asked = {**NEEDED, **{name: arguments for name, (arguments, _) in OPTIONAL.items()}}
    # No transaction takes these.
    names = [name for name in asked if name not in ("multi", "exec", "discard", "watch")]
    commands = [(*name.upper().split("|"), *(_filled(each, place) for each in asked[name])) for name in names]
    refused: list[str] = []
    pool = client.connection_pool
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]
    try:
        await connection.send_command("MULTI")
        try:
            await connection.read_response()
        except ResponseError:
            # What follows would be carried out.
            return Permissions(("multi",))
        await connection.send_packed_command(connection.pack_commands([*commands, ("DISCARD",)]))
        for name in (*names, "discard"):
            try:
                await connection.read_response()
            except NoPermissionError as error:
                refused.append(_refused(name, str(error)))
            except ResponseError as error:
                # Renamed away; others are no matter of permission, such as a command that no transaction takes.
                if "unknown command" in str(error).lower():
                    refused.append(name)
    finally:
        await connection.disconnect()
        await pool.release(connection)
    found = dict.fromkeys(refused)
    return Permissions(
        tuple(name for name in found if name not in OPTIONAL), tuple(name for name in found if name in OPTIONAL)
    )


def _filled(text: str, place: Mapping[str, str]) -> str:
    for name, value in place.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _refused(name: str, text: str) -> str:
    if "access a key" in text or "the keys" in text or ("access the '" in text and "channel" not in text):
        return "keys"
    if "channel" in text and name not in ("subscribe",):
        return "channels"
    return name
