"""The verbs that ``penstock job``, ``queue``, ``flow`` and ``template`` share, with vcctl's flags and messages.

`KindVerbs` adds them to a click group; a kind supplies its columns and help texts as data.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from deploy.cli import api_connection, discovery, manifests, output
from deploy.cli.completion import completers
from deploy.cli.objects import get
from workers.api import kinds
from workers.api.kinds import COMMAND, Kind, Object, Ref
from workers.errors import ClusterError, Forbidden, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

Command = TypeVar("Command", bound=Callable[..., Any])
#: The part of a verb that needs the cluster.
Work = Callable[["Cluster"], Awaitable[None]]
#: Prints one object's description. The last argument: folders that may hold the broker's URL.
Describe = Callable[["Cluster", Ref, Object, Sequence[Path]], Awaitable[None]]

#: The namespace of Commands for objects without a namespace.
COMMAND_NAMESPACE = "default"
FORMATS = ("yaml", "json")

EVERYWHERE = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Objects of all namespaces.")
NAME_OR_ALL = click.option("-N", "--name", metavar="NAME", help="Its name; without it, all of the namespace.")
NAME_OR_FILE = click.option("-N", "--name", metavar="NAME", help="Its name.")
SOURCE = click.option(
    "-f",
    "--file",
    "--filename",
    "source",
    required=True,
    metavar="FILE|-",
    help="The YAML file.",
    shell_complete=completers.paths,
)
FILE = click.option(
    "-f", "--file", "--filename", "source", metavar="FILE|-", help="The YAML file.", shell_complete=completers.paths
)


def help_text(summary: str, *examples: str) -> str:
    """Returns a verb's help: its summary and its examples."""
    return "\n".join((summary, "", "\b", "Examples:", *(f"  penstock {example}" for example in examples)))


@dataclass(frozen=True, slots=True)
class KindVerbs:
    """Adds verbs for objects of one kind to a group, whose name stands for the kind in messages.

    header, row: the columns of `list` and `get`. also: further kinds that files of `create` and `delete` may hold.
    Every `text` parameter is a verb's `help_text`.
    """

    group: click.Group
    kind: Kind
    header: Sequence[str] = ()
    row: Callable[[Object, datetime], list[Any]] = lambda _body, _now: []
    also: tuple[Kind, ...] = ()

    @property
    def name(self) -> Callable[[Command], Command]:
        """The required flag for the name of one object."""
        letter = "-N" if self.kind.namespaced else "-n"
        completer = completers.objects(self.kind)
        return click.option(letter, "--name", required=True, metavar="NAME", help="Its name.", shell_complete=completer)

    def cluster_options(self, command: Command) -> Command:
        """Adds vcctl's flags for the cluster. For a kind without namespaces ``-n`` is the name."""
        return api_connection.cluster_options(
            command, kubeconfig=("-k", "--kubeconfig"), namespaced=self.kind.namespaced
        )

    def add(self, verb: str, text: str, begin: Callable[..., Work], *options: Callable[[Command], Command]) -> None:
        """Adds a verb. begin: receives the target and the options' values, checks them and returns the work."""

        def run(target: api_connection.ConnectionTarget, **given: Any) -> None:
            api_connection.run(target, begin(target, **given))

        command = self.cluster_options(run)
        for option in reversed(options):
            command = option(command)
        self.group.command(verb, help=text)(command)

    def add_create(self, text: str) -> None:
        """Adds `create`, which creates the objects of a file."""

        def begin(target: api_connection.ConnectionTarget, source: str) -> Work:
            found = read(source, (self.kind, *self.also), target.namespace)
            return lambda cluster: create(cluster, found)

        self.add("create", text, begin, SOURCE)

    def add_list(self, text: str) -> None:
        """Adds `list`, of one namespace or of all."""

        def begin(target: api_connection.ConnectionTarget, everywhere: bool = False) -> Work:
            async def work(cluster: "Cluster") -> None:
                self._print(await list_objects(cluster, self.kind, "" if everywhere else target.namespace))

            return work

        self.add("list", text, begin, *([EVERYWHERE] if self.kind.namespaced else []))

    def add_get(self, text: str, more: Callable[["Cluster", str], Awaitable[None]] | None = None) -> None:
        """Adds `get`, which prints one object's row. more: prints further parts, given the object's name."""

        def begin(target: api_connection.ConnectionTarget, name: str) -> Work:
            async def work(cluster: "Cluster") -> None:
                self._print([await cluster.request("GET", self.kind.path(target.namespace, name))])
                if more:
                    await more(cluster, name)

            return work

        self.add("get", text, begin, self.name)

    def add_describe(self, text: str, describe: Describe | None = None) -> None:
        """Adds `describe`, which prints whole objects. describe: adds the format `text`, which it prints."""

        def begin(target: api_connection.ConnectionTarget, name: str | None, form: str) -> Work:
            async def work(cluster: "Cluster") -> None:
                found = await bodies(cluster, self.kind, target.namespace, name)
                if form != "text" or describe is None:
                    write(found, form)
                    return
                for index, body in enumerate(found):
                    if index:
                        output.say("\n")
                    ref = Ref(self.kind, target.namespace, body["metadata"]["name"])
                    await describe(cluster, ref, body, target.homes)
                if not found:
                    output.say("No resources found")

            return work

        choice, meaning = click.Choice(FORMATS), "Output format."
        if describe:
            choice, meaning = click.Choice((*FORMATS, "text")), "text: with its graph, Jobs and Events."
        form = click.option("-o", "--format", "form", type=choice, default="yaml", show_default=True, help=meaning)
        self.add("describe", text, begin, NAME_OR_ALL, form)

    def add_delete(self, text: str) -> None:
        """Adds `delete` of one object by its name."""

        def begin(target: api_connection.ConnectionTarget, name: str) -> Work:
            async def work(cluster: "Cluster") -> None:
                await cluster.request("DELETE", self.kind.path(target.namespace, name))
                output.say(f"delete {self.group.name} {name} successfully")

            return work

        self.add("delete", text, begin, self.name)

    def add_delete_files(self, text: str) -> None:
        """Adds `delete` of one object by its name, or of the objects of a file."""

        def begin(target: api_connection.ConnectionTarget, name: str | None, source: str | None) -> Work:
            refs = named(name, source, (self.kind, *self.also), target.namespace)
            return lambda cluster: delete(cluster, refs)

        self.add("delete", text, begin, NAME_OR_FILE, FILE)

    def add_action(self, verb: str, action: str, text: str, has_effect: Callable[[Object, str], bool]) -> None:
        """Adds a verb that requests an action of one object by a Command.

        has_effect: tells by the object and the action if that would change anything. Raises UserError if it never will.
        """

        def begin(target: api_connection.ConnectionTarget, name: str) -> Work:
            async def work(cluster: "Cluster") -> None:
                ref = Ref(self.kind, target.namespace, name)
                # A Command is deleted once the object's status tells of it, so the object is read behind them.
                waiting = await commands_wait(cluster, ref)
                body: Object = await cluster.request("GET", ref.kind.path(ref.namespace, ref.name))
                if has_effect(body, action) or waiting:
                    await self.request(cluster, ref, verb, action)
                else:
                    output.say(f"{verb} {self.group.name} {name}: nothing to change")

            return work

        self.add(verb, text, begin, self.name)

    async def request(self, cluster: "Cluster", ref: Ref, verb: str, action: str) -> None:
        """Requests an action of one object and prints so."""
        await send_command(cluster, ref, action)
        output.say(f"{verb} {self.group.name} {ref.name}: command {action} was given")

    def _print(self, found: Sequence[Object]) -> None:
        now = datetime.now(UTC)
        print_table(self.header, [self.row(body, now) for body in found])


# --- lists


async def list_objects(cluster: "Cluster", kind: Kind, namespace: str = "") -> list[Object]:
    """Returns all objects of a kind, of all namespaces if `namespace` is empty."""
    query = get.Query(discovery.DiscoveredKind(kind), namespace)
    found: list[Object] = (await get.pages(cluster, query))["items"]
    return found


def age(since: str | None, now: datetime) -> str:
    """Returns the time since an instant in vcctl's form: whole years keep their days (``2y0d``), unlike kubectl's."""
    text = output.age(since, now)
    return f"{text}0d" if text.endswith("y") and int(text[:-1]) < 8 else text


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a table, or a message if there are no rows."""
    if rows:
        output.table(header, [["" if cell is None else str(cell) for cell in row] for row in rows])
    else:
        output.say("No resources found")


async def bodies(cluster: "Cluster", kind: Kind, namespace: str, name: str | None) -> list[Object]:
    """Returns the object of this name, or without a name all of the namespace, with apiVersion and kind filled in."""
    if name:
        found = [await cluster.request("GET", kind.path(namespace, name))]
    else:
        found = await list_objects(cluster, kind, namespace)
    return [{**kind.type_meta, **body} for body in found]


def write(found: Sequence[Object], form: str) -> None:
    """Prints the objects as YAML documents, or one JSON text after the other."""
    shape = get.OutputShape(form)
    for index, body in enumerate(found):
        if index and form == "yaml":
            output.say("---")
        trimmed = shape.trimmed(body)
        output.say(output.as_yaml(trimmed) if form == "yaml" else output.as_json(trimmed))
    if not found:
        output.say("No resources found")


# --- files


def read(source: str, allowed: Sequence[Kind], namespace: str) -> list[tuple[Ref, Object]]:
    """Returns the objects of a file; `namespace` is that of objects that name none.

    Raises UserError if an object is of a kind that is not allowed.
    """
    found = []
    for manifest in manifests.read([source]):
        kind = kinds.by_manifest(manifest.api_version, manifest.kind)
        if kind not in allowed or kind is None:
            wanted = " or ".join(f"{each.kind} ({each.api_version})" for each in allowed)
            raise UserError(
                f"{manifest.where}: {wanted} is needed, not {manifest.kind} {manifest.name} ({manifest.api_version})"
            )
        within = manifest.namespace or namespace
        body = {**manifest.body, "metadata": {**manifest.body["metadata"], "namespace": within}}
        found.append((Ref(kind, within, manifest.name), body))
    return found


def named(name: str | None, source: str | None, allowed: Sequence[Kind], namespace: str) -> list[Ref]:
    """Returns the object of this name (of the first kind allowed), or those of a file in reverse order."""
    if (name is None) == (source is None):
        raise click.UsageError("either -N NAME or -f FILE is needed")
    if source is None:
        return [Ref(allowed[0], namespace, str(name))]
    return [ref for ref, _ in reversed(read(source, allowed, namespace))]


async def create(cluster: "Cluster", found: Sequence[tuple[Ref, Object]]) -> None:
    """Creates all objects, also after one was refused. Raises UserError if any was refused."""
    strict = {"fieldValidation": "Strict"}
    requests = (
        (ref, cluster.request("POST", ref.kind.path(ref.namespace), query=strict, body=body)) for ref, body in found
    )
    await _each("Created", requests)


async def delete(cluster: "Cluster", refs: Sequence[Ref]) -> None:
    """Deletes all objects, also after one could not be deleted. Raises UserError if any could not."""
    await _each("Deleted", ((ref, cluster.request("DELETE", ref.kind.path(ref.namespace, ref.name))) for ref in refs))


async def _each(done: str, requests: Iterable[tuple[Ref, Awaitable[Any]]]) -> None:
    refused = []
    for ref, request in requests:
        try:
            await request
        except ClusterError as error:
            if not error.status:
                raise
            refused.append(f"{ref}: {output.reason(error)}")
        else:
            output.say(f"{done} {ref.kind.kind}: {ref.namespace}/{ref.name}")
    for each in refused[1:]:
        output.note(f"penstock: {each}")
    if refused:
        raise UserError(refused[0])


# --- Commands


def command_for(kind: Kind, target: Object, action: str) -> Object:
    """Returns the Command object that requests an action of the target, which owns it."""
    metadata = target["metadata"]
    # The owner reference makes the garbage collector delete a Command that no controller has carried out.
    reference = kinds.owner_reference(kind, target)
    return {
        **COMMAND.type_meta,
        "metadata": {
            "generateName": f"{metadata['name']}-{action.lower()}-",
            "namespace": metadata.get("namespace") or COMMAND_NAMESPACE,
            "ownerReferences": [reference],
        },
        "target": reference,
        "action": action,
    }


async def commands_wait(cluster: "Cluster", ref: Ref) -> bool:
    """Returns True if Commands for the object may wait to be carried out: they do, or the user may not list them."""
    try:
        found = await list_objects(cluster, COMMAND, ref.namespace or COMMAND_NAMESPACE)
    except Forbidden:
        return True
    targets = [each.get("target") or {} for each in found]
    return any((each.get("kind"), each.get("name")) == (ref.kind.kind, ref.name) for each in targets)


async def send_command(cluster: "Cluster", ref: Ref, action: str) -> None:
    """Creates the Command for an action. Raises NotFound if the target does not exist."""
    target: Object = await cluster.request("GET", ref.kind.path(ref.namespace, ref.name))
    command = command_for(ref.kind, target, action)
    await cluster.request("POST", COMMAND.path(command["metadata"]["namespace"]), body=command)
