"""Parameters of requests: kinds, addresses, numbers, with errors that name the parameter."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

import orjson

from deploy.object_rows import derivation
from deploy.object_rows.row import TONES
from deploy.page.live.row_index import MOST, RowQuery, Sort
from deploy.page.web.web_answers import HttpRefusal
from workers.api import times
from workers.api.kinds import POD, Kind, Ref
from workers.errors import UserError

if TYPE_CHECKING:
    from starlette.requests import Request

#: The namespace that stands for none, in addresses of cluster-scoped objects.
NO_NAMESPACE = "-"
#: Characters of a search, topics of a connection, and bytes of an action's body.
LONGEST_SEARCH, MOST_TOPICS, LARGEST_BODY = 200, 200, 1 << 20


def kind(text: str) -> Kind:
    """Returns the shown kind of this id. Raises HttpRefusal (404)."""
    found = derivation.SHOWN.get(text)
    if found is None:
        raise HttpRefusal(404, f"{text[:100]!r} is no kind of this page")
    return found.kind


def ref(request: "Request") -> Ref:
    """Returns the object that a path names. Raises HttpRefusal (404)."""
    found, namespace = kind(request.path_params["kind"]), request.path_params["namespace"]
    if (namespace == NO_NAMESPACE) == found.namespaced:
        raise HttpRefusal(404, f"{found.kind} {'needs a' if found.namespaced else 'has no'} namespace")
    return Ref(found, "" if namespace == NO_NAMESPACE else namespace, request.path_params["name"])


def number(request: "Request", name: str, default: int, least: int, most: int) -> int:
    """Returns a whole number of the query. Raises UserError outside its bounds."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise UserError(f"{name}: a whole number from {least} to {most} is needed")
    return int(text)


def moment(request: "Request", name: str, default: datetime) -> datetime:
    """Returns a time of the query. Raises UserError for one that cannot be read."""
    text = request.query_params.get(name)
    if not text:
        return default
    try:
        return times.parse(text)
    except ValueError:
        raise UserError(f"{name}: a time looks like 2026-03-01T08:00:00Z") from None


def row_query(request: "Request") -> RowQuery:
    """Returns the query of a list of objects. Raises UserError or HttpRefusal for what it cannot mean."""
    given = request.query_params
    kinds = [kind(text).id for text in given.getlist("kind") if text]
    tones = [tone for tone in given.getlist("tone") if tone]
    if unknown := [tone for tone in tones if tone not in TONES]:
        raise UserError(f"tone: {unknown[0][:40]!r} is none of {', '.join(TONES)}")
    sort = given.get("sort") or "name"
    if sort not in get_args(Sort):
        raise UserError(f"sort: {sort[:40]!r} is none of {', '.join(get_args(Sort))}")
    text = given.get("q", "")
    if len(text) > LONGEST_SEARCH:
        raise UserError(f"q: at most {LONGEST_SEARCH} characters are searched for")
    # Pods are most of a cluster's objects and seldom what is looked for: they come when asked for.
    everything = [kind_id for kind_id in derivation.SHOWN if kind_id != POD.id]
    return RowQuery(
        kinds=list(dict.fromkeys(kinds)) or everything,
        namespace=given.get("namespace", ""),
        text=text,
        tones=tones,
        sort=sort,  # type: ignore[arg-type]
        after=given.get("after", ""),
        limit=number(request, "limit", 50, 1, MOST),
    )


def topics(given: Sequence[str]) -> tuple[frozenset[str], list[tuple[Kind, str, str]]]:
    """Returns the topics of a connection as messages have them, and what of the cluster they show.

    An object of a kind whose list is followed as well gets its row once. Raises UserError for an unknown topic.
    """
    if not given or len(given) > MOST_TOPICS:
        raise UserError(f"topic: 1 to {MOST_TOPICS} topics are needed")
    found: set[str] = set()
    shown: list[tuple[Kind, str, str]] = []
    lists = {rest for word, _, rest in (text.partition(":") for text in given) if word == "objects"}
    for text in given:
        word, _, rest = text.partition(":")
        kind_id, _, place = rest.partition("/")
        if text == "pipeline":
            found.add(text)
        elif word == "objects":
            shown.append((kind(rest), "", ""))
            found.add(f"rows:{rest}")
        elif word == "object" and "/" in place:
            namespace, _, name = place.partition("/")
            namespace = "" if namespace == NO_NAMESPACE else namespace
            shown.append((kind(kind_id), namespace, name))
            found.add(f"more:{kind_id}/{namespace}/{name}")
            if kind_id not in lists:
                found.add(f"row:{kind_id}/{namespace}/{name}")
        else:
            raise UserError(f"topic: {text[:100]!r}: objects:KIND, object:KIND/NAMESPACE/NAME or pipeline is needed")
    return frozenset(found), shown


async def body(request: "Request") -> dict[str, Any]:
    """Returns the JSON object of a request's body. Raises HttpRefusal (413) or UserError."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST_BODY:
            raise HttpRefusal(413, f"a body has at most {LARGEST_BODY} bytes")
        parts.append(part)
    try:
        found = orjson.loads(b"".join(parts) or b"{}")
    except ValueError:
        raise UserError("the body is not JSON") from None
    if not isinstance(found, dict):
        raise UserError("the body: an object is needed")
    return found
