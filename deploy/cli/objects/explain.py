"""``penstock explain``: an object's last decisions and the arithmetic of the newest one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli import api_connection, discovery, options, output
from deploy.cli.completion import completers
from deploy.cli.objects import describe, get
from deploy.cli.volcano import describe_sections
from deploy.object_rows import failure_reasons
from workers.api.kinds import POD, SCALED_JOB, SCALED_OBJECT, Object, Ref
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster
    from workers.reconcile.decision_log import LoggedDecision

#: Seconds to wait for the broker's answer.
PATIENCE = 3.0


@click.command("explain")
@click.argument("what", nargs=-1, required=True, metavar="KIND NAME... | KIND/NAME...", shell_complete=completers.what)
@click.option("--last", type=click.IntRange(min=1), default=5, show_default=True, help="Decisions to show.")
@api_connection.cluster_options
def command(what: tuple[str, ...], last: int, target: api_connection.ConnectionTarget) -> None:
    """Show the last decisions on an object and their reasons.

    Each decision lists its steps and the failure of the previous attempt; for a ScaledJob also the values that its
    triggers measured and, for the newest decision, the arithmetic step by step. Pods of the object that failed, cannot
    start or have no node follow with the reason.

    The broker keeps twenty decisions per object for a week; repeated decisions are shown once.

    \b
    Examples:
      penstock explain scaledjob/crunch
      penstock explain cronjob backup --last 20
    """

    async def work(cluster: "Cluster") -> None:
        answered, refused = await get.answers(
            cluster, get.named(await discovery.discover(cluster), what, target.namespace)
        )
        for index, (query, body) in enumerate(answered):
            if index:
                output.say()
            await explain(cluster, Ref(query.resource.kind, query.namespace, query.name), body, last, target.homes)
        output.raise_last(refused)

    api_connection.run(target, work)


async def explain(cluster: "Cluster", ref: Ref, body: Object, last: int, homes: Sequence[Path]) -> None:
    """Prints the last decisions on one object. Raises UserError if the broker is unreachable.

    homes: may hold the broker's URL.
    """
    made = [each for each in await decisions(ref, homes) if each.uid == body["metadata"].get("uid")]
    now = datetime.now(UTC)
    output.say(f"{ref}")
    describe.conditions(describe_sections.conditions(ref, body), now)
    if ref.kind.id in (SCALED_JOB.id, SCALED_OBJECT.id):
        describe.show_reading(await describe.reading(ref, homes))
    show(made[:last], now)
    if POD in describe.OWNED.get(ref.kind.id, ()):
        owned = await describe.children(cluster, ref, body, POD)
        describe.show_children(POD, [pod for pod in owned if failure_reasons.of(POD, pod)], now)


async def decisions(ref: Ref, homes: Sequence[Path]) -> list["LoggedDecision"]:
    """Returns the decisions that the broker holds, the newest first.

    Raises UserError if the broker is unknown or unreachable.
    """
    from redis.exceptions import RedisError

    from workers.reconcile.decision_log import DecisionLog

    try:
        return await describe.asked(lambda client, keys: DecisionLog(client, keys).of(ref), homes, PATIENCE)
    except (RedisError, OSError, TimeoutError) as error:
        why = str(error) or f"no answer within {PATIENCE:g} s"
        url = options.mask(api_connection.broker_url(options.load({}), homes))
        raise UserError(f"the broker at {url}, which knows the decisions, is out of reach: {why}") from error


def show(made: Sequence["LoggedDecision"], now: datetime) -> None:
    """Prints the decisions, the newest first, and the newest one's arithmetic."""
    if not made:
        output.say(
            "Decisions:     <none> remembered: Penstock does not reconcile it, or has not looked at it for a week"
        )
        return
    figures = next((each for each in made if each.figures), None)
    output.say("Decisions:")
    for each in made:
        instant = datetime.fromtimestamp(each.at / 1e6, UTC)
        often = f", {each.times} times in a row" if each.times > 1 else ""
        output.say(f"  {output.span(now - instant)} ago{often}: {each.why}")
        if each.failed:
            output.say(f"    after a failure: {each.failed}")
        if each.did:
            output.say(f"    then: {', '.join(each.did)}")
        if each is figures:
            rows = [[f"{figure.value:g}", figure.name, figure.how and f"= {figure.how}"] for figure in each.figures]
            output.table(["", "FIGURE", "FROM"], rows, indent="    ")
