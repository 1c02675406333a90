"""``penstock check``: prints how objects would behave under Penstock."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from deploy.cli import options, output
from deploy.cli.api_connection import ConnectionTarget, cluster_options, connected

if TYPE_CHECKING:
    from deploy.cli.check.inventory import Inventory
    from deploy.cli.check.judgment import Judgment

#: Deployments of the systems that act on the same objects, by name.
_SYSTEMS = {
    "keda-operator": "KEDA",
    "volcano-controllers": "Volcano's controllers",
    "volcano-scheduler": "Volcano's scheduler",
    "volcano-admission": "Volcano's webhook",
}


@click.command("check")
@click.option(
    "-f",
    "--filename",
    "files",
    type=options.WORD,
    multiple=True,
    metavar="PATH",
    help="Manifests, a folder of them, or -.",
)
@click.option("-R", "--recursive", is_flag=True, help="Folders with their subfolders.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces of the cluster.")
@click.option("-o", "--output", "form", type=click.Choice(("json", "yaml")), help="JSON or YAML instead of text.")
@cluster_options
def command(
    files: tuple[str, ...], recursive: bool, all_namespaces: bool, form: str | None, target: ConnectionTarget
) -> int:
    """Say how objects of KEDA, Kubernetes and Volcano would behave.

    It judges ScaledJobs, ScaledObjects, authentications, CronJobs and Volcano's kinds, from manifests or from a
    cluster: what stays the same, what differs, and what is not supported. It changes nothing.

    Exit code 1: an object has something that is not supported, or no kind of a cluster may be listed.

    \b
    Examples:
      penstock check -f manifests/ -R
      penstock check --context live --all-namespaces
      kubectl get scaledjobs -A -o yaml | penstock check -f - -o json
    """
    inventory, judgments, systems = asyncio.run(_judged(files, recursive, all_namespaces, target))
    if form:
        body = [_as_object(each) for each in judgments]
        output.say(output.as_json(body) if form == "json" else output.as_yaml(body))
        for line in (*_unread(inventory), *systems):
            output.note(line)
    else:
        _print(inventory, judgments, systems)
    return 1 if any(each.verdict == "not supported" for each in judgments) else 0


async def _judged(
    files: Sequence[str], recursive: bool, everywhere: bool, target: ConnectionTarget
) -> "tuple[Inventory, list[Judgment], list[str]]":
    from deploy.cli import manifests
    from deploy.cli.check import inventory, judgment
    from workers.settings import Settings

    settings = Settings()
    if files:
        # Folders of manifests have other files, too: a kustomization, a chart's values and templates.
        read, others = manifests.read_objects(files, recursive=recursive)
        for each in others:
            output.note(f"not judged: {each}")
        found = inventory.of_manifests(read, target.namespace)
        return found, [await judgment.judge(each, found, settings) for each in found.candidates], []
    async with connected(target) as cluster:
        found = await inventory.of_cluster(cluster, "" if everywhere else target.namespace)
        judged = [await judgment.judge(each, found, settings) for each in found.candidates]
        return found, judged, await _running(cluster)


async def _running(cluster: Any) -> list[str]:
    """Returns the systems that would act on the same objects, with the Deployments that they are known by."""
    from workers.api.kinds import DEPLOYMENT
    from workers.errors import ClusterError

    try:
        deployments, _ = await cluster.list(DEPLOYMENT)
    except ClusterError:
        return ["whether KEDA or Volcano run there is not known: Deployments could not be listed"]
    at_work = (each["metadata"] for each in deployments if (each.get("spec") or {}).get("replicas", 1))
    return [
        f"{_SYSTEMS[meta['name']]} runs there (Deployment {meta['namespace']}/{meta['name']}): stop it before"
        " Penstock acts on its objects"
        for meta in at_work
        if meta["name"] in _SYSTEMS
    ]


def _print(inventory: "Inventory", judgments: "Sequence[Judgment]", systems: Sequence[str]) -> None:
    from deploy.cli.check.differences import GENERAL

    for judgment in judgments:
        ref, where = judgment.candidate.ref, judgment.candidate.where
        name = f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
        output.say(f"{ref.kind.id} {name}: {judgment.verdict}{f'  ({where})' if where else ''}")
        for point in judgment.points:
            place = f"{point.field}: " if point.field else ""
            output.say(f"  {point.verdict}: {place}{point.text}")
            if point.advice:
                output.say(f"    {point.advice}")
        if judgment.points and judgment.same:
            output.say(f"  same: {', '.join(judgment.same)}")
    counts = Counter[str](each.verdict for each in judgments)
    verdicts = ("same", "differs", "unknown", "not supported")
    if judgments:
        output.say("")
    objects = "1 object" if len(judgments) == 1 else f"{len(judgments)} objects"
    output.say(f"{objects}: {', '.join(f'{counts[each]} {each}' for each in verdicts)}")
    if inventory.passed:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(inventory.passed.items()))
        output.say(f"not judged, for they are of other kinds: {kinds}")
    for text in (*_unread(inventory), *systems):
        output.say(text)
    for id in dict.fromkeys(each.candidate.ref.kind.id for each in judgments):
        if page := GENERAL.get(id):
            output.say(f"what differs for every object of {id}: {page}")


def _unread(inventory: "Inventory") -> list[str]:
    return [f"{id} could not be listed: {why}" for id, why in inventory.unread.items()]


def _as_object(judgment: "Judgment") -> dict[str, Any]:
    ref = judgment.candidate.ref
    points = [
        {name: value for name in ("verdict", "field", "text", "advice") if (value := getattr(point, name))}
        for point in judgment.points
    ]
    return {
        **ref.kind.type_meta,
        "namespace": ref.namespace,
        "name": ref.name,
        "where": judgment.candidate.where,
        "verdict": judgment.verdict,
        "points": points,
        "same": list(judgment.same),
    }
