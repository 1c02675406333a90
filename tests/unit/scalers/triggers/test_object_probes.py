"""Probes of EventJobs: which deliveries are read, from which intake, and for whom events are routed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from scalers.deliveries.event_ledger import DEFAULTS, EventLedger
from scalers.triggers.object_probes import ObjectProbes, is_asked
from scalers.triggers.parse import Triggers
from tests.support.tables import cases
from tests.unit.controllers.eventjob.manifests import event_job
from workers.api.kinds import EVENT_JOB, JOB_FLOW, SCALED_JOB, VC_JOB, Kind, Object, Ref
from workers.api.penstock_dev import taken_channels
from workers.cache import codec
from workers.controllers.eventjob.status import EventJobState, StatedCondition, write
from workers.decision.plan import PatchStatus
from workers.decision.snapshot import CachedObject

REF = Ref(EVENT_JOB, "default", "orders")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def written(ready: StatedCondition, generation: int = 1) -> Object:
    """The status that a decision writes."""
    suspended = StatedCondition("False", "NotSuspended", "")
    step = next(write(event_job(metadata={"generation": generation}), EventJobState(ready, suspended), NOW))
    assert isinstance(step, PatchStatus)
    return step.status


READY = written(StatedCondition("True", "EventJobReady", ""))
TAKEN = written(StatedCondition("False", "ChannelTaken", ""))


class Mirror:
    """The objects of the cluster, and which of them were read."""

    def __init__(self, *bodies: tuple[Ref, Object]) -> None:
        self._bodies = dict(bodies)
        self.read: list[Ref] = []

    async def get_many(self, refs: Sequence[Ref]) -> list[CachedObject | None]:
        self.read += refs
        return [CachedObject(ref, self._bodies[ref], 0) if ref in self._bodies else None for ref in refs]

    async def children(self, kind: Kind, owner: str) -> list[CachedObject]:
        """Returns the ScaledJobs that name a stream."""
        assert (kind, owner) == (SCALED_JOB, codec.referrers_of(taken_channels.named("default").key))
        named = [ref for ref, body in self._bodies.items() if "stream" in str(body["spec"])]
        return [CachedObject(ref, self._bodies[ref], 0) for ref in named]


def probes(store: Mirror, broker: str = "redis://127.0.0.1:6379/0") -> ObjectProbes:
    return ObjectProbes(Triggers(broker=broker, prefix="penstock"), store)  # type: ignore[arg-type]


async def ledger(body: Object, *others: tuple[Ref, Object]) -> EventLedger:
    [probe] = (await probes(Mirror(*others)).parse(REF, body)).probes
    assert (probe.name, probe.type) == ("s0-events", "events")
    scaler: Any = probe.scaler
    found: EventLedger = scaler.ledger
    return found


def scaled_job(trigger: Object, name: str = "orders") -> tuple[Ref, Object]:
    return Ref(SCALED_JOB, "default", name), {"metadata": {"name": name}, "spec": {"triggers": [trigger]}}


async def test_the_settings_of_a_channel_are_those_of_its_namesake() -> None:
    settings = {"maxEvents": 7, "dedup": {"limit": 50, "windowSeconds": 3}}
    own = await ledger(event_job(status=READY, deadLetter={"channel": "lost"}, **settings))
    assert (own.owner, own.deleting) == ("default/orders", False)
    assert (own.intake.group, own.intake.held, own.intake.parked) == ("", True, 1000)
    assert own.dead_letters
    assert (own.intake.stream.endswith("default/orders"), own.dead_letters.endswith("default/lost")) == (True, True)
    assert (own.intake.limit, own.intake.window, own.intake.remembered) == (7, 3000, 50)
    other = event_job(metadata={"name": "sales", "uid": "s"}, **settings)
    theirs = await ledger(event_job(channel="sales"), (Ref(EVENT_JOB, "default", "sales"), other))
    assert theirs.intake.stream.endswith("default/sales")
    assert (theirs.intake.limit, theirs.intake.remembered, theirs.dead_letters) == (7, 50, None)
    nobodys = await ledger(event_job(channel="sales", **settings))
    assert (nobodys.intake.limit, nobodys.intake.remembered) == (DEFAULTS.max_events, DEFAULTS.dedup.limit)


@cases(
    ("ready", event_job(status=READY), (), True),
    ("new", event_job(), (), True),
    ("its channel was found taken", event_job(status=TAKEN), (), False),
    ("a ScaledJob has the channel", event_job(), (scaled_job({"type": "push"}),), False),
    ("a ScaledJob has it since it was ready", event_job(status=READY), (scaled_job({"type": "push"}),), False),
    (
        "a ScaledJob takes from another stream",
        event_job(),
        (scaled_job({"type": "push", "metadata": {"stream": "other"}}),),
        True,
    ),
    (
        "a ScaledJob of another name takes from its stream",
        event_job(),
        (scaled_job({"type": "push", "metadata": {"stream": "{penstock}:events:default/orders"}}, "other"),),
        False,
    ),
    (
        "a ScaledJob has the channel that it names",
        event_job(channel="sales", status=READY),
        (scaled_job({"type": "push"}, "sales"),),
        False,
    ),
    (
        "decided on in an earlier generation",
        event_job(metadata={"generation": 2}, status=READY),
        (scaled_job({"type": "push"}),),
        False,
    ),
    ("a spec that cannot be used", event_job(status=READY, concurrency={"total": "many"}), (), False),
    ("a filter that cannot be used", event_job(status=READY, filter={"cel": "1 +"}), (), False),
)
async def test_events_are_routed_while_spec_and_channel_can_be_used(
    body: Object, others: Sequence[tuple[Ref, Object]], routes: bool
) -> None:
    assert ((await ledger(body, *others)).spec is not None) is routes


async def test_the_rivals_of_a_channel_may_be_read_before() -> None:
    store = Mirror(scaled_job({"type": "push"}), scaled_job({"type": "push", "metadata": {"stream": "x"}}, "other"))
    found = await probes(store).rivals(REF)
    assert [each and each["metadata"]["name"] for each in found] == ["orders", "other"]
    assert (await probes(Mirror()).rivals(REF)) == (None,)
    [probe] = (await probes(Mirror()).parse(REF, event_job(status=READY), found)).probes
    scaler: Any = probe.scaler
    assert scaler.ledger.spec is None, "the channel is taken"


async def test_each_eventjob_has_the_brokers_circuit_breaker() -> None:
    [one] = (await probes(Mirror()).parse(REF, event_job())).probes
    [other] = (
        await probes(Mirror()).parse(Ref(EVENT_JOB, "default", "sales"), event_job(metadata={"name": "sales"}))
    ).probes
    assert one.source == other.source


async def test_a_deleted_eventjob_gives_its_deliveries_up() -> None:
    assert (await ledger(event_job(metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"}))).deleting


async def test_a_spec_is_parsed_again_when_its_generation_changes() -> None:
    found = probes(Mirror())
    for generation, limit in ((1, 7), (1, 7), (2, 8)):
        status = written(StatedCondition("True", "EventJobReady", ""), generation)
        body = event_job(metadata={"generation": generation}, status=status, maxEvents=limit)
        [probe] = (await found.parse(REF, body)).probes
        scaler: Any = probe.scaler
        assert scaler.ledger.spec.max_events == limit


async def test_a_broker_that_cannot_be_used_is_the_problem() -> None:
    parsed = await probes(Mirror(), "nonsense").parse(REF, event_job(status=READY))
    assert (parsed.probes, (parsed.problem or "").startswith("Penstock's own broker: ")) == ((), True)


@cases(("EventJob", EVENT_JOB, True), ("JobFlow", JOB_FLOW, False), ("ScaledJob", SCALED_JOB, False))
def test_eventjobs_are_polled_until_they_are_gone(kind: Any, asked: bool) -> None:
    assert is_asked(kind, {"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}, "spec": {}}) is asked


async def test_pods_of_a_flow_are_asked() -> None:
    probe = {"tcpSocketList": [{"taskName": "server", "port": 80}]}
    entries = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}]
    body = {"metadata": {"name": "f", "namespace": "default", "uid": "f"}, "spec": {"flows": entries}}

    class Jobs(Mirror):
        async def children_many(self, owners: Sequence[tuple[Kind, str]]) -> list[tuple[CachedObject, ...]]:
            job = {"metadata": {"name": "f-a", "uid": "j"}, "spec": {"tasks": [{"name": "server", "replicas": 1}]}}
            known = {(VC_JOB, "f"): (CachedObject(Ref(VC_JOB, "default", "f-a"), job, 0),)}
            return [known.get(owner, ()) for owner in owners]

    [asked] = (await probes(Jobs()).parse(Ref(JOB_FLOW, "default", "f"), body)).probes
    assert (asked.name, asked.type) == ("tcp://f-a/server:80", "tcpSocket")


async def test_triggers_of_kedas_kinds_are_parsed() -> None:
    ref, body = scaled_job({"type": "redis", "metadata": {"address": "a:1", "listName": "work"}})
    body["metadata"]["uid"] = "u"
    [probe] = (await probes(Mirror()).parse(ref, body)).probes
    assert probe.type == "redis"


async def test_only_probes_of_triggers_are_known_without_reading_anything() -> None:
    trigger = {"type": "redis", "metadata": {"address": "a:1", "listName": "work"}}
    metadata = {"namespace": "default", "name": "work", "uid": "u", "generation": 1}
    body = {"metadata": metadata, "spec": {"jobTargetRef": {"template": {"spec": {}}}, "triggers": [trigger]}}
    mirror: Any = Mirror()
    probes = ObjectProbes(Triggers(), mirror)
    parsed = await probes.parse(Ref(SCALED_JOB, "default", "work"), body)
    assert probes.known(Ref(SCALED_JOB, "default", "work"), body) is parsed
    assert probes.known(Ref(JOB_FLOW, "default", "work"), body) is None
