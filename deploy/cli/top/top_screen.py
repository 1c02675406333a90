"""The screen of ``penstock top``, with textual: a table that is read anew every few seconds, and keys to work on it."""

import asyncio
import contextlib
import io
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from deploy.cli import api_connection, output
from deploy.cli.objects import explain
from deploy.cli.objects.apply import MERGE_PATCH
from deploy.cli.top import top_reader, top_rows
from deploy.cli.top.top_rows import TopRow, TopView
from workers.api import bool_annotations
from workers.api.kinds import VC_JOB, Kind, Object
from workers.errors import ClusterError, PenstockError, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster


@dataclass(frozen=True, slots=True)
class ScreenOptions:
    """The flags of the command. sort: a column. every: seconds between two reads."""

    target: api_connection.ConnectionTarget
    everywhere: bool = False
    kind: str | None = None
    text: str = ""
    sort: str = "KIND"
    every: float = 2.0


class Explanation(ModalScreen[None]):
    """The explanation of one object, until a key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,e", "dismiss", "back")]
    CSS = "Explanation { align: center middle; } #text { border: round $primary; padding: 0 1; background: $surface; }"

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="text"):
            yield Static(self._text, markup=False)


class TopScreen(App[None]):
    """The screen. failure: the reason why it ended by itself; None if a user ended it."""

    TITLE = "penstock top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #pipeline { height: auto; padding: 0 1; }
    #filter { display: none; height: 3; }
    #filter.open { display: block; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "quit"),
        Binding("s", "sort", "sort"),
        Binding("r", "reverse", "reverse"),
        Binding("slash", "filter", "filter"),
        Binding("k", "kind", "kind"),
        Binding("a", "everywhere", "namespaces"),
        Binding("e", "explain", "explain"),
        Binding("p", "pause", "pause"),
        Binding("escape", "unfilter", "clear", show=False),
    ]

    def __init__(self, options: ScreenOptions) -> None:
        super().__init__()
        self.failure: str | None = None
        self._options = options
        self._everywhere = options.everywhere
        self._kind: Kind | None = None
        self._text, self._sort, self._backwards = options.text, options.sort, False
        self._view: TopView | None = None
        self._shown: list[TopRow] = []
        self._cluster: Cluster | None = None
        self._problem = ""
        self._asked = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield Static("connecting ...", id="pipeline", markup=False)
        yield DataTable(cursor_type="row")
        yield Input(placeholder="filter", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        self._table.add_columns(*top_rows.COLUMNS)
        self._table.focus()
        self.run_worker(self._follow(), exit_on_error=False)

    @property
    def _table(self) -> "DataTable[Text]":
        return self.query_one(DataTable)

    async def _follow(self) -> None:
        """Reads and shows until the screen is closed; a cluster that goes away is waited for."""
        try:
            async with api_connection.connected(self._options.target) as cluster:
                self._cluster = cluster
                self._kind = await top_reader.find_kind(cluster, self._options.kind)
                while True:
                    await self._read(cluster)
                    self._asked.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._asked.wait(), self._options.every)
        except (PenstockError, ClusterError) as error:
            self.failure = output.reason(error)
            self.exit()

    async def _read(self, cluster: "Cluster") -> None:
        namespace = "" if self._everywhere else self._options.target.namespace
        try:
            self._view = await top_reader.read(cluster, namespace, self._kind, self._options.target.homes)
            self._problem = ""
        except ClusterError as error:
            if self._view is None:
                raise
            # The last rows stay, and are told to be old.
            self._problem = output.reason(error)
        self._show()

    def _show(self) -> None:
        view = self._view
        if view is None:
            return
        now, table = datetime.now(UTC), self._table
        place, before = table.cursor_row, self._selected()
        self._shown = top_rows.ordered(
            top_rows.chosen(view.rows, self._kind, self._text), self._sort, backwards=self._backwards
        )
        table.clear()
        for row in self._shown:
            # The table takes a string for markup.
            table.add_row(*(Text(output.visible(each)) for each in top_rows.cells(row, top_reader.age(row.since, now))))
        refs = [row.ref for row in self._shown]
        table.move_cursor(row=refs.index(before.ref) if before and before.ref in refs else place)
        self.query_one("#pipeline", Static).update("\n".join(self._head(view)))

    def _head(self, view: TopView) -> list[str]:
        where = "all namespaces" if self._everywhere else f"namespace {self._options.target.namespace}"
        what = self._kind.plural if self._kind else "all kinds"
        order = f"by {self._sort.lower()}{', reversed' if self._backwards else ''}"
        filtered = f", containing {self._text!r}" if self._text else ""
        lines = [*top_rows.pipeline(view.lanes), f"{len(self._shown)} objects: {what}, {where}, {order}{filtered}"]
        lines += [f"{name}: {reason}" for name, reason in view.missing.items()]
        return [*lines, f"old: {self._problem}"] if self._problem else lines

    def _selected(self) -> TopRow | None:
        place = self._table.cursor_row
        return self._shown[place] if 0 <= place < len(self._shown) else None

    # --- keys

    def action_sort(self) -> None:
        """Sorts by the next column."""
        columns = list(top_rows.COLUMNS)
        self._sort = columns[(columns.index(self._sort) + 1) % len(columns)]
        self._show()

    def action_reverse(self) -> None:
        """Reverses the order."""
        self._backwards = not self._backwards
        self._show()

    def action_kind(self) -> None:
        """Shows the next kind; after the last one all of them."""
        kinds = [None, *top_rows.SHOWN]
        self._kind = kinds[(kinds.index(self._kind) + 1) % len(kinds)]
        self._show()
        self._asked.set()

    def action_everywhere(self) -> None:
        """Shows all namespaces, or one again."""
        self._everywhere = not self._everywhere
        self._asked.set()

    def action_filter(self) -> None:
        """Asks for a text that rows must contain."""
        field = self.query_one("#filter", Input)
        field.add_class("open")
        field.focus()

    def action_unfilter(self) -> None:
        """Shows all rows again."""
        self.query_one("#filter", Input).value = ""
        self._close_filter()

    def on_input_changed(self, changed: Input.Changed) -> None:
        """Filters while a text is typed."""
        self._text = changed.value
        self._show()

    def on_input_submitted(self) -> None:
        """Returns to the table, with the filter."""
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).remove_class("open")
        self._table.focus()

    async def on_data_table_row_selected(self) -> None:
        """Explains the row of the cursor: Enter was pressed on it."""
        await self.action_explain()

    async def action_explain(self) -> None:
        """Shows the last decisions on the selected object."""
        row = self._selected()
        if row is None or self._cluster is None:
            return
        text = io.StringIO()
        try:
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                body = await self._cluster.get(row.ref)
                await explain.explain(self._cluster, row.ref, body, 5, self._options.target.homes)
        except (ClusterError, UserError) as error:
            text.write(output.reason(error))
        await self.push_screen(Explanation(text.getvalue()))

    async def action_pause(self) -> None:
        """Pauses the selected object, or lets it go on."""
        row = self._selected()
        if row is None or self._cluster is None:
            return
        if row.ref.kind == VC_JOB:
            self.notify("Volcano's Jobs are stopped with `penstock job suspend`", severity="warning", markup=False)
            return
        try:
            path = row.ref.kind.path(row.ref.namespace, row.ref.name)
            await self._cluster.request("PATCH", path, body=pausing(row), headers=MERGE_PATCH)
        except ClusterError as error:
            self.notify(output.reason(error), severity="error", markup=False)
            return
        self.notify(f"{row.ref} {'goes on' if row.paused else 'is paused'}", markup=False)
        self._asked.set()


def pausing(row: TopRow) -> Object:
    """Returns the merge patch that pauses an object, or lets a paused one go on."""
    if row.ref.kind.id in top_rows.ANNOTATED:
        gone = {bool_annotations.PAUSED: None, bool_annotations.PAUSED_REPLICAS: None}
        return {"metadata": {"annotations": gone if row.paused else {bool_annotations.PAUSED: "true"}}}
    return {"spec": {"suspend": not row.paused}}
