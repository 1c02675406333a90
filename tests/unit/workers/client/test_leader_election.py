"""Leader election on a fake Lease API: one at a time, prompt hand-over, epochs that only grow."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.clusters import FakeCluster
from tests.support.conditions import eventually
from tests.support.tables import cases
from workers.api.kinds import LEASE, Object, Ref
from workers.client.leader_election import PRESENT, Elector, Terms
from workers.errors import UserError

#: A stall of the machine ends no term.
pytestmark = pytest.mark.virtual_time

REF = Ref(LEASE, "default", "penstock-informer-jobs.batch")
QUICK = Terms(lease=1, renew=0.3, retry=0.02)


class Candidate:
    """One process that wants to lead, and what it led."""

    def __init__(self, cluster: FakeCluster, name: str, *, floor: int = 0, terms: Terms = QUICK) -> None:
        self.epochs: list[int] = []
        self.leads = False
        self.fails: Exception | None = None
        self.ended = asyncio.Event()
        clock = asyncio.get_running_loop().time
        self.elector = Elector(cluster, REF, name, terms=terms, floor=self._floor, clock=clock)
        self._least = floor

    async def _floor(self) -> int:
        return self._least

    async def work(self, epoch: int) -> None:
        self.epochs.append(epoch)
        self.leads = True
        try:
            if self.fails:
                raise self.fails
            await self.ended.wait()
        finally:
            self.leads = False

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[asyncio.Task[None]]:
        """Campaigns, and enters the body when it leads."""
        async with self.campaigning() as task:
            await eventually(lambda: self.leads)
            yield task

    @asynccontextmanager
    async def campaigning(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.elector.lead(self.work))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def spec(cluster: FakeCluster) -> Object:
    return dict(cluster.objects[REF.key]["spec"])


async def test_the_first_candidate_leads_and_says_so_in_the_lease(cluster: FakeCluster) -> None:
    first = Candidate(cluster, "first")
    async with first.leading():
        assert spec(cluster)["holderIdentity"] == "first"
        assert spec(cluster)["leaseDurationSeconds"] == 1
        assert spec(cluster)["leaseTransitions"] == first.epochs[0] == 1
        renewed = spec(cluster)["renewTime"]
        await eventually(lambda: spec(cluster)["renewTime"] > renewed)
        assert spec(cluster)["acquireTime"] < spec(cluster)["renewTime"]


async def test_while_one_leads_and_renews_the_other_waits(cluster: FakeCluster) -> None:
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")
    async with first.leading(), second.campaigning():
        versions = cluster.version
        await eventually(lambda: cluster.version > versions + 60)  # longer than the lease lasts
        assert first.epochs == [1]
        assert second.epochs == []


async def test_a_leader_that_stops_hands_over_with_a_higher_epoch(cluster: FakeCluster) -> None:
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")
    async with first.leading():
        pass
    assert spec(cluster)["holderIdentity"] == ""
    async with second.leading():
        pass
    assert (first.epochs, second.epochs) == ([1], [2])


async def test_the_lease_of_a_leader_that_died_is_taken_when_it_was_seen_unchanged_long_enough(
    cluster: FakeCluster,
) -> None:
    held = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "leaseTransitions": 6}
    # Its wall clock was decades ahead: that must not count.
    held["renewTime"] = "2099-01-01T00:00:00.000000Z"
    cluster.put(LEASE, {"metadata": {"namespace": REF.namespace, "name": REF.name}, "spec": held})
    second = Candidate(cluster, "second")
    async with second.leading():
        pass
    assert second.epochs == [7]


async def test_a_leader_that_cannot_renew_stops_before_its_lease_runs_out_and_says_why(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    first = Candidate(cluster, "first")
    async with first.leading():
        cluster.down = True
        await eventually(lambda: not first.leads)
        cluster.down = False
        await eventually(lambda: first.leads)
    assert first.epochs == [1, 2]
    reasons = [record.error for record in caplog.records if record.message == "could not renew"]  # type: ignore[attr-defined]
    assert reasons
    assert all(reasons)


async def test_a_leader_whose_lease_was_taken_stops(cluster: FakeCluster) -> None:
    first = Candidate(cluster, "first")
    async with first.leading():
        lease = cluster.objects[REF.key]
        cluster.put(LEASE, {**lease, "spec": {**lease["spec"], "holderIdentity": "thief", "leaseTransitions": 2}})
        await eventually(lambda: not first.leads)
        assert spec(cluster)["holderIdentity"] == "thief"


async def test_an_edit_of_the_lease_by_a_user_does_not_end_leadership(cluster: FakeCluster) -> None:
    first = Candidate(cluster, "first")
    async with first.leading():
        lease = cluster.objects[REF.key]
        lease["metadata"]["annotations"] = {"note": "hello"}
        cluster.put(LEASE, lease)
        noted = cluster.version
        await eventually(lambda: cluster.version > noted + 3)
        assert first.epochs == [1]
        assert cluster.objects[REF.key]["metadata"]["annotations"] == {"note": "hello"}


async def test_epochs_grow_even_when_the_lease_was_deleted(cluster: FakeCluster) -> None:
    late = Candidate(cluster, "late", floor=41)
    async with late.leading():
        pass
    assert late.epochs == [42]


async def test_of_many_candidates_at_once_exactly_one_leads(cluster: FakeCluster) -> None:
    candidates = [Candidate(cluster, f"c{n}") for n in range(5)]
    electors = [candidate.campaigning() for candidate in candidates]
    for elector in electors:
        await elector.__aenter__()
    await eventually(lambda: any(candidate.leads for candidate in candidates))
    written = cluster.version
    await eventually(lambda: cluster.version > written + 10)
    assert sum(candidate.leads for candidate in candidates) == 1
    for elector in electors:
        await elector.__aexit__(None, None, None)
    epochs = sorted(epoch for candidate in candidates for epoch in candidate.epochs)
    assert epochs == list(range(1, len(epochs) + 1)), "an epoch was given twice"


async def test_work_that_fails_gives_the_lease_up_and_is_heard_of(cluster: FakeCluster) -> None:
    first = Candidate(cluster, "first")
    first.fails = RuntimeError("broken")
    async with first.campaigning() as task:
        with pytest.raises(RuntimeError, match="broken"):
            await asyncio.wait_for(task, 60)
    assert spec(cluster)["holderIdentity"] == ""


@cases(
    ("renew as long as lease", 10, 10, 2),
    ("retry as long as renew", 15, 10, 10),
)
def test_terms_that_let_two_lead_are_refused(lease: int, renew: float, retry: float) -> None:
    with pytest.raises(UserError, match="decrease"):
        Terms(lease, renew, retry)


def test_terms_of_a_lease_are_in_the_usual_proportions() -> None:
    assert Terms.of(15) == Terms()
    assert Terms.of(3) == Terms(3, 2.0, 0.4)


class Signs:
    """Signs of life that end when a test says so."""

    def __init__(self) -> None:
        self.gone: dict[str, asyncio.Event] = {}

    async def until_gone(self, identity: str) -> None:
        await self.gone.setdefault(identity, asyncio.Event()).wait()

    def end(self, identity: str) -> None:
        self.gone.setdefault(identity, asyncio.Event()).set()


LONG = Terms(lease=600, renew=300, retry=0.02)


def held_by(cluster: FakeCluster, present: str, **annotations: str) -> None:
    held = {"holderIdentity": "dead", "leaseDurationSeconds": 600, "leaseTransitions": 6}
    metadata = {"namespace": REF.namespace, "name": REF.name, "annotations": {PRESENT: present, **annotations}}
    cluster.put(LEASE, {"metadata": metadata, "spec": held})


async def test_the_lease_of_a_leader_without_signs_of_life_is_taken_at_once(cluster: FakeCluster) -> None:
    held_by(cluster, "dead", team="a")
    signs, second = Signs(), Candidate(cluster, "second", terms=LONG)
    second.elector._presence = signs
    async with second.campaigning():
        await eventually(lambda: "dead" in signs.gone)
        assert second.epochs == []
        signs.end("dead")
        await eventually(lambda: second.leads)
        assert second.epochs == [7]
        assert cluster.objects[REF.key]["metadata"]["annotations"] == {PRESENT: "second", "team": "a"}


async def test_a_leader_that_lives_without_signs_of_life_is_deposed(cluster: FakeCluster) -> None:
    signs = Signs()
    # It notices when it renews, a third of that time later.
    terms = Terms(lease=600, renew=3, retry=0.02)
    first = Candidate(cluster, "first", terms=terms)
    second = Candidate(cluster, "second", terms=terms)
    first.elector._presence = second.elector._presence = signs
    async with first.leading(), second.campaigning():
        signs.end("first")
        await eventually(lambda: second.leads and not first.leads)
        assert (first.epochs, second.epochs) == ([1], [2])


async def test_the_lease_of_an_earlier_release_waits_until_it_runs_out(cluster: FakeCluster) -> None:
    # It took the Lease from one that gives signs of life, and left that one's note on it.
    held_by(cluster, "before")
    signs, second = Signs(), Candidate(cluster, "second", terms=LONG)
    second.elector._presence = signs
    signs.end("before")
    signs.end("dead")
    looks = 0
    get = cluster.get

    async def counted(ref: Ref) -> Object:
        nonlocal looks
        looks += 1
        return await get(ref)

    cluster.get = counted  # type: ignore[method-assign]
    async with second.campaigning():
        await eventually(lambda: looks > 20)
        assert second.epochs == []
