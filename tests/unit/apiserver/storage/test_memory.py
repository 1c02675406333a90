"""What the store keeps beside the objects is bounded in bytes: past changes, slow watchers, pages, writes in line."""

import asyncio
import time
import tracemalloc
from collections.abc import Callable

import fakeredis
import pytest

from deploy.local.apiserver.api_errors import ApiError
from deploy.local.apiserver.storage import object_store, paging, watch_streams
from deploy.local.apiserver.storage.object_store import ObjectStore, ObjectStoreKeys, Overloaded, StoredChange, Table
from deploy.local.apiserver.storage.object_store import StoredObject as Stored
from deploy.local.apiserver.storage.paging import Snapshots
from deploy.local.apiserver.storage.watch_streams import Filter, Hub
from tests.support.tables import cases, for_each

LARGE = 1024 * 1024


def stored(version: int, size: int, key: str = "default/a") -> Stored:
    return Stored(key, b"x" * size, version, "u", {}, (), deleting=False)


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore(fakeredis.FakeAsyncRedis(), ObjectStoreKeys())


def test_a_stored_object_takes_the_room_of_its_json() -> None:
    body = {"metadata": {"name": "a", "resourceVersion": "1"}, "data": {"a": "x" * 3000}}
    tracemalloc.start()
    try:
        kept = [Stored.of("default/a", body) for _ in range(50)]
        used, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 1.5 * sum(len(record.raw) for record in kept)


def changes(store: ObjectStore, sizes: list[int]) -> None:
    """One object goes through versions of these sizes."""
    before = None
    for version, size in enumerate(sizes, 1):
        after = stored(version, size)
        store.version = version
        for listener in store.listeners:
            listener(StoredChange("jobs.batch", before, after))
        before = after


@cases(
    ("small changes are all remembered", 50, 100, 0, 0),
    ("large ones as far as they fit", 50, LARGE, 100 * LARGE, 50 - watch_streams.HISTORY_BYTES // LARGE),
    ("no more than a list of the objects has", 50, LARGE, 3 * LARGE, 47),
    ("the last megabyte always", 50, LARGE // 4, 0, 46),
    ("the last one always", 5, watch_streams.HISTORY_BYTES + 1, 0, 4),
)
def test_the_changes_that_are_remembered_are_bounded_in_bytes(
    count: int, size: int, stored_bytes: int, oldest: int, store: ObjectStore
) -> None:
    hub = Hub(store)
    store.table("jobs.batch").size = stored_bytes
    changes(store, [size] * count)
    assert hub.floor("jobs.batch") == oldest
    assert len(hub._since("jobs.batch", oldest)) == count - oldest
    if oldest:
        with pytest.raises(ApiError):
            hub.open("jobs.batch", Filter(), oldest - 1)


def test_a_table_knows_the_bytes_of_its_objects() -> None:
    table, first, longer = Table(), stored(1, 100), stored(2, 300)
    sizes = []
    for change in (
        StoredChange("jobs.batch", None, first),
        StoredChange("jobs.batch", first, longer),
        StoredChange("jobs.batch", None, stored(3, 50, "default/b")),
        StoredChange("jobs.batch", longer, stored(4, 310), deleted=True),
        StoredChange("jobs.batch", None, stored(5, 310), deleted=True),
    ):
        table.apply(change)
        sizes.append(table.size)
    assert sizes == [100, 300, 350, 50, 50]


def test_a_change_is_forgotten_after_five_minutes_and_who_has_seen_it_resumes(store: ObjectStore) -> None:
    hub = Hub(store)
    changes(store, [100] * 3)
    hub.age(0.0)
    store.version = 4
    for listener in store.listeners:
        listener(StoredChange("jobs.batch", stored(3, 100), stored(4, 100)))
    hub.age(10.0)
    hub.age(watch_streams.HISTORY_AGE - 1)
    assert hub.floor("jobs.batch") == 0
    hub.age(watch_streams.HISTORY_AGE)
    assert (hub.floor("jobs.batch"), len(hub._since("jobs.batch", 0))) == (3, 1)
    hub.age(watch_streams.HISTORY_AGE + 10)
    assert (hub.floor("jobs.batch"), hub._bytes["jobs.batch"], hub._since("jobs.batch", 0)) == (4, 0, [])
    hub.open("jobs.batch", Filter(), 4)
    with pytest.raises(ApiError):
        hub.open("jobs.batch", Filter(), 3)


def version_of(number: int, **data: str) -> Stored:
    metadata = {"name": "a", "uid": "u", "resourceVersion": str(number), "labels": {"of": data.pop("of", "x")}}
    return Stored.of("default/a", {"metadata": metadata, "data": data})


@cases(
    ("deleted as it was", StoredChange("maps", version_of(1), version_of(2), deleted=True), True),
    ("deleted with a change", StoredChange("maps", version_of(1), version_of(2, of="y"), deleted=True), False),
    ("deleted with more", StoredChange("maps", version_of(1), version_of(2, a="b"), deleted=True), False),
    ("a version of another length", StoredChange("maps", version_of(9), version_of(10), deleted=True), False),
    ("changed", StoredChange("maps", version_of(1), version_of(2)), False),
    ("created", StoredChange("maps", None, version_of(2)), False),
)
def test_a_deletion_is_remembered_with_one_object(change: StoredChange, is_shared: bool) -> None:
    kept = watch_streams.compact(change)
    assert (kept.before is kept.after) is is_shared
    assert kept.after is change.after
    for label in ("x", "y"):
        chosen = Filter("default", lambda record, label=label: record.labels["of"] == label)  # type: ignore[misc]
        assert watch_streams.event_of(kept, chosen) == watch_streams.event_of(change, chosen)


@for_each((LARGE, True), (1000, False))
def test_a_watcher_that_does_not_read_is_cut_off_by_bytes(size: int, closed: bool, store: ObjectStore) -> None:
    watcher = Hub(store).open("jobs.batch", Filter(), None)
    changes(store, [size] * (watch_streams.LAG_BYTES // LARGE + 1))
    assert watcher.closed is closed


async def test_a_watcher_that_reads_is_not(store: ObjectStore) -> None:
    watcher = Hub(store).open("jobs.batch", Filter(), None)
    for _ in range(3):
        changes(store, [LARGE] * (watch_streams.LAG_BYTES // LARGE))
        assert await watcher.next(0.0)
    assert not watcher.closed


@for_each((0.0, True), (paging.AGE + 1, False))
async def test_a_page_is_forgotten_in_time_though_no_other_is_kept(
    age: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = Snapshots()
    snapshots.keep("pods", "", 1, [stored(1, 10)])
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + age)
    assert (snapshots.find("pods", "", 1) is not None) is found
    assert bool(snapshots._kept) is found


async def test_a_page_is_forgotten_though_nobody_lists_again(monkeypatch: pytest.MonkeyPatch) -> None:
    later: list[tuple[float, Callable[[], None]]] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda *call: later.append(call))
    snapshots = Snapshots()
    snapshots.keep("pods", "", 1, [stored(1, 10)])
    [(delay, forget)] = later
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + delay)
    forget()
    assert not snapshots._kept


async def test_a_page_is_forgotten_soon_once_all_clients_have_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    snapshots = Snapshots()
    for first in (True, False, True):  # two clients, one of which asks for three pages
        snapshots.keep("pods", "", 1, [stored(1, 10)], first=first)
    snapshots.read("pods", "", 1)
    monkeypatch.setattr(time, "monotonic", lambda: now + paging.AGE / 2)
    assert snapshots.find("pods", "", 1) is not None
    snapshots.read("pods", "", 1)
    assert snapshots.find("pods", "", 1) is not None, "an answer may get lost"
    monkeypatch.setattr(time, "monotonic", lambda: now + paging.AGE / 2 + paging.AGE_READ + 1)
    assert snapshots.find("pods", "", 1) is None


async def test_writes_that_wait_for_the_broker_are_bounded_in_bytes(store: ObjectStore) -> None:
    def write(number: int) -> "asyncio.Future[Stored]":
        return store.put("configmaps", f"default/{number}", {"metadata": {"name": "a"}, "data": {"a": "x" * LARGE}})

    count = object_store.BACKLOG_BYTES // LARGE
    for number in range(count):
        write(number)
    with pytest.raises(Overloaded):
        write(-1)
    assert store.latest("configmaps", "default/-1") is None
    # As the broker takes them, in calls that are bounded too, there is room again.
    batches = []
    while batch := store._take():
        batches.append(sum(len(change.after.raw) for change, _ in batch))
    assert (max(batches) <= object_store.BATCH_BYTES, len(batches) < count) == (True, True)
    write(-1)
