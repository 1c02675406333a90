"""From specs with authenticationRefs to scalers: when credentials are read again, and when they are not."""

import asyncio
from collections.abc import Hashable
from typing import Any, ClassVar, Self

import pytest
from pydantic import SecretStr

from penstock.parameters import Trigger
from penstock.scaler import Scaler, parameter
from scalers.scaler_registry import ScalerRegistry
from scalers.triggers.parse import Parsed, SourceKey, Triggers, measured, polling_interval, version
from tests.support.tables import cases, for_each
from tests.unit.scalers.cluster import Cluster
from workers.api.kinds import SCALED_JOB, Object, Ref
from workers.decision.claims import LEDGER
from workers.errors import Unavailable, UserError

REF = Ref(SCALED_JOB, "team", "work")


def trigger(authentication: str | None = "login", **metadata: str) -> Object:
    reference = {"authenticationRef": {"name": authentication}} if authentication else {}
    return {"type": "redis", "metadata": {"address": "a:1", "listName": "work", **metadata}, **reference}


def body(*triggers: Object, generation: int = 1, env: Any = (), uid: str = "u") -> Object:
    template = {"spec": {"containers": [{"name": "main", "env": list(env)}]}}
    spec = {"triggers": list(triggers), "jobTargetRef": {"template": template}}
    return {"metadata": {"namespace": "team", "name": "work", "uid": uid, "generation": generation}, "spec": spec}


def password(parsed: Parsed) -> str:
    [probe] = parsed.probes
    scaler: Any = probe.scaler
    assert scaler.password is not None
    return str(scaler.password.get_secret_value())


async def test_a_trigger_gets_what_its_authentication_supplies(cluster: Cluster) -> None:
    parsed = await Triggers(lookups=cluster.lookups()).parse(REF, body(trigger()))
    assert password(parsed) == "hunter2"
    assert "hunter2" not in f"{parsed}"


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 9.0),
        ({"pollingInterval": 30}, 30.0),
        ({"pollingInterval": 1}, 1.0),
        ({"pollingInterval": 0}, 9.0),
        ({"pollingInterval": "30"}, 9.0),
        ({"pollingInterval": 30, "pollingIntervalMilliseconds": 250}, 0.25),
        ({"pollingInterval": 30, "pollingIntervalMilliseconds": 0}, 30.0),
    ],
    ids=str,
)
def test_the_interval_of_polls(spec: Object, seconds: float) -> None:
    assert polling_interval({"spec": spec}, 9.0) == seconds


async def test_a_trigger_that_scales_jobs_has_a_name_and_no_type_of_metric() -> None:
    [probe] = (await Triggers().parse(REF, body({**trigger(None), "name": "mine"}))).probes
    assert (probe.name, probe.given) == ("s0-redis-work", "mine")
    assert (await Triggers().parse(REF, body({**trigger(None), "metricType": "Value"}))).problem == (
        "trigger 0 (redis): metricType: has no meaning on a ScaledJob and must be left out"
    )


async def test_nothing_is_parsed_anew_while_nothing_changes(cluster: Cluster) -> None:
    triggers = Triggers(lookups=cluster.lookups(seconds=30))
    first = await triggers.parse(REF, body(trigger()))
    asked = len(cluster.asked)
    assert await triggers.parse(REF, body(trigger())) is first
    assert len(cluster.asked) == asked
    cluster.now += 31
    assert await triggers.parse(REF, body(trigger())) is first, "read again, and found the same"
    assert len(cluster.asked) == 2 * asked


async def test_a_changed_secret_is_seen_when_the_old_one_is_too_old(cluster: Cluster) -> None:
    triggers = Triggers(lookups=cluster.lookups(seconds=30))
    await triggers.parse(REF, body(trigger()))
    cluster.secret("login", pw="changed")
    assert password(await triggers.parse(REF, body(trigger()))) == "hunter2"
    cluster.now += 31
    assert password(await triggers.parse(REF, body(trigger()))) == "changed"


async def test_a_changed_authentication_is_seen_too(cluster: Cluster) -> None:
    triggers = Triggers(lookups=cluster.lookups(seconds=30))
    await triggers.parse(REF, body(trigger()))
    cluster.secret("other", pw="another")
    cluster.authentication(secretTargetRef=[{"parameter": "password", "name": "other", "key": "pw"}])
    cluster.now += 31
    assert password(await triggers.parse(REF, body(trigger()))) == "another"


async def test_after_a_failure_everything_is_read_again_at_once(cluster: Cluster) -> None:
    triggers = Triggers(lookups=cluster.lookups(seconds=30))
    await triggers.parse(REF, body(trigger()))
    cluster.secret("login", pw="changed")
    cluster.now += 2
    triggers.forget("u")
    assert password(await triggers.parse(REF, body(trigger()))) == "changed"
    asked = len(cluster.asked)
    await triggers.parse(REF, body(trigger()))
    assert len(cluster.asked) == asked, "and is remembered again"


async def test_one_secret_of_a_thousand_objects_is_read_once(cluster: Cluster) -> None:
    triggers = Triggers(lookups=cluster.lookups())
    for number in range(1000):
        await triggers.parse(REF, body(trigger(), uid=f"u{number}"))
    assert len(cluster.asked) == 2


async def test_a_thousand_objects_that_fail_one_after_the_other_do_not_each_read_again(cluster: Cluster) -> None:
    triggers = Triggers(lookups=cluster.lookups(seconds=30))
    for _ in range(2):
        for number in range(1000):
            await triggers.parse(REF, body(trigger(), uid=f"u{number}"))
            triggers.forget(f"u{number}")
            cluster.now += 0.01
    assert len(cluster.asked) <= 2 * 21, "each of two things about once a second, and not once for each object"


async def test_while_the_cluster_is_away_the_last_credentials_go_on(cluster: Cluster) -> None:
    triggers = Triggers(lookups=cluster.lookups(seconds=30))
    first = await triggers.parse(REF, body(trigger()))
    cluster.now += 31
    cluster.down = Unavailable("the API server is away")
    assert await triggers.parse(REF, body(trigger())) is first
    triggers.forget("u")
    assert await triggers.parse(REF, body(trigger())) is first
    changed = await triggers.parse(REF, body(trigger(), generation=2))
    assert changed.problem == "trigger 0 (redis): TriggerAuthentication team/login: the API server is away"


async def test_an_environment_that_cannot_be_read_again_goes_on(cluster: Cluster) -> None:
    cluster.config_map("places", address="a:1")
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "places", "key": "address"}}}]
    spec = body(trigger(None, address="", addressFromEnv="A"), env=env)
    triggers = Triggers(lookups=cluster.lookups())
    first = await triggers.parse(REF, spec)
    assert first.problem is None
    cluster.down = Unavailable("the API server is away")
    cluster.now += 2
    triggers.forget("u")
    assert await triggers.parse(REF, spec) is first


@cases(
    ("malformed", {"address": "a"}),
    ("missing", {}),
)
async def test_a_wrong_variable_is_a_problem_until_its_config_map_is_corrected(
    wrong: dict[str, str], cluster: Cluster
) -> None:
    spec = body(trigger(None, address="", addressFromEnv="address"), env=())
    [container] = spec["spec"]["jobTargetRef"]["template"]["spec"]["containers"]
    container["envFrom"] = [{"configMapRef": {"name": "places"}}]
    cluster.config_map("places", **wrong)
    triggers = Triggers(lookups=cluster.lookups(seconds=30))
    assert "address" in str((await triggers.parse(REF, spec)).problem)
    cluster.config_map("places", address="a:1")
    cluster.now += 31
    assert (await triggers.parse(REF, spec)).problem is None


async def test_a_secret_that_is_gone_is_a_problem_until_it_is_back(cluster: Cluster) -> None:
    triggers = Triggers(lookups=cluster.lookups(seconds=30))
    await triggers.parse(REF, body(trigger()))
    kept = dict(cluster.objects)
    cluster.objects = {ref: each for ref, each in kept.items() if ref.name != "login" or ref.kind.kind != "Secret"}
    cluster.now += 31
    parsed = await triggers.parse(REF, body(trigger()))
    assert parsed.problem == (
        "trigger 0 (redis): TriggerAuthentication team/login: spec.secretTargetRef[0]: Secret team/login does not exist"
    )
    cluster.objects = kept
    assert password(await triggers.parse(REF, body(trigger()))) == "hunter2"


async def test_each_trigger_has_its_own_problem(cluster: Cluster) -> None:
    parsed = await Triggers(lookups=cluster.lookups()).parse(REF, body(trigger("a"), trigger(), trigger("b")))
    assert parsed.probes == ()
    assert parsed.problem == (
        "trigger 0 (redis): authenticationRef: TriggerAuthentication team/a does not exist; "
        "trigger 2 (redis): authenticationRef: TriggerAuthentication team/b does not exist"
    )


async def test_of_two_triggers_each_has_its_own_credentials(cluster: Cluster) -> None:
    cluster.secret("second", pw="swordfish")
    cluster.authentication("two", secretTargetRef=[{"parameter": "password", "name": "second", "key": "pw"}])
    parsed = await Triggers(lookups=cluster.lookups()).parse(REF, body(trigger(), trigger("two"), trigger(None)))
    scalers: list[Any] = [probe.scaler for probe in parsed.probes]
    texts = [scaler.password and scaler.password.get_secret_value() for scaler in scalers]
    assert texts == ["hunter2", "swordfish", None]


async def test_more_triggers_than_may_be_are_refused_unread(cluster: Cluster) -> None:
    wrong = [{"type": "redis", "metadata": {}, "authenticationRef": {"name": "login"}} for _ in range(10_000)]
    parsed = await Triggers(lookups=cluster.lookups()).parse(REF, body(*wrong))
    assert parsed == Parsed(problem="spec.triggers: there are 10000, at most 1000 are measured")
    assert not cluster.asked


async def test_of_very_many_problems_the_first_are_told(cluster: Cluster) -> None:
    wrong = [{"type": "redis", "metadata": {}} for _ in range(900)]
    problem = (await Triggers(lookups=cluster.lookups()).parse(REF, body(*wrong))).problem or ""
    assert problem.startswith("trigger 0 (redis): listName: is required; trigger 1 (redis): ")
    assert problem.endswith("; trigger 9 (redis): listName: is required; and 890 more")
    ten = (await Triggers(lookups=cluster.lookups()).parse(REF, body(*wrong[:10], uid="ten"))).problem or ""
    assert ten.endswith("; trigger 9 (redis): listName: is required")


async def test_a_ledger_that_is_no_trigger_is_the_objects_problem(cluster: Cluster) -> None:
    given = body(trigger(None))
    given["metadata"]["annotations"] = {LEDGER: "nonsense"}
    parsed = await Triggers(lookups=cluster.lookups()).parse(REF, given)
    assert parsed == Parsed(problem=f"annotation {LEDGER} must be a trigger as JSON")


async def test_others_have_their_turn_while_many_triggers_are_read(cluster: Cluster) -> None:
    reading = asyncio.create_task(Triggers(lookups=cluster.lookups()).parse(REF, body(*[trigger(None)] * 1000)))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await reading).probes) == 1000
    assert turns >= 1000 // 50


async def test_unknown_metadata_are_refused_or_ignored(cluster: Cluster) -> None:
    spec = body(trigger(None, metricName="was-read-once", colour="red"))
    assert "colour: is not a parameter" in str((await Triggers(lookups=cluster.lookups()).parse(REF, spec)).problem)
    assert (await Triggers(lookups=cluster.lookups(), quirks=["unknown-parameters"]).parse(REF, spec)).problem is None
    assert (await Triggers().parse(REF, body(trigger(None, metricName="was-read-once")))).problem is None


async def test_only_so_many_objects_are_remembered(cluster: Cluster) -> None:
    triggers = Triggers(lookups=cluster.lookups(), limit=3)
    for number in range(10):
        await triggers.parse(REF, body(trigger(), uid=f"u{number}"))
    assert list(triggers._known) == ["u9", "u1", "u2"]


async def test_of_more_objects_than_are_remembered_most_are_found_when_their_turn_comes() -> None:
    triggers = Triggers(limit=80)
    bodies = [body(trigger(None), uid=f"u{number}") for number in range(100)]
    for _ in range(10):
        found = 0
        for each in bodies:
            found += triggers.known(each) is not None
            await triggers.parse(REF, each)
    assert found >= 70


async def test_objects_that_are_gone_make_room_in_a_full_memory() -> None:
    triggers = Triggers(limit=10)
    for generation in ("gone", "here"):
        bodies = [body(trigger(None), uid=f"{generation}-{number}") for number in range(10)]
        for _ in range(40):
            for each in bodies:
                await triggers.parse(REF, each)
    assert all(triggers.known(each) is not None for each in bodies)


class Noted(Scaler):
    """Keeps what it is made from."""

    given: Trigger

    metric: ClassVar[str] = "noted"
    target: ClassVar[float] = 1.0

    @classmethod
    def parse(cls, trigger: Trigger) -> Self:
        return cls(given=trigger)


async def test_a_scaler_is_made_from_all_that_is_known_of_its_trigger(cluster: Cluster) -> None:
    registry = ScalerRegistry()
    registry.register("noted")(Noted)
    triggers = Triggers(
        registry, cluster.lookups(), broker="redis://ours", prefix="pen", quirks=["unset-variables", "average"]
    )
    login = {"name": "login"}
    spec = {"type": "noted", "name": "first", "metadata": {"urlFromEnv": "URL"}, "authenticationRef": login}
    env = [{"name": "URL", "value": "http://x"}, {"name": "T", "valueFrom": {
        "secretKeyRef": {"name": "none", "key": "k", "optional": True}}}]  # fmt: skip
    parsed = await triggers.parse(REF, body(spec, {"type": "noted"}, env=env))
    assert parsed.problem is None
    first, second = parsed.probes
    scaler: Any = first.scaler
    assert scaler.given == Trigger(
        index=0,
        type="noted",
        name="first",
        metadata={"urlFromEnv": "URL"},
        environment={"URL": "http://x"},
        absent=frozenset({"T"}),
        authentication={"password": "hunter2"},
        namespace="team",
        owner="work",
        kind="ScaledJob",
        broker="redis://ours",
        prefix="pen",
        quirks="average,unset-variables",
    )
    assert (first.name, first.type, str(first.source)) == ("s0-noted", "noted", "the source")
    assert (second.name, second.type) == ("s1-noted", "noted")
    assert first.source != second.source, "a scaler without a server is its trigger's alone"
    other = (await triggers.parse(REF, body({"type": "noted"}, {"type": "noted"}, uid="v"))).probes
    assert second.source not in {each.source for each in other}
    scaler = second.scaler
    assert (scaler.given.name, scaler.given.metadata, scaler.given.authentication) == ("", {}, {})


def test_a_server_is_one_source_for_each_way_to_ask_it() -> None:
    faulty, noted = Faulty(fault=""), Noted(given=Trigger(0, "noted"))
    assert SourceKey.of(faulty, "a") == SourceKey.of(Faulty(fault="none"), "b")
    assert SourceKey.of(faulty, "a") != SourceKey(Noted, "the server")
    assert SourceKey.of(noted, "a") != SourceKey.of(noted, "b")


async def test_a_type_of_metric_is_allowed_where_nothing_is_measured() -> None:
    cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
    assert (await Triggers().parse(REF, body(trigger(None), cpu))).problem is None


@cases(
    ("no type", ({"metadata": {}},), "trigger 0 (no type): type: is required"),
    ("none at all", (), "spec.triggers: there is no trigger"),
    (
        "a number", ({"type": "redis", "metadata": {"listName": "a", "listLength": 5}},),
        'trigger 0 (redis): listLength: must be a text; numbers and true or false need quotes: "5"',
    ),
    (
        "a name twice", ({**trigger(None), "name": "a"}, {**trigger(None), "name": "a"}),
        "spec.triggers: several triggers are named a; names must be unique",
    ),
)  # fmt: skip
async def test_what_is_wrong_with_triggers_is_told(specs: tuple[Object, ...], problem: str) -> None:
    assert (await Triggers().parse(REF, body(*specs))).problem == problem


@cases(
    ("none", None, [{"type": "redis"}]),
    ("a trigger", '{"type": "redis", "name": "a"}', [{"type": "redis", "name": "a"}]),
    ("no JSON", "{", None),
    ("no object", "[]", None),
)  # fmt: skip
def test_the_trigger_of_a_ledger_is_measured(annotation: str | None, found: list[Object] | None) -> None:
    given = body({"type": "redis"})
    given["metadata"]["annotations"] = {LEDGER: annotation} if annotation else {}
    if found is None:
        with pytest.raises(UserError, match=f"annotation {LEDGER} must be a trigger as JSON"):
            measured(given)
    else:
        assert list(measured(given)) == found


def test_a_version_tells_sets_of_triggers_apart() -> None:
    given = body({"type": "redis"}, generation=3)
    versions = [version(given)]
    for text in ('{"type": "redis"}', '{"type": "kafka"}'):
        given["metadata"]["annotations"] = {LEDGER: text}
        versions.append(version(given))
    assert versions[0] == "3"
    assert len(set(versions)) == 3
    assert all(each.startswith("3/") for each in versions[1:])
    assert version({"metadata": {}}) == "0"


async def test_an_object_that_was_just_used_is_not_forgotten_first() -> None:
    triggers = Triggers(limit=2)
    for uid in ("a", "b"):
        await triggers.parse(REF, body(trigger(None), uid=uid))
    assert triggers.known(body(trigger(None), uid="a")) is not None
    await triggers.parse(REF, body(trigger(None), uid="c"))
    assert [triggers.known(body(trigger(None), uid=uid)) is not None for uid in "abc"] == [True, False, True]
    assert triggers.known(body(trigger(None), uid="a", generation=2)) is None


class Faulty(Scaler):
    """Of another project: one of its properties raises."""

    fault: str = parameter()
    token: SecretStr = parameter(SecretStr("hunter2"))

    @property
    def metric(self) -> str:
        return self._or_raise("metric", "faulty")

    target: ClassVar[float] = 1.0

    @property
    def server(self) -> Hashable:
        return self._or_raise("server", "the server")

    @property
    def watched(self) -> tuple[Hashable, ...]:
        return self._or_raise("watched", ())

    @property
    def patience(self) -> float | None:
        return self._or_raise("patience", None)

    def _or_raise(self, name: str, value: Any) -> Any:
        if self.fault == f"{name} unhashable":
            return []
        if self.fault == name:
            raise ValueError(f"no port in hunter2's {name}")
        return value


@pytest.fixture
def triggers() -> Triggers:
    registry = ScalerRegistry()
    registry.register("faulty")(Faulty)
    return Triggers(registry)


@for_each("metric", "server", "watched", "patience")
async def test_a_property_of_a_scaler_that_raises_is_the_triggers_problem(name: str, triggers: Triggers) -> None:
    parsed = await triggers.parse(REF, body({"type": "faulty", "metadata": {"fault": name}}))
    told = "the server: " if name != "server" else ""
    assert parsed.problem == f"trigger 0 (faulty): {name}: {told}ValueError: no port in ***'s {name}"
    mended = body({"type": "faulty", "metadata": {"fault": "none"}}, generation=2)
    assert (await triggers.parse(REF, mended)).problem is None


async def test_a_server_that_cannot_be_a_key_is_the_triggers_problem(triggers: Triggers) -> None:
    parsed = await triggers.parse(REF, body({"type": "faulty", "metadata": {"fault": "server unhashable"}}))
    assert parsed.problem == "trigger 0 (faulty): server: TypeError: unhashable type: 'list'"
