"""``penstock describe``: one object with its conditions, children, Events and last reading."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from deploy.cli import api_connection, discovery, options, output
from deploy.cli.completion import completers
from deploy.cli.objects import get, last_applied
from deploy.cli.schedules import run_table
from deploy.cli.volcano import describe_sections
from deploy.object_rows import failure_reasons, schedules
from workers.api import references
from workers.api.kinds import (
    COMMAND,
    EVENT,
    JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    POD,
    POD_GROUP,
    SCALED_JOB,
    SCALED_OBJECT,
    VC_CRON_JOB,
    VC_JOB,
    Kind,
    Object,
    Ref,
)
from workers.errors import ClusterError, Forbidden, NotFound, UserError

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from scheduler.keys import Keys
    from workers.client.rest import Cluster
    from workers.decision.snapshot import Reading

T = TypeVar("T")

#: Limit of the children and Events shown; the newest are shown and the others only counted.
SHOWN = 20
#: Seconds to wait for the broker's reading: `describe` must not hang on an unreachable broker.
PATIENCE = 1.0
#: Status fields that are shown as tables.
TABLES = frozenset({"conditions", "entries", "flowConditions", "outcomes", "runs"}) | describe_sections.TABLES
#: Labels that narrow the list of children by owner's kind; without one the whole namespace is listed.
LABELS = {SCALED_JOB.id: "scaledjob.keda.sh/name", JOB.id: "job-name"}
#: The kinds of children shown, by owner's kind; Jobs and pods for any other namespaced kind.
OWNED: dict[str, tuple[Kind, ...]] = {
    COMMAND.id: (),
    JOB.id: (POD,),
    JOB_FLOW.id: (VC_JOB, JOB_FLOW),
    JOB_TEMPLATE.id: (),
    POD.id: (),
    POD_GROUP.id: (POD,),
    SCALED_OBJECT.id: (),
    VC_CRON_JOB.id: (VC_JOB,),
    VC_JOB.id: (POD,),
}


@click.command("describe")
@click.argument(
    "what", nargs=-1, required=True, metavar="KIND [NAME]... | KIND/NAME...", shell_complete=completers.what
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces.")
@options.selector("Only objects with these labels: app=x,tier!=y.")
@api_connection.cluster_options
def command(
    what: tuple[str, ...], all_namespaces: bool, selector: str, target: api_connection.ConnectionTarget
) -> None:
    """Show objects with their conditions, children and Events.

    For a ScaledJob or ScaledObject, adds the last reading, and for the latter its target; for a ScheduledJob or
    CronJob, the next runs and the outcomes of the last ones; for a Volcano Job, its tasks and the reason why it failed
    or waits; for a Queue or PodGroup, the pending PodGroups in admission order; for a JobFlow, its graph and, if it has
    a schedule, its next runs.

    \b
    Examples:
      penstock describe scaledjob crunch
      penstock describe cronjob backup
      penstock describe job/crunch-1
      penstock describe pods -l job-name=crunch-1
    """

    async def work(cluster: "Cluster") -> None:
        namespace = "" if all_namespaces else target.namespace
        queries = get.asked(await discovery.discover(cluster), what, namespace, selector)
        answered, refused = await get.answers(cluster, queries)
        found = get.objects(answered)
        for index, (resource, body) in enumerate(found):
            if index:
                output.say("\n")
            metadata = body["metadata"]
            ref = Ref(resource.kind, metadata.get("namespace", ""), metadata["name"])
            await describe(cluster, ref, body, target.homes)
        output.raise_last(refused)
        get.tell_empty(queries, [query for query, answer in answered if not (query.name or answer["items"])])

    api_connection.run(target, work)


async def describe(cluster: "Cluster", ref: Ref, body: Object, homes: Sequence[Path]) -> None:
    """Prints one object's description. Leaves out parts that the user may not read, with a note on standard error.

    homes: may hold the URL of the broker with the last reading.
    """
    now = datetime.now(UTC)
    for line in head(ref, body, now):
        output.say(line)
    conditions(describe_sections.conditions(ref, body), now)
    await describe_sections.show(cluster, ref, body, now)
    if ref.kind.id == SCALED_OBJECT.id:
        await show_target(cluster, ref, body)
    if ref.kind.id in (SCALED_JOB.id, SCALED_OBJECT.id):
        show_reading(await reading(ref, homes))
    if schedules.by_the_clock(ref.kind, body):
        run_table.show_next(ref.kind, body, now)
        run_table.show_runs(body, now)
    found = await asyncio.gather(*(children(cluster, ref, body, kind) for kind in owned_kinds(ref.kind)))
    for kind, owned in zip(owned_kinds(ref.kind), found, strict=True):
        show_children(kind, owned, now)
    show_events(await events(cluster, ref, body), now)


def head(ref: Ref, body: Object, now: datetime) -> Iterator[str]:
    """Yields the lines of the metadata, aligned, then the other fields as YAML, without those that tables show."""
    metadata = body["metadata"]
    annotations = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if key != last_applied.ANNOTATION
    }
    owners = [f"{owner['kind']}/{owner['name']}" for owner in metadata.get("ownerReferences") or ()]
    created = metadata.get("creationTimestamp")
    fields: dict[str, Sequence[str]] = {
        "Name": [ref.name],
        "Namespace": [ref.namespace] if ref.namespace else [],
        "Kind": [f"{ref.kind.kind} ({ref.kind.api_version})"],
        "Labels": [f"{key}={value}" for key, value in (metadata.get("labels") or {}).items()] or ["<none>"],
        "Annotations": [f"{key}: {value}" for key, value in annotations.items()] or ["<none>"],
        "Created": [f"{created} ({output.age(created, now)} ago)"] if created else [],
        "Deleting": [metadata["deletionTimestamp"]] if metadata.get("deletionTimestamp") else [],
        "Finalizers": metadata.get("finalizers") or [],
        "Controlled by": owners,
    }
    for title, lines in fields.items():
        for index, line in enumerate(lines):
            yield f"{title + ':' if not index else '':15}{line}"
    rest = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata")}
    if status := rest.get("status"):
        rest["status"] = {key: value for key, value in status.items() if key not in TABLES}
    for key, value in rest.items():
        if value:
            yield f"{key.capitalize()}:"
            yield from ("  " + line for line in output.as_yaml(_masked(ref.kind, key, value)).splitlines())


def _masked(kind: Kind, key: str, value: Any) -> Any:
    """Returns a Secret's values as their lengths, as kubectl shows them."""
    if kind.id == "secrets" and key in ("data", "stringData"):
        return {name: f"{len(text) * 3 // 4 if key == 'data' else len(text)} bytes" for name, text in value.items()}
    return value


def conditions(entries: Sequence[Object], now: datetime) -> None:
    """Prints the conditions as a table."""
    if entries:
        output.say("Conditions:")
        rows = [
            [
                str(entry.get("type", "")),
                str(entry.get("status", "")),
                entry.get("reason") or "",
                output.age(entry["lastTransitionTime"], now) if entry.get("lastTransitionTime") else "",
                (entry.get("message") or "").replace("\n", " "),
            ]
            for entry in entries
        ]
        output.table(["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"], rows, indent="  ")


# --- children


def owned_kinds(kind: Kind) -> tuple[Kind, ...]:
    """Returns the kinds of children shown for an object of this kind."""
    return OWNED.get(kind.id, (JOB, POD)) if kind.namespaced else ()


async def children(cluster: "Cluster", ref: Ref, body: Object, kind: Kind) -> list[Object]:
    """Returns the objects of a kind that name this one as owner or PodGroup, the newest first."""
    label = LABELS.get(ref.kind.id)
    query = {"labelSelector": f"{label}={ref.name}"} if label else {}
    try:
        answer = await cluster.request("GET", kind.path(ref.namespace), query=query)
    except (Forbidden, NotFound) as error:
        output.note(f"penstock: {kind.plural} are not shown: {output.reason(error)}")
        return []
    uid = body["metadata"].get("uid")
    owned = [
        item
        for item in answer["items"]
        if any(owner.get("uid") == uid for owner in item["metadata"].get("ownerReferences") or ())
        or (ref.kind.id == POD_GROUP.id and references.REFERENCES[kind.id](item) == ref)
    ]
    return sorted(owned, key=lambda item: item["metadata"].get("creationTimestamp") or "", reverse=True)


def show_children(kind: Kind, owned: Sequence[Object], now: datetime) -> None:
    """Prints a table of children: name, state, age, and the failure if there is one."""
    if not owned:
        return
    output.say(f"{kind.kind}s ({len(owned)}{f', the newest {SHOWN} shown' if len(owned) > SHOWN else ''}):")
    rows = [
        [
            item["metadata"]["name"],
            state(kind, item),
            output.age(item["metadata"].get("creationTimestamp"), now),
            failure_reasons.of(kind, item),
        ]
        for item in owned[:SHOWN]
    ]
    width = 4 if any(row[3] for row in rows) else 3
    output.table(["NAME", "STATE", "AGE", "WHY"][:width], [row[:width] for row in rows], indent="  ")


def state(kind: Kind, body: Object) -> str:
    """Returns a Job's or a pod's state as one word."""
    status = body.get("status") or {}
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if kind.id == POD.id:
        return str(status.get("phase") or "Unknown")
    if kind.id in (VC_JOB.id, JOB_FLOW.id):
        return str((status.get("state") or {}).get("phase") or "Pending")
    true = {entry.get("type") for entry in status.get("conditions") or () if entry.get("status") == "True"}
    word = next((word for word in ("Complete", "Failed", "Suspended") if word in true), None)
    return word or ("Running" if status.get("active") else "Pending")


# --- events


async def events(cluster: "Cluster", ref: Ref, body: Object) -> list[Object]:
    """Returns the Events of this object (by UID), the oldest first."""
    fields = f"involvedObject.uid={body['metadata'].get('uid', '')}"
    try:
        answer = await cluster.request("GET", EVENT.path(ref.namespace), query={"fieldSelector": fields})
    except ClusterError as error:
        if isinstance(error, (Forbidden, NotFound)):
            output.note(f"penstock: Events are not shown: {output.reason(error)}")
            return []
        raise
    return sorted(answer["items"], key=lambda event: (_last(event) or "", get.version_of(event)))


def _last(event: Object) -> str | None:
    """Returns an Event's last time, which recorders write to different fields."""
    series = event.get("series") or {}
    instants = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return next((instant for instant in instants if instant), None)


def show_events(found: Sequence[Object], now: datetime) -> None:
    """Prints the newest Events as a table."""
    if not found:
        output.say("Events:        <none>")
        return
    output.say("Events:")
    rows = []
    for event in found[-SHOWN:]:
        count = (event.get("series") or {}).get("count") or event.get("count") or 1
        since = output.age(_last(event), now) + (f" (x{count})" if count > 1 else "")
        message = (event.get("message") or "").strip().replace("\n", " ")
        rows.append([str(event.get("type") or ""), str(event.get("reason") or ""), since, message])
    output.table(["TYPE", "REASON", "AGE", "MESSAGE"], rows, indent="  ")


# --- the last reading


async def reading(ref: Ref, homes: Sequence[Path]) -> "Reading | None":
    """Returns the last reading from the broker, or None if there is none or the broker is unreachable."""
    from redis.exceptions import RedisError

    from workers.handoff.readings import Readings

    try:
        found = await asked(lambda client, keys: Readings(client, keys).get_many([ref.key]), homes, PATIENCE)
    except (RedisError, OSError, TimeoutError):
        return None
    except UserError as error:
        output.note(f"penstock: the last reading is not shown: {error}")
        return None
    return found[0] if found else None


async def asked(question: Callable[["Redis", "Keys"], Awaitable[T]], homes: Sequence[Path], patience: float) -> T:
    """Returns the answer of the broker, which the settings name or else the homes.

    Raises UserError if they name none, and RedisError, OSError or TimeoutError if it does not answer.
    """
    from scheduler.broker import clients
    from scheduler.keys import Keys

    settings = options.load({})
    url = api_connection.broker_url(settings, homes)
    async with asyncio.timeout(patience), clients.client(url) as client:
        return await question(client, Keys(settings.prefix))


def show_reading(found: "Reading | None") -> None:
    """Prints a reading's samples as a table. Readings hold no resource metrics of the target's own pods."""
    from workers.api.keda.scaledobject import RESOURCE_TRIGGERS

    if found is None:
        return
    taken = datetime.fromtimestamp(found.started / 1e6, UTC)
    output.say(f"Last reading:  {taken.isoformat(timespec='seconds')} of generation {found.generation}")
    if found.problem:
        output.say(f"  {found.problem}")
    measured = [sample for sample in found.samples if sample.type not in RESOURCE_TRIGGERS]
    if measured:
        rows = [
            [
                sample.name,
                sample.type,
                "" if sample.error else f"{sample.value:g}",
                "" if sample.error else f"{sample.target:g}",
                "" if sample.error else str(sample.active).lower(),
                sample.failure or "",
            ]
            for sample in measured
        ]
        output.table(["METRIC", "TYPE", "VALUE", "TARGET", "ACTIVE", "ERROR"], rows, indent="  ")


async def show_target(cluster: "Cluster", ref: Ref, body: Object) -> None:
    """Prints a ScaledObject's target and its wanted number of replicas, or the reason why that is unknown."""
    from workers.client.scale_client import Scales
    from workers.controllers.keda import scaledobject

    target = scaledobject.CONTROLLER.scales(body)
    if target is None:
        return
    scale = await Scales(cluster).read(ref.namespace, target)
    state = scale.error or f"{scale.replicas} replica{'' if scale.replicas == 1 else 's'}"
    output.say(f"Target:        {target.kind} {ref.namespace}/{target.name}: {state}")
