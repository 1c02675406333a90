"""``make demo-pool``: Celery workers as a Deployment that scales with its own queue, with a report.

Exits with code 1 and the reason if a task was missed, interrupted or run twice, or the pool did not grow and shrink to
zero.
"""

import sys
from pathlib import Path

import click
import redis.asyncio as redis
from celery import Celery
from rich.console import Console

from deploy.demo import stage
from deploy.demo.pool import manifest
from deploy.demo.pool.report import PoolRun, PoolSample, chart, faults, rows
from deploy.demo.pool.run import run
from deploy.demo.pool.work import QUEUE, TASK
from deploy.local import up
from workers.api.kinds import DEPLOYMENT, SCALED_OBJECT
from workers.client.rest import Cluster
from workers.settings import Settings

#: Unfinished tasks per wanted worker.
TASKS_PER_WORKER = 10


async def _demo(at: stage.DemoStage, tasks: int, most: int, seconds: float) -> PoolRun:
    async def act(cluster: Cluster, _: up.RunningPart) -> PoolRun:
        async with redis.Redis.from_url(at.broker) as store:
            with Celery(broker=at.broker) as sender:
                await cluster.create(DEPLOYMENT, manifest.deployment(at.broker))
                await cluster.create(SCALED_OBJECT, manifest.scaled_object(at.broker, TASKS_PER_WORKER, most))
                at.console.print(f"applied Deployment and ScaledObject {manifest.NAME}; pushing {tasks} tasks")
                # Short tasks may finish before the last worker starts, so the report requires no more than two.
                least = min(2, most, -(-tasks // TASKS_PER_WORKER))
                with at.console.status("no worker yet") as status:

                    def show(one: PoolSample) -> None:
                        status.update(f"workers: {one.ready} of {one.wanted}.  tasks: {one.done} of {tasks}")

                    def push(number: int) -> None:
                        sender.send_task(TASK, (number, seconds), queue=QUEUE)

                    return await run(cluster, store, push, range(tasks), least=least, most=most, show=show)

    settings = Settings(home=at.folder, pods=max(4, most))
    return await at.run(settings, "deployments,replicasets,pods", act)


@click.command()
@click.option("--tasks", default=60, show_default=True, type=click.IntRange(min=1), help="how many tasks to push")
@click.option("--most", default=4, show_default=True, type=click.IntRange(min=1), help="workers at most")
@click.option("--seconds", default=0.5, show_default=True, type=click.FloatRange(min=0), help="how long a task takes")
@click.option("--home", type=click.Path(path_type=Path), help="keep data and logs in this folder")
def main(tasks: int, most: int, seconds: float, home: Path | None) -> None:
    """Run tasks on a pool of Celery workers that a ScaledObject sizes by the pool's own queue."""
    console = Console()
    seen = stage.perform(console, home, lambda at: _demo(at, tasks, most, seconds))
    wrong = faults(seen)
    stage.report(
        console, rows(seen), wrong, "every task ran once, the pool grew and returned to zero", "\n".join(chart(seen))
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
