"""The loader of Lua scripts: files of a package's ``lua`` folder, one per transition, with includes.

A line ``-- include: <name>`` is replaced by the text of ``<name>.lua``, looked for in the package that includes it and
then in ``scheduler``; a part that is there already is not repeated.
"""

import hashlib
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ResponseError

from scheduler.keys import loses_work, type_of

log = logging.getLogger(__name__)

#: Types that redis-py sends as script arguments.
Arg = str | bytes | int | float

Result = TypeVar("Result")

_INCLUDE = re.compile(r"^-- include: (?P<name>[a-z_]+)$", re.MULTILINE)


@cache
def load(package: str, name: str) -> str:
    """Returns the text of ``<package>/lua/<name>.lua`` with its includes in place.

    Raises FileNotFoundError naming the script if it, or something it includes, is not there.
    """
    return _resolve(package, name, set())


def _resolve(package: str, name: str, seen: set[str]) -> str:
    seen.add(name)

    def include(match: re.Match[str]) -> str:
        part = match["name"]
        return "" if part in seen else _resolve(package, part, seen).rstrip("\n")

    return _INCLUDE.sub(include, _read(package, name))


def _read(package: str, name: str) -> str:
    for place in dict.fromkeys((package, "scheduler")):
        file = resources.files(place) / "lua" / f"{name}.lua"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise FileNotFoundError(f"no Lua script {name!r} in {package} or scheduler")


class Script:
    """One script, called by its digest; its text is sent only to a server that does not know it yet.

    ours: its keys are those of `scheduler.keys`, in our broker; one of a wrong type is set aside. Keys of a measured
    server belong to its users, under any name.
    """

    def __init__(self, text: str, *, ours: bool = False) -> None:
        self.text = text
        self._ours = ours
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, client: Redis, keys: Sequence[str | bytes], args: Sequence[Arg]) -> Any:
        """Returns the script's answer.

        Raises redis.exceptions.RedisError if the broker refuses or is away.
        """

        async def call() -> Any:
            try:
                return await client.evalsha(self.digest, len(keys), *keys, *args)
            except NoScriptError:
                await client.script_load(self.text)
                return await client.evalsha(self.digest, len(keys), *keys, *args)

        return await (readable(client, keys, call) if self._ours else call())


class JoinedScripts:
    """Several scripts as one: the broker runs them one after the other, in one round trip and one transaction."""

    def __init__(self, *scripts: Script) -> None:
        self._script = Script(_joined(script.text for script in scripts), ours=True)

    async def __call__(self, client: Redis, *calls: tuple[Sequence[str | bytes], Sequence[Arg]]) -> list[Any]:
        """Returns the answers. calls: keys and arguments of each script, in their order.

        Raises redis.exceptions.RedisError if the broker refuses or is away.
        """
        keys: list[str | bytes] = []
        sizes: list[Arg] = []
        values: list[Arg] = []
        for names, args in calls:
            keys += names
            values += args
            sizes += (len(names), len(args))
        answers: list[Any] = await self._script(client, keys, [*sizes, *values])
        return answers


def _joined(texts: Iterable[str]) -> str:
    """Returns the text of a script that calls these as functions.

    ARGV: the numbers of keys and of arguments of each, then the arguments of all.
    """
    parts = [f"local function part_{place}(KEYS, ARGV)\n{text}\nend" for place, text in enumerate(texts)]
    names = ", ".join(f"part_{place}" for place in range(len(parts)))
    return "\n".join(
        [
            *parts,
            f"local parts = {{ {names} }}",
            "local key, arg, answers = 0, 2 * #parts, {}",
            "for place, part in ipairs(parts) do",
            "  local keys, args = {}, {}",
            "  for i = 1, tonumber(ARGV[2 * place - 1]) do",
            "    keys[i] = KEYS[key + i]",
            "  end",
            "  for i = 1, tonumber(ARGV[2 * place]) do",
            "    args[i] = ARGV[arg + i]",
            "  end",
            "  key, arg = key + #keys, arg + #args",
            "  answers[place] = part(keys, args)",
            "end",
            "return answers",
        ]
    )


async def readable(client: Redis, keys: Sequence[str | bytes], call: Callable[[], Awaitable[Result]]) -> Result:
    """Returns what the call returns; if it fails for the type of a key, that key is renamed, and the call repeated.

    One broken key would otherwise stop everything that reads it, for ever. Without the content of a lane or of the
    store a new generation begins, in which it is filled again from the cluster.
    """
    try:
        return await call()
    except ResponseError as error:
        if "WRONGTYPE" not in str(error) or not await _set_aside(client, keys):
            raise
    return await call()


async def _set_aside(client: Redis, keys: Sequence[str | bytes]) -> bool:
    """Renames the keys whose type is not theirs. Returns true if there were any."""
    found = False
    for key in keys:
        name = key.decode() if isinstance(key, bytes) else key
        type_: Any = await client.type(name)
        wanted = type_of(name)
        if wanted and type_ not in (wanted, b"none"):
            aside = f"{name}:unreadable:{time.time_ns() // 1000}"
            log.error("a key of a wrong type was set aside", extra={"key": name, "type": type_.decode(), "as": aside})
            # Another process may have renamed it in between.
            with suppress(ResponseError):
                await client.rename(name, aside)
            found = True
            if loses_work(name):
                generation = f"{name.partition('}')[0]}}}:generation"
                await Script(load("scheduler", "lose"))(client, [generation], [uuid.uuid4().hex])
    return found
