"""The reads of one refresh of ``penstock top``: the cluster's objects, the lanes and the last readings."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.cli import discovery, output
from deploy.cli.objects import describe
from deploy.cli.top import top_rows
from deploy.cli.top.top_rows import TopView
from scheduler.queue import Stats
from workers.api.kinds import JOB, VC_JOB, Kind, Object, Ref, controller_of
from workers.errors import ClusterError, NotFound, UserError

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from scheduler.keys import Keys
    from workers.client.rest import Cluster
    from workers.decision.snapshot import Reading

#: Seconds to wait for the broker: the objects are shown without it.
PATIENCE = 1.0


async def read(cluster: "Cluster", namespace: str, kind: Kind | None = None, homes: Sequence[Path] = ()) -> TopView:
    """Returns what is shown of one namespace (empty: of all). kind: only this one. homes: may hold the broker's URL.

    Jobs that have an owner are counted in its row, and shown themselves only if their kind is asked for. Raises
    ClusterError if no kind at all can be listed.
    """
    kinds = (kind,) if kind else top_rows.SHOWN
    wanted = tuple(dict.fromkeys((*kinds, JOB)))
    answers = await asyncio.gather(*(cluster.list(each, namespace) for each in wanted), return_exceptions=True)
    listed: dict[Kind, list[Object]] = {}
    missing: dict[str, str] = {}
    for each, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, tuple):
            listed[each] = answer[0]
        elif isinstance(answer, NotFound):
            continue
        elif isinstance(answer, ClusterError):
            missing[each.kind] = output.reason(answer)
        else:
            raise answer
    if not listed:
        raise next(answer for answer in answers if isinstance(answer, ClusterError))
    tallies = top_rows.tally(listed[JOB], datetime.now(UTC)) if JOB in listed else None
    objects = [(each, body) for each in kinds for body in listed.get(each, ()) if kind or _is_shown(each, body)]
    measured = [_key(each, body) for each, body in objects if each.id in top_rows.ANNOTATED]
    lanes, readings = await _broker(measured, homes)
    rows = tuple(top_rows.row(each, body, tallies, readings) for each, body in objects)
    return TopView(rows, lanes, missing)


def _is_shown(kind: Kind, body: Object) -> bool:
    return kind != JOB or controller_of(body) is None


def _key(kind: Kind, body: Object) -> str:
    return Ref(kind, body["metadata"].get("namespace") or "", body["metadata"]["name"]).key


async def _broker(
    keys: list[str], homes: Sequence[Path]
) -> "tuple[Mapping[str, Stats] | None, Mapping[str, Reading] | None]":
    """Returns the lanes' numbers and the readings of these keys; None for both if no broker is known or answers."""
    from redis.exceptions import RedisError

    from scheduler.queue import Lane
    from workers.handoff.readings import Readings

    async def ask(client: "Redis", names: "Keys") -> "tuple[Mapping[str, Stats], Mapping[str, Reading]]":
        lanes = {name: await Lane(client, name, names).stats() for name in ("reconcile", "poll")}
        found = await Readings(client, names).get_many(keys) if keys else []
        return lanes, {key: reading for key, reading in zip(keys, found, strict=True) if reading}

    try:
        return await describe.asked(ask, homes, PATIENCE)
    except (RedisError, OSError, TimeoutError, UserError):
        return None, None


async def find_kind(cluster: "Cluster", name: str | None) -> Kind | None:
    """Returns the kind of this name. Raises UserError for one that is not shown."""
    if not name:
        return None
    found = (await discovery.discover(cluster)).find(name).kind
    kind = next((each for each in top_rows.SHOWN if each.id == found.id), None)
    if kind is None:
        # Volcano's Jobs have the plural of others.
        names = (each.id if each == VC_JOB else each.plural for each in top_rows.SHOWN)
        raise UserError(f"--kind: {found.kind} is none of {', '.join(names)}")
    return kind


def age(since: datetime | None, now: datetime) -> str:
    """Returns the time since an instant in Kubernetes' short form."""
    return "-" if since is None else output.span(now - since)
