"""The limiter of requests: who goes next, what waits, and whose failure is whose."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from tests.support.tables import for_each
from workers.client import request_limiter
from workers.client.concurrency_limit import Bounds, ConcurrencyLimit
from workers.client.request_limiter import AGING, ELECTION, HANGS, Priority, RequestLimiter, context_of, requests
from workers.errors import Throttled


class Rig:
    """A limiter with a clock of the test's. sent: names of requests in the order in which they went."""

    def __init__(self, limit=1, **options):
        self.now = 1000.0
        bounds = Bounds(least=1, floor=limit, start=limit, most=limit)
        self.limiter = RequestLimiter(bounds, clock=lambda: self.now, **options)
        self.sent = []
        self.tasks = []

    async def hold(self, namespace="n", priority=Priority.START, shape=""):
        return await self.limiter.enter(priority, namespace, shape)

    async def want(self, name, priority=Priority.START, namespace="n"):
        """Begins to wait for a place; the request ends as soon as it has gone."""

        async def go():
            ticket = await self.limiter.enter(priority, namespace)
            self.sent.append(name)
            self.limiter.leave(ticket)

        self.tasks.append(task := asyncio.create_task(go()))
        await turns()
        return task

    async def release(self, *tickets):
        for ticket in tickets:
            self.limiter.leave(ticket)
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def turns():
    for _ in range(4):
        await asyncio.sleep(0)


def count(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_what_finishes_work_goes_before_what_starts_it_and_events_go_last():
    rig = Rig()
    ticket = await rig.hold()
    for priority in (Priority.REPORT, Priority.START, Priority.READ, Priority.FINISH):
        await rig.want(priority.name, priority)
        rig.now += AGING / 10
    await rig.release(ticket)
    assert rig.sent == ["FINISH", "READ", "START", "REPORT"]


async def test_a_lower_class_that_waits_long_enough_goes_first():
    rig = Rig()
    ticket = await rig.hold()
    await rig.want("old", Priority.START)
    rig.now += AGING * (Priority.START - Priority.FINISH) + 0.1
    await rig.want("new", Priority.FINISH)
    await rig.release(ticket)
    assert rig.sent == ["old", "new"]


async def test_namespaces_take_turns():
    rig = Rig()
    ticket = await rig.hold()
    for number in range(3):
        await rig.want(f"big {number}", namespace="big")
    await rig.want("small", namespace="small")
    await rig.release(ticket)
    assert rig.sent == ["big 0", "small", "big 1", "big 2"]


async def test_a_namespace_whose_requests_hang_leaves_places_for_others():
    rig = Rig(16)
    hanging = [asyncio.create_task(rig.hold("bad")) for _ in range(100)]
    await turns()
    held = [task for task in hanging if task.done()]
    assert len(held) == 12, "three of four places"
    await rig.want("other", namespace="good")
    assert rig.sent == ["other"]
    also = [asyncio.create_task(rig.hold("worse")) for _ in range(100)]
    await turns()
    assert 1 <= sum(task.done() for task in also) < 4
    await rig.want("another", namespace="good")
    assert rig.sent == ["other", "another"]
    for task in (*hanging, *also):
        task.cancel()


async def test_a_limit_that_falls_below_what_hangs_stops_no_other_namespace():
    rig = Rig(16)
    hanging = [await rig.hold("bad") for _ in range(12)]
    rig.now += HANGS + 1
    for _ in range(4):
        rig.limiter.limit.answered("", rig.now, rig.now, crowded=False)
        rig.now += 0.01
        rig.limiter.limit.refused(rig.now, rig.now)
    assert rig.limiter.allowed < len(hanging)
    await rig.want("other", namespace="another")
    await rig.want("more of it", namespace="bad")
    assert rig.sent == ["other"]


async def test_what_waits_goes_once_the_others_hang_also_if_nothing_else_happens(monkeypatch):
    monkeypatch.setattr(request_limiter, "HANGS", 0.01)
    rig = Rig(16)
    hanging = [await rig.hold("bad") for _ in range(12)]
    rig.limiter.limit.refused(rig.now, rig.now)
    rig.now += 0.001
    rig.limiter.limit.answered("", rig.now, rig.now, crowded=False)
    rig.limiter.limit.refused(rig.now, rig.now)
    assert rig.limiter.allowed < len(hanging)
    waiting = await rig.want("other", namespace="another")
    assert not waiting.done()
    rig.now += 1
    await asyncio.wait_for(waiting, 10)
    assert rig.sent == ["other"]


async def test_a_single_namespace_has_the_only_place():
    rig = Rig(1)
    await rig.want("it", namespace="n")
    assert rig.sent == ["it"]


async def test_leader_election_has_places_of_its_own_and_heeds_no_pause():
    rig = Rig(1)
    ticket = await rig.hold()
    rig.limiter.refused(ticket, 1.0)
    rig.now += 0.1
    ticket.started = rig.now
    rig.limiter.refused(ticket, 30.0)
    renewals = [await rig.limiter.enter(Priority.ELECT, "penstock") for _ in range(ELECTION)]
    with pytest.raises(Throttled):
        await rig.limiter.enter(Priority.ELECT, "penstock")
    for renewal in renewals:
        rig.limiter.leave(renewal)
    await rig.limiter.enter(Priority.ELECT, "penstock")
    assert rig.limiter.in_flight == 1


async def test_nothing_waits_with_its_lease_for_a_server_that_asked_for_a_pause():
    rig = Rig(1)
    ticket = await rig.hold()
    waiting = await rig.want("waits")
    rig.limiter.refused(ticket, 5.0)
    rig.now += 0.1
    ticket.started = rig.now
    rig.limiter.refused(ticket, 5.0)
    await turns()
    assert isinstance(waiting.exception(), Throttled)
    assert 5.0 <= waiting.exception().retry_after <= 5.0 * 1.25 * 1.25
    with pytest.raises(Throttled):
        await rig.hold("other")
    rig.limiter.leave(ticket)
    rig.now += 7.0
    await rig.want("after")
    assert rig.sent == ["after"]


async def test_without_a_free_place_waiting_namespaces_are_not_looked_at_one_by_one(monkeypatch):
    rig = Rig(2)
    tickets = [await rig.hold("a"), await rig.hold("b")]
    waiting = [asyncio.create_task(rig.hold(f"n{number}")) for number in range(50)]
    await turns()
    asked = []
    has_place = rig.limiter._has_place
    monkeypatch.setattr(rig.limiter, "_has_place", lambda namespace: asked.append(namespace) or has_place(namespace))
    rig.limiter.leave(tickets[0])
    another = asyncio.create_task(rig.hold("late"))
    await turns()
    assert [task.done() for task in (*waiting, another)] == [True] + 50 * [False]
    assert asked == ["n0"]
    # Those that hang give the others places beyond the limit.
    rig.limiter.limit = ConcurrencyLimit(Bounds(least=1, floor=1, start=2, most=8), now=rig.now)
    rig.now += HANGS + 1
    waiting.append(asyncio.create_task(rig.hold("later")))
    await turns()
    assert sum(task.done() for task in waiting) == 3
    for task in (*waiting, another):
        task.cancel()


async def test_what_waits_is_bounded_and_the_lowest_class_goes_first():
    rig = Rig(1, waiting=3)
    ticket = await rig.hold()
    before = count("penstock_api_throttled_total", priority="report")
    report = await rig.want("event", Priority.REPORT)
    for number in range(2):
        await rig.want(f"job {number}", Priority.START, namespace="big")
    await rig.want("status", Priority.FINISH)
    assert isinstance(report.exception(), Throttled)
    assert count("penstock_api_throttled_total", priority="report") == before + 1
    youngest = await rig.want("read", Priority.READ)
    refused = [task for task in rig.tasks if task.done()]
    assert len(refused) == 2
    assert not youngest.done()
    # Nothing lower than itself is left to give up.
    last = await rig.want("late", Priority.START)
    assert isinstance(last.exception(), Throttled)
    await rig.release(ticket)
    assert rig.sent == ["status", "read", "job 0"]


async def test_events_may_not_fill_what_waits(monkeypatch):
    monkeypatch.setattr(request_limiter, "WAITING_REPORTS", 2)
    rig = Rig(1)
    ticket = await rig.hold()
    tasks = [await rig.want("event", Priority.REPORT) for _ in range(3)]
    assert [task.done() for task in tasks] == [False, False, True]
    await rig.release(ticket)


async def test_work_is_begun_again_when_little_waits(monkeypatch):
    monkeypatch.setattr(request_limiter, "CROWDED", 2)
    rig = Rig(1)
    ticket = await rig.hold()
    await rig.want("one")
    await asyncio.wait_for(rig.limiter.room(), 1)
    await rig.want("two")
    room = asyncio.create_task(rig.limiter.room())
    await turns()
    assert not room.done()
    await rig.release(ticket)
    await asyncio.wait_for(room, 1)


async def test_what_waits_behind_hanging_requests_of_its_namespace_keeps_no_other_from_work(monkeypatch):
    monkeypatch.setattr(request_limiter, "CROWDED", 2)
    rig = Rig(4)
    tickets = [await rig.hold("bad") for _ in range(3)]
    for number in range(3):
        await rig.want(f"bad {number}", namespace="bad")
    assert not rig.limiter._calm.is_set()
    rig.now += HANGS + 0.1
    assert rig.limiter.is_slow("bad")
    assert not rig.limiter.is_slow("good")
    # Its timer's turn, or that of any request.
    rig.limiter._look_again()
    await asyncio.wait_for(rig.limiter.room(), 1)
    await rig.release(*tickets)
    assert not rig.limiter.is_slow("bad")


async def test_a_namespace_is_slow_when_a_good_part_of_its_requests_hang():
    rig = Rig(100)
    for _ in range(request_limiter.SLOW - 1):
        await rig.hold("big")
    await rig.hold("small")
    rig.now += HANGS + 0.1
    for _ in range(20):
        await rig.hold("big")
    assert not rig.limiter.is_slow("big"), "a few of many hang"
    assert rig.limiter.is_slow("small"), "its only one does"
    await rig.hold("small")
    await rig.hold("small")
    await rig.hold("small")
    assert not rig.limiter.is_slow("small")
    assert not rig.limiter.is_slow("none")


@for_each("while it waits", "as it is let go")
async def test_a_request_that_is_cancelled_leaves_no_place_taken(when):
    rig = Rig(1)
    ticket = await rig.hold()
    task = await rig.want("it")
    if when == "as it is let go":
        rig.limiter.leave(ticket)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if when == "while it waits":
        rig.limiter.leave(ticket)
    assert (rig.limiter.in_flight, sum(rig.limiter.waiting.values())) == (0, 0)
    await rig.want("next")
    assert "next" in rig.sent


async def test_a_failure_is_its_namespaces_own_if_others_are_answered_meanwhile():
    rig = Rig(8)
    bad, good = await rig.hold("bad", shape="POST jobs"), await rig.hold("good", shape="POST jobs")
    rig.now += 5
    rig.limiter.answered(good)
    rig.now += 5
    rig.limiter.failed(bad)
    assert rig.limiter.allowed == 8
    rig.limiter.leave(bad)
    failing = [await rig.hold("bad", shape="POST jobs") for _ in range(3)]
    rig.now += 10
    for again in failing:
        rig.limiter.failed(again)
    assert rig.limiter.allowed == 8, "one namespace that fails alone may be slow by itself"
    another = await rig.hold("good", shape="POST jobs")
    rig.now += 10
    rig.limiter.failed(another)
    assert rig.limiter.allowed == 5, "several that fail are the server's"


async def test_a_failure_of_one_kind_is_not_the_servers_while_another_kind_is_answered():
    rig = Rig(8)
    pods, jobs = await rig.hold("n", shape="GET pods.metrics"), await rig.hold("n", shape="POST jobs")
    rig.now += 1
    rig.limiter.answered(jobs)
    rig.limiter.failed(pods)
    assert rig.limiter.allowed == 8


@for_each(
    ("GET", Priority.READ),
    ("POST", Priority.START),
    ("PATCH", Priority.FINISH),
    ("PUT", Priority.FINISH),
    ("DELETE", Priority.FINISH),
)
def test_without_a_word_of_the_call_site_the_method_says_the_class(method, priority):
    assert context_of(method).priority is priority
    with requests(Priority.REPORT):
        assert context_of(method).priority is Priority.REPORT
    assert context_of(method).priority is priority


async def test_the_metrics_show_limit_waiting_and_what_was_waited_for():
    rig = Rig(1)
    before = count("penstock_api_throttled_seconds_total", priority="start")
    ticket = await rig.hold()
    waiting = count("penstock_api_requests_waiting", priority="start")
    await rig.want("it")
    assert count("penstock_api_requests_waiting", priority="start") == waiting + 1
    assert count("penstock_api_concurrency_limit") >= 1
    assert count("penstock_api_requests_in_flight") >= 1
    rig.now += 3
    await rig.release(ticket)
    assert count("penstock_api_throttled_seconds_total", priority="start") == before + 3
