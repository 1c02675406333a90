"""The loader of Lua scripts: files of a package's ``lua`` folder, one per transition, with includes.

A line ``-- include: <name>`` is replaced by the text of ``<name>.lua``, looked for in the package that includes it and
then in ``scheduler``; a part that is there already is not repeated.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

#: Types that redis-py sends as script arguments.
Arg = str | bytes | int | float

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
    """One script, called by its digest; its text is sent only to a server that does not know it yet."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, client: Redis, keys: Sequence[str | bytes], args: Sequence[Arg]) -> Any:
        """Returns the script's answer. Raises redis.exceptions.RedisError if the broker refuses or is away."""
        try:
            return await client.evalsha(self.digest, len(keys), *keys, *args)
        except NoScriptError:
            await client.script_load(self.text)
            return await client.evalsha(self.digest, len(keys), *keys, *args)
