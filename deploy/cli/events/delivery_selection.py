"""The flags that select deliveries, and the deliveries that a command line names."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import click

from deploy.cli import api_connection, options
from workers.api import times
from workers.api.kinds import EVENT_JOB, Object
from workers.errors import NotFound, UserError

if TYPE_CHECKING:
    from scalers.deliveries.deliveries import Deliveries
    from scalers.deliveries.delivery import Delivery, DeliveryFilter
    from workers.client.rest import Cluster

Command = TypeVar("Command", bound=Callable[..., object])

STATES = ("waiting", "delayed", "running", "retrying", "done", "parked", "dropped")

_SPAN = re.compile(r"(\d+)(s|m|h|d)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_INSTANT = "30m, 12h, 7d (ago), or 2026-03-01T08:00:00Z"


def filter_options(command: Command) -> Command:
    """Adds the flags that select deliveries; the command receives `state`, `type_`, `since` and `until`."""
    for decorate in (
        click.option("--until", metavar="TIME", help="Only those that arrived before: an instant or a duration."),
        click.option("--since", metavar="TIME", help=f"Only those that arrived since: {_INSTANT}."),
        click.option("--type", "type_", metavar="TYPE", help="Only events of this type."),
        click.option(
            "--state", "state", multiple=True, type=click.Choice(STATES), help="Only these states. [repeatable]"
        ),
    ):
        command = decorate(command)
    return command


def selected(
    state: Sequence[str], type_: str | None, since: str | None, until: str | None, now: datetime
) -> "DeliveryFilter":
    """Returns the filter of the flags. Raises UserError for a time that is none."""
    from scalers.deliveries.delivery import DeliveryFilter

    bounds = [micros(text, flag, now) if text else None for text, flag in ((since, "--since"), (until, "--until"))]
    chosen = DeliveryFilter(type=type_, since=bounds[0], until=bounds[1])
    return replace(chosen, states=frozenset(state)) if state else chosen  # type: ignore[arg-type]


def micros(text: str, flag: str, now: datetime) -> int:
    """Returns the instant that a flag names (µs), a duration counted back from now. Raises UserError."""
    if match := _SPAN.fullmatch(text):
        instant = now - timedelta(seconds=min(int(match[1]), 10**8) * _SECONDS[match[2]])
    else:
        try:
            instant = times.parse(text)
        except ValueError as error:
            raise UserError(f"{flag}: {error}; a time looks like {_INSTANT}") from None
    return (instant - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class NamedDeliveries:
    """The deliveries of the EventJob that a command line names."""

    name: str
    uid: str
    deliveries: "Deliveries"

    def job(self, delivery: "Delivery") -> str | None:
        """Returns the name of the Job of a running delivery, None for others."""
        return delivery.job(self.name, self.uid)

    async def named(self, texts: Sequence[str]) -> list["Delivery"]:
        """Returns the deliveries of events, named by id or entry. Raises UserError for an unknown one."""
        found: list[Delivery] = []
        for text in texts:
            of_event = await self.deliveries.of_event(self.uid, text)
            by_entry = None if of_event else await self.deliveries.get(self.uid, text)
            if not of_event and by_entry is None:
                raise UserError(f"EventJob {self.name} has no event {text}; ended ones are kept as spec.history says")
            found += [by_entry] if by_entry else of_event
        return found

    async def matching(self, filter: "DeliveryFilter", most: int | None = None) -> AsyncIterator["Delivery"]:
        """Yields the deliveries that pass the filter, the newest first, without data."""
        after, left = None, most
        while left is None or left > 0:
            page = await self.deliveries.page(self.uid, filter, after, 500 if left is None else min(left, 500))
            for each in page.deliveries:
                yield each
            left = None if left is None else left - len(page.deliveries)
            if (after := page.after) is None:
                return


@asynccontextmanager
async def opened(
    cluster: "Cluster", target: api_connection.ConnectionTarget, name: str, broker: str | None
) -> AsyncIterator[NamedDeliveries]:
    """Yields the deliveries of an EventJob.

    Raises UserError if there is none of this name, if no broker is known, or if this release does not read its data.
    """
    from penstock import _broker_format as broker_format
    from scalers.deliveries.deliveries import Deliveries
    from scheduler.broker import clients
    from scheduler.format_check import stored_format
    from scheduler.keys import Keys

    settings = options.load({"broker": broker})
    try:
        body: Object = await cluster.request("GET", EVENT_JOB.path(target.namespace, name))
    except NotFound:
        raise UserError(f"namespace {target.namespace} has no EventJob called {name}") from None
    timeout = settings.source_timeout
    url, keys = api_connection.broker_url(settings, target.homes), Keys(settings.prefix)
    async with clients.client(url, socket_timeout=timeout, socket_connect_timeout=timeout) as client:
        broker_format.check(await stored_format(client, keys))
        yield NamedDeliveries(name, body["metadata"]["uid"], Deliveries(client, keys))
