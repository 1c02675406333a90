"""The JSONPath that printer columns use: members, indexes, ``[*]`` and ``[?(@.type=="Ready")]``."""

import re
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"\.(?P<member>(?:\\.|[^.\[\\])+)"
    r"|\[['\"](?P<quoted>[^'\"]+)['\"]\]"
    r"|\[(?P<index>-?\d+)\]"
    r"|(?P<all>\[\*\])"
    r"|\[\?\(@(?P<path>(?:\.[\w-]+)+)\s*(?P<operator>==|!=)\s*(?P<value>\"[^\"]*\"|'[^']*'|[\w.-]+)\)\]"
)
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}


def find(path: str, body: Any) -> list[Any]:
    """All values at a path, in order; none when the path leads nowhere or cannot be understood."""
    values = [body]
    steps = _steps(path)
    if steps is None:
        return []
    for step in steps:
        values = [found for value in values for found in _apply(step, value)]
    return values


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[re.Match[str], ...] | None:
    text = path.removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[re.Match[str]] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return None
        steps.append(match)
        position = match.end()
    return tuple(steps)


def _apply(step: re.Match[str], value: Any) -> list[Any]:
    if (member := step["member"] or step["quoted"]) is not None:
        name = re.sub(r"\\(.)", r"\1", member)
        return [value[name]] if isinstance(value, dict) and name in value else []
    if isinstance(value, dict) and step["all"]:
        return list(value.values())
    if not isinstance(value, list):
        return []
    if step["index"] is not None:
        index = int(step["index"])
        return [value[index]] if -len(value) <= index < len(value) else []
    if step["all"]:
        return value
    literal = step["value"]
    wanted = literal[1:-1] if literal[0] in "\"'" else _LITERALS.get(literal, literal)
    equal = step["operator"] == "=="
    return [item for item in value if any(_same(found, wanted) == equal for found in find(step["path"], item))]


def _same(found: Any, wanted: Any) -> bool:
    return bool(found == wanted) or (isinstance(found, (int, float)) and str(found) == wanted)
