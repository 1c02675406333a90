"""EventJobs from a pushed event to what ran, with every process of ours on the embedded API server and a real one."""

import shlex
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis.asyncio as redis
import yaml

from scalers.deliveries.deliveries import Deliveries
from scalers.deliveries.delivery import Delivery, DeliveryFilter
from scheduler.keys import Keys
from tests.integration.controllers.keda_objects import LONG, KedaObject, running_on_both
from tests.support.conditions import eventually
from tests.support.house import House
from tests.support.paths import ROOT
from tests.support.tables import cases
from workers.api import job_annotations
from workers.api.kinds import EVENT_JOB, JOB, SCALED_JOB, Object, Ref
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

SETTINGS = {"polling": "2"}

KEYS = Keys("penstock")

#: Says what it was given, and does what the event asks for.
SCRIPT = """
file=$(cat "$PENSTOCK_VOLUME_PENSTOCK_EVENT/event")
[ "$file" = "$PENSTOCK_EVENT" ] || exit 9
echo "$PENSTOCK_EVENT_ID|$PENSTOCK_ATTEMPT|$PENSTOCK_EVENT_DATA|$1" >> {truth}
case "$PENSTOCK_EVENT_SUBJECT" in
  fail) [ -e {truth}.mended ] || exit 3 ;;
  wait) while [ ! -e {truth}.go ]; do sleep 0.1; done ;;
esac
"""


running = running_on_both(SETTINGS)


class PushedWork(KedaObject):
    """An EventJob, its channel, and what its Jobs were given."""

    def __init__(self, cluster: Cluster, broker: redis.Redis, truth: Path) -> None:
        super().__init__(cluster, 0, EVENT_JOB, "events")
        self.broker, self.truth = broker, truth

    async def apply(self, **spec: Any) -> None:
        script = SCRIPT.replace("{truth}", shlex.quote(str(self.truth)))
        command = ["/bin/sh", "-c", script, "event", "$(event.data:-none)"]
        container = {"name": "main", "image": "none", "command": command}
        pod = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1}
        template = {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}
        await self.create({"jobTemplate": template, **spec})
        await self.becomes("Ready", "True")

    async def push_events(self, *ids: str, channel: str = "", **attributes: str) -> None:
        for id in ids:
            fields = {"specversion": "1.0", "id": id, "source": "/shop", "type": "order.placed", **attributes}
            await self.broker.xadd(KEYS.channel("default", channel or self.name), dict(fields))

    async def push_by_http(self, home: Path, id: str, data: str) -> dict[str, Any]:
        """Pushes through the gateway of Penstock's own parts; returns its answer."""
        url = (home / "gateway.url").read_text().strip()
        headers = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/shop", "ce-type": "order.placed"}
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{url}/events/default/{self.name}", data=data, headers=headers) as answer,
        ):
            assert answer.status == 202, await answer.text()
            return dict(await answer.json())

    def given(self) -> list[tuple[str, ...]]:
        """Id, attempt, data and argument of every process that ran, in the order in which they began."""
        lines = self.truth.read_text().splitlines() if self.truth.exists() else []
        return [tuple(line.split("|")) for line in lines]

    def ran(self) -> list[str]:
        return [given[0] for given in self.given()]

    def touch(self, suffix: str) -> None:
        Path(f"{self.truth}.{suffix}").touch()

    async def jobs(self) -> list[Object]:
        return (await self.cluster.list(JOB, "default", label_selector=f"{job_annotations.EVENT_JOB}={self.name}"))[0]

    async def deliveries(self) -> dict[str, Delivery]:
        """By the id of the event."""
        uid = (await self.body())["metadata"]["uid"]
        page = await Deliveries(self.broker, KEYS).page(uid, DeliveryFilter())
        return {each.attributes["id"]: each for each in page.deliveries}

    async def states(self, **states: str) -> dict[str, Delivery]:
        """Waits until the events have these states, and no Job waits for its claim; `_` stands for the hyphen."""
        wanted = {id.replace("_", "-"): state for id, state in states.items()}

        async def so() -> bool:
            found = {id: each.state for id, each in (await self.deliveries()).items()}
            return all(found.get(id) == state for id, state in wanted.items())

        await eventually(so, LONG)
        return await self.deliveries()

    async def unbound(self) -> bool:
        return not any(job["metadata"].get("finalizers") for job in await self.jobs())


@pytest.fixture
async def works(cluster: Cluster, broker: redis.Redis, tmp_path: Path) -> AsyncIterator[list[PushedWork]]:
    works = [PushedWork(cluster, broker, tmp_path / f"truth-{number}") for number in range(2)]
    yield works
    for work in works:
        work.touch("go")
        await work.remove()


async def test_every_event_gets_one_job_that_sees_exactly_its_text(works: list[PushedWork]) -> None:
    work, _ = works
    await work.apply(ttlSecondsAfterFinished=3600)
    hostile = "$(HOME) `id` '\" $$ é"
    await work.push_events("a", data=hostile)
    await work.push_events("b", "b")
    await work.states(a="done", b="done")
    assert sorted(work.given()) == [("a", "1", hostile, hostile), ("b", "1", "", "none")]
    await eventually(work.unbound, LONG)
    assert len(await work.jobs()) == 2

    async def counted() -> bool:
        return (await work.status()).get("events", {}).get("done") == 2

    await eventually(counted, LONG)
    status = await work.status()
    assert status["channel"] == work.name
    assert status["lastEventTime"]
    await work.has_told("EventJobReady", "JobsCreated")


async def test_events_over_http_and_in_the_stream_are_of_one_channel(works: list[PushedWork], running: House) -> None:
    work, _ = works
    await work.apply(push={"anonymous": True})

    # The gateway sees a new object within a second.
    async def taken() -> bool:
        with suppress(AssertionError):
            return not (await work.push_by_http(running.home, "a", "over http"))["duplicate"]
        return False

    await eventually(taken, LONG)
    await work.push_events("b", data="in the stream")
    await work.states(a="done", b="done")
    await work.push_events("a", data="again")
    assert (await work.push_by_http(running.home, "b", "again"))["duplicate"]
    await work.push_events("last")
    await work.states(last="done")
    assert sorted(given[:3] for given in work.given()) == [
        ("a", "1", "over http"),
        ("b", "1", "in the stream"),
        ("last", "1", ""),
    ]


async def test_a_failing_event_is_tried_again_and_parked_and_may_be_replayed(works: list[PushedWork]) -> None:
    work, _ = works
    await work.apply(retry={"limit": 1, "delaySeconds": 0})
    await work.push_events("x", subject="fail")
    parked = (await work.states(x="parked"))["x"]
    assert [(each.outcome, "BackoffLimitExceeded" in each.reason) for each in parked.attempts] == [("failed", True)] * 2
    assert {each.job for each in parked.attempts} == {job["metadata"]["name"] for job in await work.jobs()}
    await work.becomes("Parked", "True", "EventsParked")
    await work.has_told("EventParked")
    work.touch("mended")
    uid = (await work.body())["metadata"]["uid"]
    assert await Deliveries(work.broker, KEYS).replay(uid, [parked.entry]) == 1
    done = (await work.states(x="done"))["x"]
    assert (len(done.attempts), done.replays) == (3, 1)
    assert [given[:2] for given in work.given()] == [("x", "1"), ("x", "2"), ("x", "1")]
    await work.becomes("Parked", "False")


async def test_events_with_one_key_run_one_after_the_other(works: list[PushedWork]) -> None:
    work, _ = works
    await work.apply(concurrency={"total": 5, "orderingKey": "event.customer"}, filter={"prefix": {"type": "order."}})
    await work.push_events("a-1", customer="a", subject="wait")
    await work.push_events("a-2", "a-3", customer="a")
    await work.push_events("b-1", customer="b")
    await work.push_events("left", customer="b", type="user.created")
    await work.states(b_1="done", a_1="running", a_2="waiting", a_3="waiting")
    work.touch("go")
    await work.states(a_3="done")
    assert [id for id in work.ran() if id.startswith("a")] == ["a-1", "a-2", "a-3"]
    assert "left" not in await work.deliveries()


async def test_two_objects_of_one_channel_both_take_its_events(works: list[PushedWork]) -> None:
    first, second = works
    await first.apply()
    await second.apply(channel=first.name, filter={"cel": "event.data.total > 10"})
    await first.push_events("small", data='{"total": 5}')
    await first.push_events("large", data='{"total": 50}')
    await first.states(small="done", large="done")
    await second.states(large="done")
    assert second.ran() == ["large"]


async def test_a_suspended_object_takes_events_in_and_runs_them_later(works: list[PushedWork]) -> None:
    work, _ = works
    await work.apply(suspend=True)
    await work.push_events("x")
    await work.states(x="waiting")
    await work.becomes("Suspended", "True")
    assert work.ran() == []
    await work.patch({"spec": {"suspend": False}})
    await work.states(x="done")


async def test_an_event_that_does_not_fit_the_template_is_parked_at_once(works: list[PushedWork]) -> None:
    work, _ = works
    await work.apply()
    await work.patch({"spec": {"jobTemplate": {"metadata": {"labels": {"subject": "$(event.subject)"}}}}})
    await work.push_events("bad", subject="no label")
    await work.push_events("good", subject="label")
    found = await work.states(bad="parked", good="done")
    assert "jobTemplate.metadata.labels[subject]" in found["bad"].reason
    [job] = await work.jobs()
    assert job["metadata"]["labels"]["subject"] == "label"


async def test_a_deleted_object_stops_its_jobs_and_leaves_nothing_in_the_broker(works: list[PushedWork]) -> None:
    work, _ = works
    await work.apply(concurrency={"total": 1})
    await work.push_events("x", "y", subject="wait")
    await work.states(x="running", y="waiting")
    uid = (await work.body())["metadata"]["uid"]
    await work.cluster.delete(work.ref)
    await eventually(work.is_gone, LONG)

    async def no_jobs() -> bool:
        return not await work.jobs()

    await eventually(no_jobs, LONG)
    left = [key.decode() async for key in work.broker.scan_iter(match=f"*{uid}*", count=10_000)]
    assert [key for key in left if not key.endswith(":meta")] == [], "only the order's id stays, for late polls"


@cases(("by its name", False), ("by the stream of its trigger", True))
async def test_a_channel_of_a_scaledjob_is_refused(named: bool, works: list[PushedWork], cluster: Cluster) -> None:
    work, other = works
    scaled = Ref(SCALED_JOB, "default", other.name if named else work.name)
    stream = {"stream": KEYS.channel("default", work.name)} if named else {}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none", "command": ["true"]}]}
    spec = {"jobTargetRef": {"template": {"spec": pod}}, "triggers": [{"type": "push", "metadata": stream}]}
    body = {"apiVersion": SCALED_JOB.api_version, "kind": SCALED_JOB.kind, "spec": spec}
    await cluster.create(SCALED_JOB, {**body, "metadata": {"name": scaled.name, "namespace": "default"}})
    await work.create({"jobTemplate": {"spec": {"template": {"spec": pod}}}})
    message = f"ScaledJob default/{scaled.name} takes channel {work.name}"
    assert message in await work.becomes("Ready", "False", "ChannelTaken")
    await work.push_events("x")

    # The ScaledJob takes it in.
    await eventually(lambda: work.broker.xlen(f"{KEYS.channel('default', work.name)}:accepted"), LONG)
    assert await work.deliveries() == {}
    await cluster.delete(scaled)


async def test_a_spec_that_cannot_work_is_said_and_mended(works: list[PushedWork]) -> None:
    work, _ = works
    await work.apply(suspend=True)
    await work.patch({"spec": {"filter": {"cel": "event.typ =="}, "suspend": False}})
    assert "spec.filter.cel: line 1" in await work.becomes("Ready", "False", "InvalidSpec")
    await work.push_events("x")
    await work.patch({"spec": {"filter": None}})
    await work.states(x="done")


async def test_an_event_that_cannot_be_filtered_is_parked_and_told(works: list[PushedWork]) -> None:
    work, _ = works
    await work.apply(filter={"cel": "event.data.total > 10"})
    await work.push_events("x")
    await work.states(x="parked")
    await work.has_told("EventParked")


async def test_the_example_runs_as_it_stands(works: list[PushedWork]) -> None:
    work, _ = works
    body = yaml.safe_load((ROOT / "examples" / "eventjob.yaml").read_text())
    body["metadata"]["namespace"] = "default"
    work.name = body["metadata"]["name"]
    work.ref = Ref(EVENT_JOB, "default", work.name)
    await work.cluster.create(EVENT_JOB, body)
    await work.becomes("Ready", "True")
    await work.push_events("4711", data='{"total": 12}')
    await work.push_events("few", data='{"total": 1}')
    done = (await work.states(**{"4711": "done"}))["4711"]
    [job] = await work.jobs()
    assert [each.job for each in done.attempts] == [job["metadata"]["name"]]
    assert job["metadata"]["annotations"]["shop.example/order"] == "4711"
    assert "few" not in await work.deliveries()
