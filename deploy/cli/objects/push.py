"""``penstock push``: sends events to a ScaledJob, or by way of the gateway, one per call or one per line of input."""

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli import api_connection, options, output
from deploy.cli.completion import completers
from deploy.cli.objects import gateway_push
from deploy.cli.objects.gateway_push import PushOne
from penstock import cloudevents
from workers.api import times
from workers.api.kinds import EVENT_JOB, SCALED_JOB, Object, Ref
from workers.errors import ClusterError, NotFound, UserError

if TYPE_CHECKING:
    from scalers.sources.events.push import Push
    from scalers.sources.redis.connection import RedisLink
    from workers.client.rest import Cluster
    from workers.settings import Settings

SOURCE, TYPE = "/penstock/push", "dev.penstock.push"


@click.command("push")
@click.argument("name", shell_complete=completers.objects(SCALED_JOB))
@click.option("--type", "type_", default=TYPE, show_default=True, help="The event's type.")
@click.option("--source", default=SOURCE, show_default=True, help="The event's source.")
@click.option("--id", "id_", metavar="ID", help="The event's id, unique together with the source. [default: random]")
@click.option("--subject", help="The subject of the event.")
@click.option("--time", metavar="TIME", help="The event's time: 2026-03-01T08:00:00Z. [default: now]")
@click.option("--data", metavar="TEXT|@FILE|-", help="The event's data; `@` reads a file, `-` standard input.")
@click.option("--content-type", metavar="TYPE", help="The data's media type.")
@click.option("-a", "--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="A further attribute.")
@click.option("--lines", is_flag=True, help="Push every line of standard input: an event in CloudEvents' JSON format.")
@click.option("--trigger", default="", metavar="NAME", help="The trigger's name, where there are several to push to.")
@click.option("--broker", metavar="URL", help="Penstock's own broker, where the trigger names no server.")
@click.option("--gateway", metavar="URL", help="Push over HTTP to the gateway there, to an EventJob or a ScaledJob.")
@click.option("--token-file", metavar="FILE", help="File of the token for the gateway.")
@click.option("--gateway-ca", metavar="FILE", help="Authority of the gateway's certificate. [default: the system's]")
@api_connection.cluster_options
def command(
    name: str,
    data: str | None,
    attributes: tuple[str, ...],
    lines: bool,
    trigger: str,
    broker: str | None,
    gateway: str | None,
    token_file: str | None,
    gateway_ca: str | None,
    target: api_connection.ConnectionTarget,
    **given: str | None,
) -> None:
    """Push events to a ScaledJob or EventJob, and print their ids.

    An EventJob is pushed to over HTTP, with --gateway. The ScaledJob needs a trigger of type push; docs/events.md
    describes events.

    Two events with the same source and id are one event, so that a repeated push has no effect. The trigger rejects
    events beyond its maxEvents; events whose ids were printed before have been pushed.

    With --lines, the options supply what a line leaves out.

    \b
    Examples:
      penstock push orders --type order.placed --id 4711 --data '{"total": 12}'
      penstock push scans --source /scanner/3 --data @page.png --content-type image/png
      penstock push orders --type order.placed --lines < orders.jsonl
      penstock push orders --gateway https://events.example.org --token-file token --data '{"total": 12}'
    """
    if lines and data is not None:
        raise click.UsageError("--data is for a single event, and each of --lines brings its own")
    defaults = basis(given, attributes)
    events = from_lines(sys.stdin.buffer, defaults) if lines else iter([("the event", one(defaults, data))])
    settings = options.load({"broker": broker})
    if gateway is not None:
        _refuse_both(broker=broker, trigger=trigger)
        authority = Path(gateway_ca) if gateway_ca else None
        token, patience = gateway_push.read_token(token_file), settings.source_timeout
        to = gateway_push.GatewayTarget(gateway, target.namespace, name, token, authority, patience)
        gateway_push.check(to)
        asyncio.run(_push(f"{target.namespace}/{name}", gateway_push.connected(to), events))
        return
    if token_file or gateway_ca:
        raise click.UsageError("--token-file and --gateway-ca are for --gateway")
    ref = Ref(SCALED_JOB, target.namespace, name)

    async def work(cluster: "Cluster") -> None:
        scaler = await _scaler(cluster, ref, trigger, settings, target.homes)
        await _push(str(ref), _connected(scaler, settings.source_timeout), events)

    api_connection.run(target, work)


def _refuse_both(**given: str | None) -> None:
    for name, text in given.items():
        if text:
            raise click.UsageError(f"--{name} and --gateway exclude each other")


def basis(given: Mapping[str, str | None], attributes: Iterable[str]) -> dict[str, str]:
    """Returns the attributes that the options set. Raises UserError for an attribute that is not NAME=VALUE."""
    names = {"type_": "type", "id_": "id", "content_type": "datacontenttype"}
    event = {"specversion": "1.0", **{names.get(name, name): text for name, text in given.items() if text is not None}}
    for text in attributes:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"--attribute: {text}: NAME=VALUE is needed")
        event[name] = value
    return event


def one(defaults: Mapping[str, str], data: str | None) -> dict[str, str]:
    """Returns one event with the data of ``--data``. Raises UserError if its file cannot be read."""
    event = _complete({}, defaults)
    if data is None:
        return event
    try:
        if data == "-":
            return cloudevents.with_data(event, sys.stdin.buffer.read())
        return cloudevents.with_data(event, Path(data[1:]).read_bytes() if data.startswith("@") else data.encode())
    except OSError as error:
        raise UserError(f"--data: {data[1:]}: {error.strerror}") from error


def from_lines(lines: Iterable[bytes], defaults: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the events with their line numbers, without blank lines. Raises UserError for a line that is no event."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            # The first line of some files begins with a mark of their encoding.
            body = json.loads(line.decode("utf-8-sig"))
            yield f"line {number}", _complete(cloudevents.from_json(cloudevents.with_json_data(body)), defaults)
        except RecursionError:
            raise UserError(f"line {number}: is nested too deeply") from None
        except UnicodeDecodeError:
            raise UserError(f"line {number}: is not UTF-8") from None
        except ValueError as error:
            reason = "is not JSON" if isinstance(error, json.JSONDecodeError) else error
            raise UserError(f"line {number}: {reason}") from error


def _complete(event: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    return {"id": str(uuid.uuid4()), "time": times.render(datetime.now(UTC)), **defaults, **event}


async def _scaler(cluster: "Cluster", ref: Ref, trigger: str, settings: "Settings", homes: Sequence[Path]) -> "Push":
    """Returns the push trigger, parsed as scalers parse it.

    homes: may hold the URL of Penstock's own broker. Raises UserError if there is no such trigger, or more than one,
    or if it names no server and the own broker is unknown.
    """
    from scalers.auth.authenticator import Authenticator
    from scalers.auth.lookups import Lookups
    from scalers.sources.events.push import Push
    from scalers.triggers.parse import Triggers

    try:
        body: Object = await cluster.request("GET", ref.kind.path(ref.namespace, ref.name))
    except NotFound:
        raise UserError(await _no_scaledjob(cluster, ref, homes)) from None
    lookups = Lookups(cluster.get, cluster.request, own_namespace=settings.own_namespace)
    triggers = Triggers(
        lookups=lookups,
        authenticator=Authenticator(settings.own_namespace),
        # Another trigger may need it where this one does not.
        broker=api_connection.known_broker(settings, homes) or settings.broker_url,
        prefix=settings.prefix,
        quirks=settings.keda_quirks,
    )
    parsed = await triggers.parse(ref, body)
    if parsed.problem:
        raise UserError(f"{ref}: {parsed.problem}")
    specs = body["spec"]["triggers"]
    found = [
        probe.scaler
        for spec, probe in zip(specs, parsed.probes, strict=True)
        if isinstance(probe.scaler, Push) and (not trigger or spec.get("name") == trigger)
    ]
    if len(found) > 1:
        raise UserError(f"{ref} has {len(found)} triggers of type push; --trigger tells which by its name")
    if not found:
        raise UserError(f"{ref} has no trigger of type push" + (f" called {trigger}" if trigger else ""))
    if not found[0].places():
        api_connection.broker_url(settings, homes)
    return found[0]


async def _no_scaledjob(cluster: "Cluster", ref: Ref, homes: Sequence[Path]) -> str:
    from deploy.local.home import Home

    missing = f"namespace {ref.namespace} has no ScaledJob called {ref.name}"
    try:
        await cluster.request("GET", EVENT_JOB.path(ref.namespace, ref.name))
    except ClusterError:
        return missing
    files = (Home(home).gateway_url for home in homes)
    found = next((f" (that of `penstock up` is in {file})" for file in files if file.is_file()), "")
    return f"{missing}, but an EventJob: push to it with --gateway URL{found}"


async def _push(
    to: str, connection: AbstractAsyncContextManager[PushOne], events: Iterable[tuple[str, Mapping[str, str]]]
) -> None:
    """Pushes events in order and prints their ids. Raises UserError at the first that cannot be pushed."""
    pushed = 0
    async with connection as push_one:
        try:
            for where, event in events:
                if refused := cloudevents.wrong(event) or await push_one(event):
                    raise UserError(f"{to}: {where}: {refused}")
                output.say(event["id"])
                pushed += 1
        except UserError as error:
            raise UserError(f"{error} ({pushed} pushed before it)") if pushed else error from None


@asynccontextmanager
async def _connected(scaler: "Push", patience: float) -> AsyncIterator[PushOne]:
    """Yields the push of one event to the trigger's server. patience: timeout of one event, seconds."""
    link = scaler.server.connect(connections=1)
    try:
        yield lambda event: _refusal(link, scaler, patience, event)
    finally:
        await link.close()


async def _refusal(link: "RedisLink", scaler: "Push", patience: float, event: Mapping[str, str]) -> str:
    """Pushes one event; returns the reason of its rejection, empty if it was taken."""
    from redis import exceptions

    from scalers.sources.redis.connection import reason

    try:
        async with asyncio.timeout(patience):
            [answer] = await link.run([scaler.question.push(event)])
    except TimeoutError:
        return f"{scaler.server}: no answer within {patience:g} s; {gateway_push.repeated(event)}"
    except (exceptions.RedisError, OSError) as error:
        return f"{scaler.server}: {reason(error)}"
    if not isinstance(answer, exceptions.RedisError):
        return ""
    text = reason(answer)
    return text.removeprefix("FULL ") if text.startswith("FULL") else f"{scaler.server}: {text}"
