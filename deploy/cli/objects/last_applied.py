"""The three-way merge of the manifest applied last, the manifest applied now, and the live object.

The annotation and the rule are kubectl's (`kubectl apply` on the client side), so that both tools can take turns on
one object: a field that was applied and is gone from the manifest is removed; a field that the manifest never had (a
default, a controller's value) stays. A list is replaced as a whole, but only if it differs from the live one by more
than the fields that the server added to its items.
"""

import json
from typing import Any

from workers.api.kinds import Object

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"

#: Characters that Go's JSON encoder escapes.
_ESCAPED = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def recorded(live: Object) -> Object:
    """Returns the manifest applied last, from the live object's annotation; empty if that is missing or invalid."""
    try:
        last = json.loads((live["metadata"].get("annotations") or {})[ANNOTATION])
    except (KeyError, ValueError):
        return {}
    return last if isinstance(last, dict) else {}


def annotated(manifest: Object) -> Object:
    """Returns the manifest with the annotation that records it."""
    metadata = manifest["metadata"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != ANNOTATION}
    plain = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    # Byte for byte kubectl's encoding, so that alternating between the tools does not rewrite the annotation each time.
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False, sort_keys=True).translate(_ESCAPED) + "\n"
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations, ANNOTATION: text}}}


def patch(last: Object, manifest: Object, live: Object) -> Object:
    """Returns the JSON merge patch from `live` to `manifest`; empty if nothing differs.

    The patch updates the annotation only together with another difference, or if the annotation is out of date.
    """
    changes = merge(_plain(last), _plain(manifest), live)
    if not changes and _plain(last) == _plain(manifest):
        return {}
    text = annotated(manifest)["metadata"]["annotations"][ANNOTATION]
    metadata = changes.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: text}
    return {**changes, "metadata": {**metadata, "annotations": annotations}}


def _plain(body: Object) -> Object:
    """Returns the object without the annotation, and without empty annotations, which only some tools write."""
    if not body:
        return {}
    metadata = dict(body.get("metadata") or {})
    annotations = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != ANNOTATION}
    return {**body, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


def merge(last: Any, wanted: Object, live: Object) -> Object:
    """Returns the merge patch of one mapping: removals by `last`, additions and changes by `wanted` against `live`."""
    before = last if isinstance(last, dict) else {}
    changes: Object = {key: None for key in before if key not in wanted and key in live}
    for key, value in wanted.items():
        if value is None:
            if live.get(key) is not None:
                changes[key] = None
        elif key not in live:
            changes[key] = value
        elif isinstance(value, dict) and isinstance(live[key], dict):
            if inner := merge(before.get(key), value, live[key]):
                changes[key] = inner
        elif not _same(before.get(key), value, live[key]):
            changes[key] = value
    return changes


def _same(last: Any, wanted: Any, live: Any) -> bool:
    """Returns True if the live value equals the wanted one, apart from fields that the server added to list items."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        return not merge(last, wanted, live)
    if isinstance(wanted, list) and isinstance(live, list):
        if isinstance(last, list) and len(last) != len(wanted):
            # The removed item is unknown, so no extra field of a live item counts as the server's addition.
            return bool(wanted == live)
        before = last if isinstance(last, list) else [None] * len(wanted)
        return len(wanted) == len(live) and all(map(_same, before, wanted, live))
    # bool is an int in Python, but true is not 1 in JSON.
    return type(wanted) is type(live) and bool(wanted == live)
