"""``make demo-events``: signed webhooks through the gateway, one Job per event and EventJob, with an account.

Exits with code 1 and the reason if an event was lost, done twice, or done out of its repository's order.
"""

import secrets
import sys
from pathlib import Path

import click
import redis.asyncio as redis
from rich.console import Console

from deploy.demo import stage
from deploy.demo.events import manifest
from deploy.demo.events.report import EventsRun, faults, rows
from deploy.demo.events.run import ready, run
from deploy.local.up import RunningPart
from scalers.deliveries.deliveries import Deliveries
from scheduler.keys import Keys
from workers.api.kinds import EVENT_JOB, SECRET, Ref
from workers.client.rest import Cluster
from workers.settings import Settings


async def _demo(at: stage.DemoStage, events: int, repositories: int) -> EventsRun:
    settings = Settings(home=at.folder)

    async def act(cluster: Cluster, running: RunningPart) -> EventsRun:
        address, secret = at.broker.removeprefix("redis://").partition("/")[0], secrets.token_urlsafe(24)
        await cluster.create(SECRET, manifest.secret(secret))
        for body in manifest.event_jobs(address):
            await cluster.create(EVENT_JOB, body)
        await ready(cluster)
        at.console.print(f"the page: {running.gateway}/")
        url = f"{running.gateway}/events/{manifest.NAMESPACE}/{manifest.BUILD}"
        at.console.print(f"applied EventJobs {manifest.BUILD} and {manifest.AUDIT}; sending {events} webhooks to {url}")
        async with redis.Redis.from_url(at.broker) as store, redis.Redis.from_url(running.broker) as own:
            with at.console.status("no event is done yet") as status:

                def show(seen: EventsRun) -> None:
                    killed = f", killed: {', '.join(seen.killed)}" if seen.killed else ""
                    status.update(f"attempts: {len(seen.notes)}{killed}")

                seen = await run(store, url, secret, events, repositories, running.parts, show)
            deliveries = Deliveries(own, Keys(settings.prefix))
            for name in (manifest.BUILD, manifest.AUDIT):
                body = await cluster.get(Ref(EVENT_JOB, manifest.NAMESPACE, name))
                seen.parked += (await deliveries.counts(body["metadata"]["uid"])).parked or 0
        return seen

    return await at.run(settings, "eventjobs,jobs,pods", act)


@click.command()
@click.option("--events", default=60, show_default=True, type=click.IntRange(min=1), help="how many webhooks to send")
@click.option("--repositories", default=6, show_default=True, type=click.IntRange(min=1), help="that they are of")
@click.option("--home", type=click.Path(path_type=Path), help="keep data and logs in this folder")
def main(events: int, repositories: int, home: Path | None) -> None:
    """Send signed webhooks, one Job each and EventJob, while parts of Penstock are killed."""
    console = Console()
    seen = stage.perform(console, home, lambda at: _demo(at, events, repositories))
    wrong = faults(seen)
    stage.report(console, rows(seen), wrong, "every event was done once by each EventJob, in its repository's order")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
