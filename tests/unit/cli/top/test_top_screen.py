"""The screen of `penstock top`, driven by keys as a user presses them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from textual.pilot import Pilot

from deploy.cli import api_connection
from deploy.cli.api_connection import ConnectionTarget
from deploy.cli.objects import explain
from deploy.cli.top import top_reader, top_screen
from deploy.cli.top.top_rows import TopRow, TopView
from deploy.cli.top.top_screen import Explanation, ScreenOptions, TopScreen
from scheduler.queue import Stats
from workers.api.kinds import CRON_JOB, EVENT_JOB, SCALED_JOB, VC_JOB, Kind, Ref
from workers.errors import Forbidden, Unavailable

LANES = {name: Stats(0, 1, 0, 0, 0, 0, 0, 0, None) for name in ("reconcile", "poll")}
ROWS = (
    TopRow(Ref(SCALED_JOB, "default", "crunch"), "Ready", 7, 2, None, 3, datetime.now(UTC)),
    TopRow(Ref(EVENT_JOB, "default", "orders"), "Suspended", 1, 0, 4, 0, paused=True),
    TopRow(Ref(CRON_JOB, "default", "backup"), "Ready"),
    TopRow(Ref(VC_JOB, "default", "train"), "Running"),
)


class Cluster:
    """Remembers the patches, and what was asked for."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, Any]] = []
        self.reads: list[str] = []
        self.error: Exception | None = None
        self.refusal: Exception | None = None

    async def get(self, ref: Ref) -> Any:
        return {"metadata": {"name": ref.name}}

    async def request(self, method: str, path: str, *, body: Any, headers: Any) -> None:
        if self.refusal:
            raise self.refusal
        self.patches.append((path, body))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()

    @asynccontextmanager
    async def connected(_to: ConnectionTarget) -> AsyncIterator[Cluster]:
        yield found

    async def read(_cluster: Cluster, namespace: str, kind: Kind | None, _homes: object) -> TopView:
        found.reads.append(namespace)
        if found.error:
            raise found.error
        return TopView(tuple(row for row in ROWS if kind in (None, row.ref.kind)), LANES)

    async def explained(_cluster: Cluster, ref: Ref, _body: object, _last: int, _homes: object) -> None:
        print(f"the last decisions on {ref}")

    monkeypatch.setattr(api_connection, "connected", connected)
    monkeypatch.setattr(top_reader, "read", read)
    monkeypatch.setattr(explain, "explain", explained)
    return found


def screen(**options: Any) -> TopScreen:
    return TopScreen(ScreenOptions(ConnectionTarget(None, None, "default", "test", 1.0), **options))


async def until(pilot: Pilot[None], condition: Any) -> None:
    for _ in range(500):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError("not within five seconds")


def names(app: TopScreen) -> list[str]:
    table = app._table
    return [str(table.get_row_at(index)[2]) for index in range(table.row_count)]


def text(app: TopScreen) -> list[str]:
    """The screen as lines of text."""
    return ["".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()]


@asynccontextmanager
async def shown(app: TopScreen) -> AsyncIterator[Pilot[None]]:
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app._table.row_count)
        yield pilot


async def test_the_screen_fits_in_80_by_24(cluster: Cluster) -> None:
    app = screen()
    async with shown(app) as pilot:
        # The line of keys is drawn after the table.
        await until(pilot, lambda: "quit" in text(app)[-1])
        lines = text(app)
    assert len(lines) == 24
    assert lines[:3] == [
        " reconcile   0 ready, 0 at work, 0 due, 1 later",
        " poll        0 ready, 0 at work, 0 due, 1 later",
        " 4 objects: all kinds, namespace default, by kind",
    ]
    assert lines[3].split() == ["KIND", "NAMESPACE", "NAME", "STATE", "WAITING", "ACTIVE", "PARKED", "JOBS/MIN", "AGE"]
    assert lines[4].split() == ["CronJob", "default", "backup", "Ready", "-", "-", "-", "-", "-"]
    assert lines[5].split() == ["EventJob", "default", "orders", "Suspended", "1", "0", "4", "0", "-"]


async def test_markup_and_control_characters_in_data_are_shown_as_they_are(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = TopRow(Ref(SCALED_JOB, "default", "crunch"), "[/bold] [red]A\x1b[8m")

    async def read(*_: Any) -> TopView:
        return TopView((row,), LANES)

    monkeypatch.setattr(top_reader, "read", read)
    app = screen()
    async with shown(app):
        lines = text(app)
    assert r"[/bold] [red]A\x1b[8m" in lines[4]


async def test_keys_sort_and_reverse(cluster: Cluster) -> None:
    app = screen()
    async with shown(app) as pilot:
        assert names(app) == ["backup", "orders", "train", "crunch"]
        await pilot.press("r")
        assert names(app) == ["crunch", "train", "orders", "backup"]
        await pilot.press("r", *"ssss")
        assert names(app)[:2] == ["crunch", "orders"]


async def test_a_filter_is_typed_kept_and_cleared(cluster: Cluster) -> None:
    app = screen()
    async with shown(app) as pilot:
        await pilot.press("slash", *"orders")
        assert names(app) == ["orders"]
        await pilot.press("enter")
        # The keys are the table's again.
        await pilot.press("s")
        assert names(app) == ["orders"]
        await pilot.press("escape")
        assert len(names(app)) == 4


async def test_kinds_are_switched(cluster: Cluster) -> None:
    app = screen()
    async with shown(app) as pilot:
        await pilot.press("k")
        assert names(app) == ["orders"]
        await pilot.press("k")
        await until(pilot, lambda: names(app) == ["crunch"])
        await pilot.press(*"kkkkkk")
        await until(pilot, lambda: len(names(app)) == 4)


async def test_all_namespaces(cluster: Cluster) -> None:
    app = screen(every=60.0)
    async with shown(app) as pilot:
        assert cluster.reads == ["default"]
        await pilot.press("a")
        await until(pilot, lambda: cluster.reads == ["default", ""])


PAUSES = [
    ("crunch", "scaledjobs", {"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}}),
    ("orders", "eventjobs", {"spec": {"suspend": False}}),
    ("backup", "cronjobs", {"spec": {"suspend": True}}),
]


@pytest.mark.parametrize(("name", "plural", "patch"), PAUSES, ids=[row[0] for row in PAUSES])
async def test_an_object_is_paused_or_goes_on(cluster: Cluster, name: str, plural: str, patch: Any) -> None:
    app = screen(text=name)
    async with shown(app) as pilot:
        await pilot.press("p")
        await until(pilot, lambda: cluster.patches)
    ((path, body),) = cluster.patches
    assert path.endswith(f"/namespaces/default/{plural}/{name}")
    assert body == patch


async def test_a_volcano_job_is_not_patched(cluster: Cluster) -> None:
    app = screen(text="train")
    async with shown(app) as pilot:
        await pilot.press("p")
        await pilot.pause()
    assert cluster.patches == []


async def test_a_pause_that_is_forbidden_says_so(cluster: Cluster) -> None:
    cluster.refusal = Forbidden("you [may] not", status=403)
    app = screen(text="crunch")
    async with shown(app) as pilot:
        await pilot.press("p")
        await until(pilot, lambda: len(app._notifications))
        assert next(iter(app._notifications)).message == "you [may] not"


def test_a_paused_object_goes_on_without_its_annotations() -> None:
    row = TopRow(Ref(SCALED_JOB, "default", "crunch"), "Paused", paused=True)
    gone = {"autoscaling.keda.sh/paused": None, "autoscaling.keda.sh/paused-replicas": None}
    assert top_screen.pausing(row) == {"metadata": {"annotations": gone}}


async def test_an_object_is_explained(cluster: Cluster) -> None:
    app = screen(text="crunch")
    async with shown(app) as pilot:
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, Explanation))
        await pilot.pause()
        assert any("the last decisions on ScaledJob default/crunch" in line for line in text(app))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, Explanation))


async def test_the_last_rows_stay_while_the_cluster_is_away(cluster: Cluster) -> None:
    app = screen(every=0.01)
    async with shown(app) as pilot:
        cluster.error = Unavailable("it is away")
        await until(pilot, lambda: any("old: it is away" in line for line in text(app)))
        assert len(names(app)) == 4
        cluster.error = None
        await until(pilot, lambda: not any("old:" in line for line in text(app)))


async def test_a_cluster_that_was_never_there_ends_the_screen_with_its_reason(cluster: Cluster) -> None:
    cluster.error = Unavailable("it is away")
    app = screen()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.failure)
    assert app.failure == "it is away"
