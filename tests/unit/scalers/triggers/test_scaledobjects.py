"""Triggers of ScaledObjects: what pauses them, and the environment that their targets supply."""

from typing import Any

import pytest

from scalers.triggers.parse import Parsed, Triggers, is_polled
from tests.support.tables import cases
from tests.unit.scalers.cluster import Cluster
from workers.api.kinds import SCALED_JOB, SCALED_OBJECT, Kind, Object, Ref
from workers.errors import Forbidden, Unavailable

REF = Ref(SCALED_OBJECT, "team", "work")
POOL = Ref(Kind("apps", "v1", "Deployment", "deployments"), "team", "pool")
APPS = {
    "resources": [
        {"name": name, "kind": "Deployment", "namespaced": True} for name in ("deployments", "deployments/scale")
    ]
}


class Served(Cluster):
    """A cluster that also says what it serves."""

    async def post(self, method: str, path: str, *, body: Any = None) -> Any:
        if path == "/apis/apps/v1" and not self.down:
            self.asked.append(path)
            return APPS
        return await super().post(method, path, body=body)

    def deployment(self, *containers: Object) -> None:
        """Put the target there."""
        self.objects[POOL] = {"spec": {"template": {"spec": {"containers": list(containers)}}}}


@pytest.fixture
def cluster() -> Served:
    cluster = Served()
    cluster.deployment(
        {"name": "main", "env": [{"name": "HOST", "value": "main:1"}]},
        {"name": "side", "env": [{"name": "HOST", "value": "side:1"}]},
    )
    return cluster


def body(of: Kind = SCALED_OBJECT, annotations: Object | None = None, **target: str) -> Object:
    trigger = {"type": "redis", "metadata": {"addressFromEnv": "HOST", "listName": "work"}, "metricType": "Value"}
    metadata = {"namespace": "team", "name": "work", "uid": "u", "generation": 1, "annotations": annotations or {}}
    return {
        "kind": of.kind,
        "metadata": metadata,
        "spec": {"scaleTargetRef": {"name": "pool", **target}, "triggers": [trigger]},
    }


def address(parsed: Parsed) -> str:
    [probe] = parsed.probes
    return str(probe.source.server)


async def test_variables_come_from_the_first_container_of_the_target(cluster: Served) -> None:
    assert "main:1" in address(await Triggers(lookups=cluster.lookups()).parse(REF, body()))


async def test_or_from_the_one_that_is_named(cluster: Served) -> None:
    found = await Triggers(lookups=cluster.lookups()).parse(REF, body(envSourceContainerName="side"))
    assert "side:1" in address(found)


async def test_an_authentication_may_name_variables_of_the_target(cluster: Served) -> None:
    cluster.authentication(env=[{"parameter": "address", "name": "HOST"}])
    trigger = {"type": "redis", "metadata": {"listName": "work"}, "authenticationRef": {"name": "login"}}
    object_ = body()
    object_["spec"]["triggers"] = [trigger]
    assert "main:1" in address(await Triggers(lookups=cluster.lookups()).parse(REF, object_))


@cases(("missing", None), ("forbidden", Forbidden("you may not", status=403)))
async def test_an_unknown_trigger_type_is_told_beside_a_target_that_lacks_variables(
    down: Exception | None, cluster: Served
) -> None:
    cluster.down = down
    object_ = body(name="other")
    object_["spec"]["triggers"] += [{"type": "ibmmq", "metadata": {}}, {"type": "reddis", "metadata": {}}]
    problem = str((await Triggers(lookups=cluster.lookups()).parse(REF, object_)).problem)
    assert ("you may not" if down else "no container") in problem
    assert "trigger 1 (ibmmq): trigger type ibmmq is not supported" in problem
    assert "trigger 2 (reddis): there is no trigger type reddis" in problem


async def test_the_target_is_not_asked_for_when_nothing_of_it_is_needed(cluster: Served) -> None:
    object_ = body()
    object_["spec"]["triggers"] = [{"type": "redis", "metadata": {"address": "a:1", "listName": "work"}}]
    assert (await Triggers(lookups=cluster.lookups()).parse(REF, object_)).problem is None
    assert cluster.asked == []


@cases(
    ("no such target", {"name": "other"}, None, "no container"),
    ("no such kind", {"kind": "Crane"}, None, "no container"),
    ("not allowed", {}, Forbidden("you may not", status=403), "you may not"),
    ("away", {}, Unavailable("away"), "away"),
)
async def test_a_target_without_variables_is_a_problem(
    target: dict[str, str], down: Any, problem: str, cluster: Served
) -> None:
    cluster.down = down
    found = await Triggers(lookups=cluster.lookups()).parse(REF, body(**target))
    assert problem in str(found.problem)


async def test_while_the_cluster_is_away_the_last_variables_go_on(cluster: Served) -> None:
    triggers = Triggers(lookups=cluster.lookups(seconds=30))
    first = await triggers.parse(REF, body())
    triggers.forget("u")
    cluster.now += 31
    cluster.down = Unavailable("away")
    assert await triggers.parse(REF, body()) is first


@cases(
    ("nothing said", SCALED_OBJECT, {}, True),
    ("paused", SCALED_OBJECT, {"paused": "true"}, False),
    ("not paused", SCALED_OBJECT, {"paused": "false"}, True),
    ("paused at a number", SCALED_OBJECT, {"paused": "false", "paused-replicas": "2"}, False),
    ("at no number", SCALED_OBJECT, {"paused-replicas": "many"}, False),
    ("one direction only", SCALED_OBJECT, {"paused-scale-in": "true"}, True),
    ("without meaning for a ScaledJob", SCALED_JOB, {"paused-replicas": "2"}, True),
)
def test_what_is_polled(kind: Kind, annotations: dict[str, str], polled: bool) -> None:
    keys = {f"autoscaling.keda.sh/{key}": value for key, value in annotations.items()}
    assert is_polled(body(kind, keys)) == polled
