"""Merging a patch into a template's spec."""

from typing import Any

from workers.api.kinds import Object


def merged(base: Any, patch: Any) -> Any:
    """The base with everything the patch says otherwise; neither is changed.

    Objects are merged field by field, and None takes a field out. Lists of objects that have names (tasks, containers,
    variables) are merged by name: what the patch does not name stays, what only the patch names comes last. Every
    other list is replaced.
    """
    if isinstance(patch, dict):
        return _objects(base if isinstance(base, dict) else {}, patch)
    if _named(patch) and _named(base):
        return _lists(base, patch)
    return patch


def _objects(base: Object, patch: Object) -> Object:
    result = {key: value for key, value in base.items() if key not in patch}
    changed = {key: merged(base.get(key), value) for key, value in patch.items() if value is not None}
    return {key: changed.get(key, result.get(key)) for key in (*base, *changed) if key in changed or key in result}


def _lists(base: list[Object], patch: list[Object]) -> list[Object]:
    changes = {each["name"]: each for each in patch}
    there = {each["name"] for each in base}
    kept = [merged(each, changes[each["name"]]) if each["name"] in changes else each for each in base]
    return kept + [merged({}, each) for each in patch if each["name"] not in there]


def _named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) and "name" in each for each in value)
