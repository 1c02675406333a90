"""``penstock get``: objects as the server's tables, or as YAML, JSON, names, and what JSONPaths find in them."""

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from deploy.cli import api_connection, discovery, options, output
from deploy.cli.completion import completers
from deploy.cli.objects import path_output
from workers.api.kinds import Object
from workers.errors import ClusterError, Forbidden, Gone, NotFound, Unavailable, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
FORMATS = ("wide", "yaml", "json", "name")
#: Formats that need a value: ``jsonpath=TEMPLATE``.
TEMPLATES = ("jsonpath", "custom-columns")
PAGE = 500


@dataclass(frozen=True, slots=True)
class Query:
    """A request for one object of a kind, or for a list if `name` is empty. category: the kind is one of several.

    whole: rows of a table carry their objects, of which the server otherwise shows the metadata alone.
    """

    resource: discovery.DiscoveredKind
    namespace: str
    name: str = ""
    selector: str = ""
    fields: str = ""
    category: bool = False
    whole: bool = False

    @property
    def path(self) -> str:
        return self.resource.kind.path(self.namespace, self.name)

    def parameters(self, **more: str) -> dict[str, str]:
        include = "Object" if self.whole else ""
        given = {"labelSelector": self.selector, "fieldSelector": self.fields, "includeObject": include, **more}
        return {name: value for name, value in given.items() if value}


class _Form(click.Choice[str]):
    """A format of ``-o``: one of FORMATS, or one of TEMPLATES with its value."""

    def __init__(self) -> None:
        super().__init__((*FORMATS, *(f"{name}=" for name in TEMPLATES)))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = options.WORD.convert(value, param, ctx)
        return text if text.partition("=")[0] in TEMPLATES else super().convert(text, param, ctx)


@click.command("get")
@click.argument(
    "what", nargs=-1, required=True, metavar="KIND[,KIND] [NAME]... | KIND/NAME...", shell_complete=completers.what
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces.")
@options.selector("Only objects with these labels: app=x,tier!=y.")
@click.option("--field-selector", default="", metavar="SELECTOR", help="Only objects with these fields.")
@click.option("-o", "--output", "form", type=_Form(), help="Another form than the table.")
@click.option("--sort-by", metavar="PATH", help="Order of the objects: .metadata.creationTimestamp.")
@click.option(
    "-L",
    "--label-columns",
    "label_columns",
    type=options.WORD,
    multiple=True,
    metavar="KEY[,KEY]",
    help="Columns with the values of these labels.",
)
@click.option("--show-labels", is_flag=True, help="The labels as the last column.")
@click.option("-w", "--watch", is_flag=True, help="Then show every change, until interrupted.")
@click.option("--no-headers", is_flag=True, help="No header line.")
@click.option("--show-managed-fields", is_flag=True, help="Keep metadata.managedFields in YAML and JSON.")
@click.option("--ignore-not-found", is_flag=True, help="A missing object is no error.")
@api_connection.cluster_options
def command(
    what: tuple[str, ...],
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    form: str | None,
    sort_by: str | None,
    label_columns: tuple[str, ...],
    show_labels: bool,
    watch: bool,
    no_headers: bool,
    show_managed_fields: bool,
    ignore_not_found: bool,
    target: api_connection.ConnectionTarget,
) -> None:
    """List objects, or show one.

    KIND is a plural, a singular, a short name or plural.group: jobs, job, sj, jobs.batch. It may be a category of
    the server, too, such as all: its workloads and Services.

    \b
    Examples:
      penstock get scaledjobs                 a table of this namespace's ScaledJobs
      penstock get jobs,pods -A -o wide       two kinds, all namespaces, more columns
      penstock get sj crunch -o yaml          one object, whole
      penstock get pods -l job-name=crunch-1  by label
      penstock get jobs -w                    and then every change
      penstock get pods --sort-by .status.startTime --show-labels
      penstock get pods -L app,tier           and the values of two labels
      penstock get jobs -o custom-columns=NAME:.metadata.name,DONE:.status.succeeded
      penstock get pods -o jsonpath='{range .items[*]}{.metadata.name}{"\\n"}{end}'
    """
    order = path_output.Order.parse(sort_by) if sort_by else None
    name, _, given = (form or "").partition("=")
    template = path_output.Template.parse(given) if name == "jsonpath" else None
    columns = path_output.Columns.parse(given) if name == "custom-columns" else None

    async def work(cluster: "Cluster") -> None:
        catalogue = await discovery.discover(cluster)
        namespace = "" if all_namespaces else target.namespace
        queries = asked(catalogue, what, namespace, selector, field_selector)
        if watch and len(queries) > 1:
            raise UserError("--watch follows one kind or one object at a time")
        if form in (None, "wide"):
            keys = tuple(key for part in label_columns for key in part.split(",") if key)
            tables = TablePrinter(form == "wide", not no_headers, all_namespaces, show_labels, order, keys)
            await show_tables(cluster, queries, tables, watch=watch, missing_is_fine=ignore_not_found)
        else:
            shape = OutputShape(name, show_managed_fields, order, template, columns, headers=not no_headers)
            await show_objects(cluster, queries, shape, watch=watch, missing_is_fine=ignore_not_found)

    api_connection.run(target, work)


def asked(
    catalogue: discovery.Catalogue, what: Sequence[str], namespace: str, selector: str = "", fields: str = ""
) -> list[Query]:
    """Returns the queries for arguments such as ``jobs,pods``, ``job a b`` or ``job/a pod/b``.

    Raises UserError if the arguments mix these forms.
    """
    if any("/" in part for part in what):
        pairs = [part.partition("/")[::2] for part in what]
        if any(not kind or not name for kind, name in pairs):
            raise UserError("either KIND NAME... or KIND/NAME... throughout: " + " ".join(what))
    else:
        kinds, names = what[0].split(","), what[1:]
        pairs = [(kind, name) for kind in kinds for name in (names or ("",))]
    if any(name for _, name in pairs) and (selector or fields):
        raise UserError("a name and a selector exclude each other")
    queries = []
    for kind, name in pairs:
        resources = catalogue.named(kind)
        if name and len(resources) > 1:
            raise UserError(f"{kind}/{name}: a name needs one kind; {kind} are {len(resources)} kinds")
        for resource in resources:
            within = namespace if resource.kind.namespaced else ""
            if name and resource.kind.namespaced and not within:
                raise UserError(f"{resource.id}/{name}: a name needs one namespace, not all of them")
            queries.append(Query(resource, within, name, selector, fields, category=len(resources) > 1))
    return queries


def named(catalogue: discovery.Catalogue, what: Sequence[str], namespace: str) -> list[Query]:
    """Returns the queries of objects that such arguments name. Raises click.UsageError for a kind without a name."""
    queries = asked(catalogue, what, namespace)
    for query in queries:
        if not query.name:
            raise click.UsageError(f"which of {query.resource.kind.plural}? a name is needed")
    return queries


# --- tables


@dataclass(frozen=True, slots=True)
class TablePrinter:
    """Options of the tables that `get` prints. labels: the last column has them. keys: of labels with a column each."""

    wide: bool = False
    headers: bool = True
    everywhere: bool = False
    labels: bool = False
    order: path_output.Order | None = None
    keys: tuple[str, ...] = ()


Table = tuple[list[str], list[list[str]]]


def cells(answer: Object, how: TablePrinter, *, prefix: str = "", namespaced: bool = True) -> Table:
    """Returns header and rows of a server's `Table`, or of an object or list from a server without tables."""
    if answer.get("kind") != "Table":
        answer = plain_table(answer)
    shown = [
        index for index, column in enumerate(answer["columnDefinitions"]) if how.wide or not column.get("priority")
    ]
    everywhere = how.everywhere and namespaced
    header = [answer["columnDefinitions"][index]["name"].upper() for index in shown]
    rows = []
    for row in answer.get("rows") or ():
        texts = [text(row["cells"][index]) for index in shown]
        if prefix:
            texts[0] = f"{prefix}/{texts[0]}"
        metadata = row["object"]["metadata"]
        labels = metadata.get("labels") or {}
        texts += [labels.get(key, "") for key in how.keys]
        if how.labels:
            texts.append(",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>")
        rows.append([metadata.get("namespace", ""), *texts] if everywhere else texts)
    # As in kubectl, without the domains of the keys.
    header += [key.rpartition("/")[2].upper() for key in how.keys]
    if how.labels:
        header.append("LABELS")
    return (["NAMESPACE", *header] if everywhere else header), rows


def text(cell: Any) -> str:
    """Returns a cell's text without line breaks; ``<none>`` for an empty value."""
    if cell is None:
        return "<none>"
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(cell).replace("\n", " ") if cell != "" else ""


def plain_table(answer: Object) -> Object:
    """Returns a table of names and ages, for a server that does not print tables."""
    now = datetime.now(UTC)
    items = answer.get("items", [answer])
    return {
        "columnDefinitions": [{"name": "Name"}, {"name": "Age"}],
        "rows": [
            {
                "cells": [item["metadata"]["name"], output.age(item["metadata"].get("creationTimestamp"), now)],
                "object": item,
            }
            for item in items
        ],
        "metadata": answer.get("metadata") or {},
    }


async def show_tables(
    cluster: "Cluster", queries: Sequence[Query], how: TablePrinter, *, watch: bool, missing_is_fine: bool
) -> None:
    """Prints the tables of all queries, one per kind, and with --watch every later change."""
    if how.order:
        queries = [replace(query, whole=True) for query in queries]
    answered, refused = await answers(cluster, queries, TABLE, missing_is_fine=missing_is_fine)
    several = len({query.resource for query in queries}) > 1
    columns: list[int] = []
    # Objects that were named one by one are rows of one table.
    for resource, group in itertools.groupby(answered, key=lambda each: each[0].resource):
        prefix = resource.id if several else ""
        header, rows = cells(_joined(list(group), how.order), how, prefix=prefix, namespaced=resource.kind.namespaced)
        if rows or watch:
            if columns:
                output.say()
            columns = _print(header, rows, headers=how.headers)
    output.raise_last(refused)
    if watch:
        for query, answer in answered:
            await _follow(cluster, query, how, answer, columns)
    else:
        listed = [(query, answer) for query, answer in answered if not query.name]
        tell_empty(queries, [query for query, answer in listed if not (answer.get("rows") or answer.get("items"))])


def _joined(answered: Sequence[tuple[Query, Object]], order: path_output.Order | None) -> Object:
    """Returns the answers about one kind as one table, in the order of its rows."""
    tables = [answer if answer.get("kind") == "Table" else plain_table(answer) for _, answer in answered]
    rows = [row for table in tables for row in table.get("rows") or ()]
    bodies = [row.get("object") or {} for row in rows]
    if order:
        order.check(bodies)
        rows.sort(key=lambda row: order.key(row.get("object") or {}))
    elif answered[0][0].resource.kind.plural == "events":
        # The API server lists them by name.
        rows.sort(key=lambda row: version_of(row.get("object") or {}))
    return {**tables[0], "rows": rows}


def tell_empty(queries: Sequence[Query], empty: Sequence[Query]) -> None:
    """Says on standard error which of the queries, `empty`, found nothing."""
    # Of a category most kinds are empty.
    told = empty if len(empty) == len(queries) else [query for query in empty if not query.category]
    for namespace in dict.fromkeys(query.namespace for query in told):
        kinds = [query.resource.kind.plural for query in told if query.namespace == namespace and not query.category]
        where = f" in namespace {namespace}" if namespace else ""
        output.note(f"No {', '.join(kinds) if kinds and len(queries) > 1 else 'resources'} found{where}.")


def _print_row(row: list[str], columns: list[int]) -> list[int]:
    """Prints a later row of a table with columns of these widths; returns the widths for the next one."""
    widened = list(map(max, columns, output.widths([row])))
    output.say(output.line(row, widened))
    return widened


async def answers(
    cluster: "Cluster",
    queries: Sequence[Query],
    headers: Mapping[str, str] | None = None,
    *,
    missing_is_fine: bool = False,
) -> tuple[list[tuple[Query, Object]], list[ClusterError]]:
    """Returns the answers to the queries, and the errors of those that have none, which are told after the answers.

    Raises Forbidden for a user whom the cluster does not know, as no query would be answered.
    """
    answered: list[tuple[Query, Object]] = []
    refused: list[ClusterError] = []
    for query in queries:
        try:
            answered.append((query, await pages(cluster, query, headers)))
        except (NotFound, Forbidden) as error:
            if error.concerns_all:
                raise
            if not (query.name and missing_is_fine and isinstance(error, NotFound)):
                refused.append(error)
    return answered, refused


def version_of(body: Object) -> int:
    """Returns the sort key of objects in the order of their last change; 0 where resourceVersions are no numbers."""
    text = str((body.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0


def _print(header: list[str], rows: list[list[str]], *, headers: bool) -> list[int]:
    columns = output.widths([header, *rows])
    if headers:
        output.say(output.line(header, columns))
    for row in rows:
        output.say(output.line(row, columns))
    return columns


async def pages(cluster: "Cluster", query: Query, headers: Mapping[str, str] | None = None) -> Object:
    """Returns the complete answer to a query: one object, or a list or table with all its pages joined."""
    if query.name:
        return dict(await cluster.request("GET", query.path, query=query.parameters(), headers=headers))
    whole: Object | None = None
    token = ""
    while whole is None or token:
        parameters = query.parameters(limit=str(PAGE), **{"continue": token})
        page: Object = await cluster.request("GET", query.path, query=parameters, headers=headers)
        field = "rows" if page.get("kind") == "Table" else "items"
        found = page.get(field) or []
        whole = {**page, field: found} if whole is None else {**whole, field: whole[field] + found}
        token = (page.get("metadata") or {}).get("continue") or ""
    return whole


async def _follow(cluster: "Cluster", query: Query, how: TablePrinter, listed: Object, columns: list[int]) -> None:
    """Prints one row per change, in the column widths of the table above, whose answer is `listed`."""
    version, titles = listed["metadata"].get("resourceVersion", ""), listed.get("columnDefinitions")
    async for event in changes(cluster, query, version, TABLE):
        body = event["object"]
        if body.get("kind") == "Table":
            # API servers name the columns in the first event of a stream only.
            titles = body.get("columnDefinitions") or titles
            body = {**body, "columnDefinitions": titles}
        _, rows = cells(body, how, namespaced=query.resource.kind.namespaced)
        for row in rows:
            columns = _print_row(row, columns)


async def changes(cluster: "Cluster", query: Query, version: str, headers: Mapping[str, str] | None = None) -> Any:
    """Yields every change after `version` without end; reconnects at the last version when a stream ends.

    If the server has expired that version, the watch restarts at the current one; changes between the two are lost,
    and a note on standard error says so.
    """
    fields = f"metadata.name={query.name}" if query.name else query.fields
    collection = Query(query.resource, query.namespace, "", query.selector, fields)
    while True:
        parameters = collection.parameters(
            watch="true", resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds="300"
        )
        try:
            async for line in cluster.stream_lines(collection.path, parameters, headers=headers):
                if not line:
                    continue
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Gone(event["object"].get("message", "the watch ended"))
                version = _version(event["object"]) or version
                if event["type"] != "BOOKMARK":
                    yield event
        except Gone:
            output.note("penstock: the server forgot what happened in between; showing changes from now on")
            newest = await cluster.request("GET", collection.path, query=collection.parameters(limit="1"))
            version = newest["metadata"]["resourceVersion"]
        except Unavailable as error:
            output.note(f"penstock: the watch was interrupted, trying again: {error}")
            await asyncio.sleep(1)


def _version(body: Object) -> str:
    """Returns a watch event's resourceVersion: the object's, the table's, or that of the table's row."""
    if version := (body.get("metadata") or {}).get("resourceVersion"):
        return str(version)
    rows = body.get("rows") or ()
    return str(rows[-1]["object"]["metadata"].get("resourceVersion", "")) if rows else ""


# --- objects


@dataclass(frozen=True, slots=True)
class OutputShape:
    """The output format of objects: ``yaml``, ``json``, ``name``, or one of TEMPLATES, with `template` or `columns`."""

    form: str
    managed_fields: bool = False
    order: path_output.Order | None = None
    template: path_output.Template | None = None
    columns: path_output.Columns | None = None
    headers: bool = True

    def write(self, body: Object, resource: discovery.DiscoveredKind) -> None:
        """Prints one object."""
        if self.form == "name":
            output.say(f"{resource.id}/{body['metadata']['name']}")
        else:
            self.print(self.trimmed(body))

    def print(self, value: Object) -> None:
        """Prints an object or a List. A template has the line breaks that are in it, and no other."""
        if self.template:
            output.write(self.template.render(value))
        else:
            output.say(output.as_json(value) if self.form == "json" else output.as_yaml(value))

    def trimmed(self, body: Object) -> Object:
        """Returns the object without managedFields, which is longer than all other fields and of no use to readers."""
        if self.managed_fields or "managedFields" not in body["metadata"]:
            return body
        kept = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
        return {**body, "metadata": kept}


def objects(answered: Sequence[tuple[Query, Object]]) -> list[tuple[discovery.DiscoveredKind, Object]]:
    """Returns the objects of answers with their kinds; the items of a list do not say which they are."""
    return [
        (query.resource, {**query.resource.kind.type_meta, **item})
        for query, answer in answered
        for item in ([answer] if query.name else answer["items"])
    ]


async def show_objects(
    cluster: "Cluster", queries: Sequence[Query], shape: OutputShape, *, watch: bool, missing_is_fine: bool
) -> None:
    """Prints the objects of all queries; several become one `List`, as kubectl writes it."""
    answered, refused = await answers(cluster, queries, missing_is_fine=missing_is_fine)
    found = objects(answered)
    if shape.order:
        order = shape.order
        order.check([body for _, body in found])
        found.sort(key=lambda each: order.key(each[1]))
    widths: list[int] = []
    if shape.columns:
        rows = [shape.columns.row(body) for _, body in found]
        widths = _print(list(shape.columns.titles), rows, headers=shape.headers) if found or watch else []
    elif shape.form == "name" or watch or (found and len(queries) == 1 and queries[0].name):
        for resource, body in found:
            shape.write(body, resource)
    elif found or not (refused or missing_is_fine):
        items = [shape.trimmed(body) for _, body in found]
        shape.print({"apiVersion": "v1", "kind": "List", "items": items})
    output.raise_last(refused)
    if watch and answered:
        version = answered[0][1]["metadata"].get("resourceVersion", "")
        async for event in changes(cluster, queries[0], version):
            if shape.columns:
                widths = _print_row(shape.columns.row(event["object"]), widths)
                continue
            if shape.form == "yaml":
                output.say("---")
            shape.write(event["object"], queries[0].resource)
