"""The patches an API server takes: JSON patch (RFC 6902) and JSON merge patch (RFC 7386).

No function changes its arguments; results may share unchanged parts with them.
"""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from deploy.local.apiserver.patch import PatchError
from workers.api.kinds import Object

#: More operations than this are refused, as the real server does, and more bytes that all copies have together: a
#: few dozen operations that copy the document into itself would fill any memory.
MAX_OPERATIONS, MAX_COPIED = 10_000, 3 * 1024 * 1024
#: A position in a list, as Go reads a number.
_POSITION = re.compile("[+-]?[0-9]{1,19}")


def merge_patch(doc: Object, patch: Any) -> Object:
    """`doc` with `patch` merged in: null removes, objects merge, everything else replaces.

    Raises PatchError (400) when the patch is not an object.
    """
    if not isinstance(patch, dict):
        raise PatchError("json: cannot unmarshal patch: a merge patch of an object must be an object", status=400)
    return _merged(doc, patch)


def _merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            old = result.get(key)
            result[key] = _merged(old if isinstance(old, dict) else {}, value)
        else:
            result[key] = value
    return result


def json_patch(doc: Object, operations: Any) -> Object:
    """`doc` after all operations, in order; all or nothing.

    Raises PatchError: 400 for something that is no list of operations, 422 for one that cannot be applied (the
    message says which and why), 413 for too many and for too much that is copied.
    """
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise PatchError("json: cannot unmarshal object into Go value of type jsonpatch.Patch", status=400)
    if len(operations) > MAX_OPERATIONS:
        count = len(operations)
        raise PatchError(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}", status=413)
    result: Any = copy.deepcopy(doc)
    copied = 0
    for operation in operations:
        name = operation.get("op")
        if name == "copy":
            copied += _size(_get(result, _inner(operation, "from")))
            if copied > MAX_COPIED:
                raise PatchError(f"the copies of a JSON patch have more than {MAX_COPIED} bytes", status=413)
        apply = _OPERATIONS.get(name) if isinstance(name, str) else None
        if apply is None:
            raise PatchError(f"Unexpected kind: {name}")
        result = apply(result, operation)
    if not isinstance(result, dict):
        raise PatchError("the patch leaves no object")
    return result


def _size(value: Any) -> int:
    """The bytes of a value as it is written; what is nested too deeply to be written cannot be copied either."""
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError as error:
        raise PatchError(f"copy operation: {error}") from None


def _pointer(operation: Mapping[str, Any], member: str) -> list[str]:
    """The tokens of a JSON pointer (RFC 6901); the whole document has none."""
    text = operation.get(member)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(f"{operation.get('op')} operation: malformed {member}: {text!r}")
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


def _inner(operation: Mapping[str, Any], member: str) -> list[str]:
    """The tokens of a pointer into the document.

    On a real server, and unlike in RFC 6902, `replace` and `test` alone take the whole document.
    """
    if tokens := _pointer(operation, member):
        return tokens
    raise PatchError(f'{operation.get("op")} operation does not apply: doc is missing path: ""')


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise PatchError(f"{operation.get('op')} operation: missing value")
    return copy.deepcopy(operation["value"])


def _index(array: Sequence[Any], token: str, *, end: bool = False) -> int:
    """The position a token means in a list; with `end`, one past the last too, also spelled ``-``.

    As on a real server, and unlike in RFC 6902, negative positions count from the end.
    """
    size = len(array) + end
    if end and token == "-":
        return len(array)
    if not _POSITION.fullmatch(token):
        raise PatchError(f"invalid array index: {token!r}")
    index = int(token)
    if not -size <= index < size:
        raise PatchError(f"array index out of bounds: {index}")
    return index % size


def _get(doc: Any, tokens: Sequence[str]) -> Any:
    for position, token in enumerate(tokens):
        if isinstance(doc, list):
            doc = doc[_index(doc, token)]
        elif isinstance(doc, dict) and token in doc:
            doc = doc[token]
        else:
            raise PatchError(f"doc is missing path: /{'/'.join(tokens[: position + 1])}")
    return doc


def _put(doc: Any, tokens: Sequence[str], value: Any) -> Any:
    """Adds, or replaces a member of an object; inserts into a list."""
    parent = _get(doc, tokens[:-1])
    if isinstance(parent, list):
        parent.insert(_index(parent, tokens[-1], end=True), value)
    elif isinstance(parent, dict):
        parent[tokens[-1]] = value
    else:
        raise PatchError(f"doc is missing path: /{'/'.join(tokens)}")
    return doc


def _cut(doc: Any, tokens: Sequence[str]) -> Any:
    """Takes out what must be there, and returns it."""
    value = _get(doc, tokens)
    parent = _get(doc, tokens[:-1])
    del parent[_index(parent, tokens[-1]) if isinstance(parent, list) else tokens[-1]]
    return value


def _remove(doc: Any, operation: Mapping[str, Any]) -> Any:
    _cut(doc, _inner(operation, "path"))
    return doc


def _replace(doc: Any, operation: Mapping[str, Any]) -> Any:
    """Replaces an item that is there, or sets a member: a real server does not ask for the old one."""
    tokens, value = _pointer(operation, "path"), _value(operation)
    if not tokens:
        return value
    parent = _get(doc, tokens[:-1])
    if not isinstance(parent, list):
        return _put(doc, tokens, value)
    parent[_index(parent, tokens[-1])] = value
    return doc


def _move(doc: Any, operation: Mapping[str, Any]) -> Any:
    source, target = _inner(operation, "from"), _inner(operation, "path")
    if target[: len(source)] == source and len(target) > len(source):
        raise PatchError("cannot move a value into itself")
    if source == target:
        _get(doc, source)
        return doc
    return _put(doc, target, _cut(doc, source))


def _copy(doc: Any, operation: Mapping[str, Any]) -> Any:
    value = _get(doc, _inner(operation, "from"))
    return _put(doc, _inner(operation, "path"), orjson.loads(orjson.dumps(value)))


def _test(doc: Any, operation: Mapping[str, Any]) -> Any:
    tokens = _pointer(operation, "path")
    if "value" not in operation or not same(_tested(doc, tokens), operation["value"]):
        raise PatchError(f"testing value /{'/'.join(tokens)} failed: test failed")
    return doc


def _tested(doc: Any, tokens: Sequence[str]) -> Any:
    """The value to test; None for a member that an object does not have: as on a real server it tests as null."""
    parent = _get(doc, tokens[:-1])
    return parent.get(tokens[-1]) if tokens and isinstance(parent, dict) else _get(doc, tokens)


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values: unlike in Python, true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(isinstance(one, bool) == isinstance(other, bool) and one == other)


_OPERATIONS: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "add": lambda doc, operation: _put(doc, _inner(operation, "path"), _value(operation)),
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
