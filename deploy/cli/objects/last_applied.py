"""Three-way merge of a manifest: what was applied last, what is applied now, what the cluster has.

The annotation and the rule are kubectl's (`kubectl apply` on the client side), so that both tools can take turns on
one object: a field that was applied and is gone from the manifest is removed; a field the manifest never had (a
default, a controller's doing) is left alone. Lists are replaced whole, but only when they differ from the
cluster's by more than what the server added to their items.
"""

import json
from typing import Any

from workers.api.kinds import Object

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"

#: Go's JSON escapes these.
_ESCAPED = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def recorded(live: Object) -> Object:
    """What was applied last, by the annotation of the live object; empty when nobody applied it or it is garbage."""
    try:
        last = json.loads((live["metadata"].get("annotations") or {})[ANNOTATION])
    except (KeyError, ValueError):
        return {}
    return last if isinstance(last, dict) else {}


def annotated(manifest: Object) -> Object:
    """The manifest with the annotation that remembers it."""
    metadata = manifest["metadata"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != ANNOTATION}
    plain = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    # Spelt byte for byte as kubectl spells it, so that taking turns does not change the annotation each time.
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False, sort_keys=True).translate(_ESCAPED) + "\n"
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations, ANNOTATION: text}}}


def patch(last: Object, manifest: Object, live: Object) -> Object:
    """The JSON merge patch that brings `live` to what `manifest` asks; empty when it is there already.

    The annotation alone is written only together with a difference, or when what it records is no longer true.
    """
    changes = merge(_plain(last), _plain(manifest), live)
    if not changes and _plain(last) == _plain(manifest):
        return {}
    text = annotated(manifest)["metadata"]["annotations"][ANNOTATION]
    metadata = changes.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: text}
    return {**changes, "metadata": {**metadata, "annotations": annotations}}


def _plain(body: Object) -> Object:
    """The object without the annotation, and without empty annotations, which some tools write and some do not."""
    if not body:
        return {}
    metadata = dict(body.get("metadata") or {})
    annotations = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != ANNOTATION}
    return {**body, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


def merge(last: Any, wanted: Object, live: Object) -> Object:
    """The merge patch for one mapping: removals by `last`, additions and changes by `wanted` against `live`."""
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
    """Whether the cluster's value is the wanted one, apart from what the server added inside a list's items."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        return not merge(last, wanted, live)
    if isinstance(wanted, list) and isinstance(live, list):
        if isinstance(last, list) and len(last) != len(wanted):
            # Which item was removed cannot be told, so nothing in the cluster's items may be taken for an addition.
            return bool(wanted == live)
        before = last if isinstance(last, list) else [None] * len(wanted)
        return len(wanted) == len(live) and all(map(_same, before, wanted, live))
    # bool is an int in Python, but true is not 1 in JSON.
    return type(wanted) is type(live) and bool(wanted == live)
