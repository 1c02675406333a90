"""Every process works on a real API server with exactly the roles of deploy/, and uses every rule of them."""

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import redis.asyncio as redis
from grpc import aio

from deploy.manifests import rbac, volcano
from deploy.webhook.certificate_keeper import Keeper
from deploy.webhook.registration import Place
from scalers.sources.external.messages import GET_METRIC_SPEC, GET_METRICS, IS_ACTIVE, message
from tests.integration.controllers import role_scenario
from tests.integration.controllers.role_scenario import KINDS
from tests.support import audit
from tests.support.audit import Right
from tests.support.external_calls import call, reference, streaming
from tests.support.role_rig import GRANTS, PASSWORD, PROCESSES, WITHOUT_RIGHTS, Running, role_rig, without_right
from tests.support.tables import for_each
from tests.support.terminal import until
from workers.admission.admission_options import AdmissionOptions
from workers.api.kinds import Object
from workers.client.rest import Cluster

pytestmark = [pytest.mark.real_apiserver, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The processes at work, with everything of the scenario that was asked for up to now."""
    with role_rig(tmp_path_factory.mktemp("roles"), documents()) as found:
        yield found


@pytest.mark.usefixtures("scenario")
async def test_the_external_scaler_measures_without_a_right_and_says_what_it_cannot_measure(running: Running) -> None:
    host, password = f"127.0.0.1:{running.source.port}", {"passwordFromEnv": PASSWORD}
    asked = reference(trigger="redis", address=host, listName="measured", listLength="2", **password)
    async with (
        streaming(running.external, asked) as stream,
        redis.Redis(port=running.source.port, password=PASSWORD) as link,
    ):
        assert not (await stream.read()).result
        assert not (await call(running.external, IS_ACTIVE, asked)).result
        await link.rpush("measured", *range(3))
        assert (await stream.read()).result
    [spec] = (await call(running.external, GET_METRIC_SPEC, asked)).metricSpecs
    assert (spec.metricName, spec.targetSize) == ("redis-measured", 2)
    request = message("GetMetricsRequest")(scaledObjectRef=asked, metricName=spec.metricName)
    [value] = (await call(running.external, GET_METRICS, request)).metricValues
    assert value.metricValue == 3
    pods = reference(trigger="kubernetes-workload", podSelector="app=pool", value="1")
    with pytest.raises(aio.AioRpcError, match="there is no cluster to ask here"):
        await call(running.external, IS_ACTIVE, pods)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_kind_is_reconciled(kind: Callable[..., object], scenario: Mapping[str, "Future[None]"]) -> None:
    scenario[kind.__name__].result()


def documents() -> list[Object]:
    """Returns the objects of deploy/, with what an administrator grants in the namespace `default`.

    The external scaler has no account there: in one without rights it could at least ask.
    """
    without = {"apiVersion": "v1", "kind": "ServiceAccount"}
    without["metadata"] = {"namespace": "penstock", "name": "penstock-external-scaler"}
    return [*rbac.documents(GRANTS), *volcano.documents(ssh=("default",)), without]


async def _certificate_rotates(running: Running) -> None:
    """What the webhook does in two months, beside the one that runs."""
    place = Place("penstock", "hook", "https://127.0.0.1:1", match_conditions=False)
    options = AdmissionOptions(frozenset({"volcano"}), "default-scheduler", gangs=True)
    async with await Cluster.connect(kubeconfig=running.home.parent / "webhook.kubeconfig") as cluster:
        keeper = Keeper(cluster, place, options, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        for days in (0, 61, 62, 63):
            await keeper.keep(datetime.now(UTC) + timedelta(days=days))


def granted() -> dict[str, set[Right]]:
    """The rules of deploy/ by account, as rights."""
    found: dict[str, set[Right]] = {}
    roles, accounts = {}, {}
    for one in documents():
        if "rules" in one:
            roles[one["kind"], one["metadata"]["name"]] = one["rules"]
        elif "roleRef" in one:
            accounts[one["roleRef"]["kind"], one["roleRef"]["name"]] = one["subjects"][0]["name"]
    for key, account in accounts.items():
        for rule in roles[key]:
            found.setdefault(account, set()).update(
                Right(key[1], verb, group, resource)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            )
    return found


def covers(right: Right, one: Right) -> bool:
    if right.role not in ("", one.role) or right.verb != one.verb:
        return False
    plain = (right.group, right.resource) == (one.group, one.resource)
    return plain or (one.group == "*" and one.resource == f"*/{right.resource.rpartition('/')[2]}")


def test_no_request_is_refused(running: Running, scenario: Mapping[str, "Future[None]"]) -> None:
    wait(scenario.values())
    assert audit.refused(running.home) == {}
    # OwnerReferencesPermissionEnforcement refuses without a trace in the audit log.
    assert not [name for name, log in running.logs.items() if "blockOwnerDeletion" in log.read_text()]


def plain_job(running: Running, name: str) -> Callable[[], bool]:
    """Creates a Job. Returns a look at whether it is complete."""
    running.apply(role_scenario.body("Job", "batch/v1", name, spec={"template": role_scenario.template()}))
    return lambda: role_scenario.condition(running.read("jobs.batch", name), "Complete") == "True"


def scaled_job(running: Running, name: str) -> Callable[[], bool]:
    """Creates a ScaledJob of a list with items. Returns a look at whether one of its Jobs is complete."""
    spec = {"pollingInterval": 1, "maxReplicaCount": 1, "triggers": [role_scenario.trigger(running, name)]}
    spec["jobTargetRef"] = {"template": role_scenario.template()}
    made = role_scenario.body("ScaledJob", "keda.sh/v1alpha1", name, spec=spec)
    running.apply(*role_scenario.redis_trigger(running, name), made)
    return lambda: any(
        role_scenario.condition(job, "Complete") == "True"
        for job in running.find("jobs.batch", **{"scaledjob.keda.sh/name": name})
    )


def test_a_process_without_a_role_asks_the_api_server_for_nothing(
    running: Running, scenario: Mapping[str, "Future[None]"]
) -> None:
    wait(scenario.values())
    assert all(running.processes[name].poll() is None for name in WITHOUT_RIGHTS)
    assert audit.accounts(running.home) == {f"penstock-{name}" for name in PROCESSES}


@for_each(
    ("penstock-worker", "jobs", "create", scaled_job, "must allow: create jobs, API group batch"),
    ("penstock-worker", "jobs/finalizers", "update", plain_job, "cannot set blockOwnerDeletion"),
    ("penstock-scaler", "triggerauthentications", "get", scaled_job, "must allow: get triggerauthentications"),
)
def test_a_right_that_is_taken_away_is_named_and_its_work_is_done_once_it_is_back(
    account: str,
    resource: str,
    verb: str,
    happens: Callable[[Running, str], Callable[[], bool]],
    symptom: str,
    running: Running,
    scenario: Mapping[str, "Future[None]"],
) -> None:
    wait(scenario.values())
    name = f"without-{verb}-{resource.replace('/', '-')}"
    # The others would have the only Job of the limit again and again.
    running.patch("scalepolicies", "all", {"spec": {"maxJobs": 100}})

    def told() -> bool:
        conditions = running.find("scaledjobs") if happens is scaled_job else []
        texts = [log.read_text() for log in running.logs.values()] + [json.dumps(conditions)]
        # A text in a log is quoted once more.
        return any(symptom in text.replace('\\"', '"') for text in texts)

    assert not told()
    with without_right(running, account, resource, verb):
        done = happens(running, name)
        until(told, symptom, pause=0.4)
        assert not done()
    until(done, "the work that waited is done", pause=0.4)
    assert all(process.poll() is None for process in running.processes.values())


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_uses_every_rule_of_its_roles(
    process: str, running: Running, scenario: Mapping[str, "Future[None]"]
) -> None:
    wait(scenario.values())
    if process == "webhook":
        asyncio.run(_certificate_rotates(running))
    if process == "watch":
        # An older server logs a watch when it ends. This is the last test: without informers nothing goes on.
        running.end(process)
    account = f"penstock-{process}"

    served = running.serves_cron_jobs()

    def is_served(right: Right) -> bool:
        # CronJob in batch/v1 came with Kubernetes 1.21; on an older server its rules are not tested.
        return served or (right.group, right.resource.partition("/")[0]) != ("batch", "cronjobs")

    def unused() -> list[Right]:
        used = audit.used(running.home).get(account, set())
        return sorted(
            one for one in granted()[account] if is_served(one) and not any(covers(each, one) for each in used)
        )

    with suppress(AssertionError):
        until(lambda: not unused(), "every rule is used", 15, pause=0.5)
    assert unused() == []
