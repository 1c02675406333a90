"""A parameter that is to come from a variable which the container does not set is refused, not left out in silence."""

from typing import Any

from scalers.triggers.parse import Triggers
from tests.support.tables import cases
from tests.unit.scalers.cluster import Cluster
from tests.unit.scalers.triggers.test_parse import REF, body, trigger
from tests.unit.scalers.triggers.test_scaledobjects import REF as POOL
from tests.unit.scalers.triggers.test_scaledobjects import Served
from tests.unit.scalers.triggers.test_scaledobjects import body as scaled_object

REFUSED = (
    "trigger 0 (redis): passwordFromEnv: names the variable PW, which the container does not set, or only once it runs"
)


def from_secret(**more: Any) -> dict[str, Any]:
    return {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "login", "key": "none", **more}}}


@cases(
    ("not set", [], None, REFUSED, None),
    ("set", [{"name": "PW", "value": "hush"}], None, None, "hush"),
    ("set to nothing", [{"name": "PW", "value": ""}], None, None, None),
    ("another one is set", [{"name": "OTHER", "value": "hush"}], None, REFUSED, None),
    ("not set, and supplied by the authentication", [], "login", None, "hunter2"),
    ("of a key that may be missing", [from_secret(optional=True)], None, None, None),
    ("no such key", [from_secret()], None, "container main: env PW: Secret team/login has no key none", None),
    (
        "known only once the pod runs",
        [{"name": "PW", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        None,
        REFUSED,
        None,
    ),
)
async def test_a_password_from_a_variable(
    env: list[Any], authentication: str | None, problem: str | None, password: str | None, cluster: Cluster
) -> None:
    spec = body(trigger(authentication, passwordFromEnv="PW"), env=env)
    parsed = await Triggers(lookups=cluster.lookups()).parse(REF, spec)
    assert parsed.problem == problem
    scalers: list[Any] = [probe.scaler for probe in parsed.probes]
    assert [each.password and each.password.get_secret_value() for each in scalers] == ([] if problem else [password])


async def test_kedas_way_measures_without_it(cluster: Cluster) -> None:
    parsed = await Triggers(lookups=cluster.lookups(), quirks=["unset-variables"]).parse(
        REF, body(trigger(None, passwordFromEnv="PW"))
    )
    [probe] = parsed.probes
    scaler: Any = probe.scaler
    assert (parsed.problem, scaler.password) == (None, None)


async def test_a_workload_that_sets_it_later_is_measured_from_then_on() -> None:
    served = Served()
    served.deployment({"name": "main", "env": []})
    triggers = Triggers(lookups=served.lookups())
    assert "HOST, which the container does not set" in str((await triggers.parse(POOL, scaled_object())).problem)
    served.deployment({"name": "main", "env": [{"name": "HOST", "value": "late:1"}]})
    served.now += 60
    parsed = await triggers.parse(POOL, scaled_object())
    assert parsed.problem is None
    assert "late:1" in str(parsed.probes[0].source.server)
