"""Back-pressure: throughput on a server that takes little, and what a broken namespace costs another one.

The rules for the client's concurrency are compared in virtual time (`tests/support/overload.py`); the rest runs over
HTTP, against a small server in this process that stores nothing.
"""

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from time import perf_counter, process_time

from aiohttp import web

from tests.benchmarks.harness import Figure, median
from tests.benchmarks.limit_rules import RULES
from tests.support.fault_proxy import BUSY
from tests.support.overload import SCENARIOS, play
from tests.support.servers import answering
from workers.api.kinds import JOB, Object
from workers.client.concurrency_limit import Bounds
from workers.client.kubeconfig import ApiAccess
from workers.client.request_limiter import Priority, RequestLimiter
from workers.client.rest import Cluster
from workers.errors import ClusterError, Unavailable

#: Seconds that the server takes for a request, and requests that it takes at once.
SECONDS, SEATS = 0.01, 8
CREATIONS, WARMING = 1_000, 300
FIXED = (4, 8, 16, 32)


async def figures() -> list[Figure]:
    return [*_rules(), *await _limited(), *await _neighbours(), await _overhead()]


def _rules() -> list[Figure]:
    found = []
    for name, scenario in SCENARIOS.items():
        for rule, make in RULES.items():
            run = play(scenario, make(), holds=rule.endswith("at once"))
            told = (
                f"{run.refusals:.2%} refused, p50 {run.latency(0.5) * 1e3:.0f} ms, p99 {run.latency(0.99) * 1e3:.0f} ms"
            )
            found.append(Figure(f"in virtual time: {name}", rule, 100 * run.used, "% of its seats", against=told))
    return found


class _Server:
    """Answers creations after a while. seats: requests at once; others are refused. hangs: seconds, by namespace."""

    def __init__(self, seats: int = 1000, hangs: dict[str, float] | None = None) -> None:
        self.seats, self.hangs = seats, hangs or {}
        self.busy = self.refused = self.answered = 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.busy >= self.seats:
            self.refused += 1
            return web.Response(status=429, text=BUSY, headers={"Retry-After": "1"})
        self.busy += 1
        try:
            namespace = request.path.split("/")[5]
            await asyncio.sleep(self.hangs.get(namespace, SECONDS))
            self.answered += 1
            return web.json_response({"kind": "Job", "metadata": {"name": "a"}}, status=201)
        finally:
            self.busy -= 1


@asynccontextmanager
async def _client(server: _Server, *, fixed: int | None = None) -> AsyncIterator[Cluster]:
    async with (
        answering(server.answer) as url,
        Cluster(ApiAccess(url), timeout=30.0, in_flight=16) as cluster,
    ):
        if fixed:
            cluster.limiter = _Fixed(fixed)
        yield cluster


class _Fixed(RequestLimiter):
    """So many at once, and nothing learned."""

    def __init__(self, limit: int) -> None:
        super().__init__(Bounds(floor=limit, start=limit, most=limit))

    def refused(self, ticket: object, retry_after: float | None = None) -> None:
        """A refused request alone waits."""


def _job(namespace: str, number: int) -> Object:
    return {"metadata": {"name": f"a-{number}", "namespace": namespace}}


async def _create(cluster: Cluster, namespace: str, number: int) -> None:
    """Creates until it is done, as a plan does that comes back."""
    while True:
        try:
            await cluster.create(JOB, _job(namespace, number))
        except Unavailable as error:
            await asyncio.sleep(error.retry_after or 1.0)
        else:
            return


async def _limited() -> list[Figure]:
    """Creations a second through a server with few seats."""
    group = f"{CREATIONS} creations on a server with {SEATS} seats that refuses the others"
    found, rates = [], {}
    for fixed in (*FIXED, None):
        server = _Server(SEATS)
        async with _client(server, fixed=fixed) as cluster:
            rates[fixed] = await _rate(lambda number, cluster=cluster: _create(cluster, "default", number))
        told = f"{server.refused} of {server.refused + server.answered} requests refused"
        if fixed:
            found.append(Figure(group, f"{fixed} at once", rates[fixed], "Jobs/s", against=told))
    best = max(rate for fixed, rate in rates.items() if fixed)
    ours = Figure(group, "limit found", rates[None], "Jobs/s", f"best fixed, {best:,.0f} Jobs/s; {told}", goal="0.85")
    unlimited = {}
    for fixed in (32, None):
        async with _client(_Server(), fixed=fixed) as cluster:
            unlimited[fixed] = await _rate(lambda number, cluster=cluster: _create(cluster, "default", number))
    against = f"32 at once, {unlimited[32]:,.0f} Jobs/s"
    free = Figure("the same on a server without limits", "limit found", unlimited[None], "Jobs/s", against, goal="0.95")
    return [
        *found,
        Figure(**{**ours.__dict__, "ratio": rates[None] / best}),
        Figure(**{**free.__dict__, "ratio": unlimited[None] / unlimited[32]}),
    ]


async def _rate(work: Callable[[int], Awaitable[None]]) -> float:
    # The limit is found meanwhile; what that costs is in the figures of virtual time.
    await asyncio.gather(*map(work, range(WARMING)))
    began = perf_counter()
    await asyncio.gather(*map(work, range(CREATIONS)))
    return CREATIONS / (perf_counter() - began)


async def _neighbours() -> list[Figure]:
    """The 99th percentile of one namespace's creations, with and without one whose creations hang for ten seconds.

    The middle one of three rounds by the limiter; of one by plain connections, which take half a minute.
    """
    slow = {}
    rounds: dict[bool, list[float]] = {False: [], True: []}
    for name, fixed in (*(("limiter", None),) * 3, ("32 connections", 32)):
        for bad in (False, True):
            server = _Server(hangs={"bad": 10.0})
            async with _client(server, fixed=fixed) as cluster:
                if fixed:
                    cluster.limiter._has_place = lambda _, of=cluster.limiter: of.limit.limit > of.in_flight  # type: ignore[method-assign]
                hanging = [asyncio.create_task(_hang(cluster, number)) for number in range(400 * bad)]
                await asyncio.sleep(0.2)
                slow[name, bad] = await _percentile(cluster)
                if fixed is None:
                    rounds[bad].append(slow[name, bad])
                    slow[name, bad] = statistics.median(rounds[bad])
                for task in hanging:
                    task.cancel()
                await asyncio.gather(*hanging, return_exceptions=True)
    group = "p99 of creations, beside 400 of another namespace that take 10 s each"
    return [
        Figure(
            group,
            name,
            slow[name, True] * 1e3,
            "ms",
            against=f"without them, {slow[name, False] * 1e3:.0f} ms",
            ratio=slow[name, False] / slow[name, True],
            goal="0.5" if name == "limiter" else "",
        )
        for name in ("limiter", "32 connections")
    ]


async def _hang(cluster: Cluster, number: int) -> None:
    with suppress(ClusterError):
        await cluster.create(JOB, _job("bad", number))


async def _percentile(cluster: Cluster) -> float:
    """Ten creations every tenth of a second."""
    seconds: list[float] = []

    async def one(number: int) -> None:
        began = perf_counter()
        await _create(cluster, "good", number)
        seconds.append(perf_counter() - began)

    tasks = []
    for number in range(300):
        tasks.append(asyncio.create_task(one(number)))
        await asyncio.sleep(0.01)
    await asyncio.gather(*tasks)
    return sorted(seconds)[int(0.99 * len(seconds))]


async def _overhead() -> Figure:
    """What the limiter adds to a request that need not wait."""
    limiter, number = RequestLimiter(Bounds()), 20_000

    async def pass_through() -> float:
        began = process_time()
        for _ in range(number):
            ticket = await limiter.enter(Priority.START, "default", "POST jobs")
            limiter.answered(ticket)
            limiter.leave(ticket)
        return (process_time() - began) / number

    return Figure(
        "a request that need not wait", "the limiter's part", await median(pass_through, 5) * 1e6, "us", goal="5"
    )
