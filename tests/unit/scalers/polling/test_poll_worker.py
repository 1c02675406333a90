"""What a scaler process is made of follows its settings."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from deploy.processes import standalone
from scalers.auth.lookups import Lookups
from scalers.polling import poll_worker
from scalers.triggers.parse import Parsed
from tests.support.servers import answering
from tests.support.tables import cases
from tests.unit.scalers.cluster import Cluster
from tests.unit.scalers.triggers.test_parse import REF, body, trigger
from workers.api.kinds import SECRET, Object, Ref
from workers.cache import decode_cache
from workers.errors import UserError
from workers.runtime.health import Health
from workers.settings import Settings


class Served(Cluster):
    """Answers as a client of the API server does."""

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        return await self.post(method, path, body=body)


def lookups(cluster: Served, **settings: Any) -> Lookups:
    client: Any = cluster
    return poll_worker.lookups_of(Settings(**settings), client)


async def parsed(cluster: Served, *triggers: Object, **settings: Any) -> Parsed:
    told = Settings(**settings)
    vaults = poll_worker.vaults_of(told)
    parser = poll_worker.triggers_of(told, lookups(cluster, **settings), vaults)
    try:
        return await parser.parse(REF, body(*triggers))
    finally:
        await vaults.close()


@pytest.fixture
def served() -> Served:
    """An authentication names a Secret that is not there."""
    cluster = Served()
    cluster.authentication(secretTargetRef=[{"parameter": "password", "name": "gone", "key": "pw"}])
    return cluster


GONE = "trigger 0 (redis): TriggerAuthentication team/login: spec.secretTargetRef[0]: Secret team/gone does not exist"


@cases(
    ("as we do", (), GONE),
    ("another way of KEDA's", ("unset-variables",), GONE),
    ("KEDA's way", ("missing-secrets",), None),
)
async def test_a_missing_secret_is_what_the_quirks_make_of_it(
    quirks: tuple[str, ...], problem: str | None, served: Served
) -> None:
    found = await parsed(served, trigger(), keda_quirks=quirks)
    assert found.problem == problem
    assert len(found.probes) == (0 if problem else 1)


@cases(
    ("refused", (), "trigger 0 (redis): passwordFromEnv: names the variable PW, which"),
    ("measured without it", ("unset-variables",), None),
)
async def test_quirks_reach_the_triggers(quirks: tuple[str, ...], problem: str | None, served: Served) -> None:
    found = await parsed(served, trigger(None, passwordFromEnv="PW"), keda_quirks=quirks)
    assert found.problem is None if problem is None else (found.problem or "").startswith(problem)


@cases(("all EventJobs are followed", "", True), ("one may be hidden", "team=data", False))
async def test_deliveries_are_removed_where_a_missing_event_job_is_gone(
    selector: str, removes: bool, fake_redis: Redis
) -> None:
    found = poll_worker.removable_deliveries(Settings(selector=selector), fake_redis)
    assert (found is not None) is removes


async def test_more_triggers_than_the_setting_says_are_not_measured(served: Served) -> None:
    assert (await parsed(served, trigger(None), trigger(None), max_triggers=2)).problem is None
    found = await parsed(served, trigger(None), trigger(None), max_triggers=1)
    assert found.problem == "spec.triggers: there are 2, at most 1 are measured"


async def test_pushed_events_lie_in_penstocks_own_broker_under_its_prefix(served: Served) -> None:
    found = await parsed(served, {"type": "push", "metadata": {}}, broker="redis://127.0.0.1:7007/3", prefix="mine")
    [probe] = found.probes
    scaler: Any = probe.scaler
    assert str(scaler.server) == "127.0.0.1:7007/3"
    assert scaler.question.stream == "{mine}:events:team/work"


async def test_secrets_of_other_namespaces_are_read_unless_restricted(served: Served) -> None:
    served.secret("login", pw="hunter2")
    served.secret("login", "ours", pw="swordfish")
    assert await lookups(served).entries(Ref(SECRET, "team", "login")) == {"pw": "hunter2"}
    restricted = lookups(served, restrict_secrets=True, own_namespace="ours")
    with pytest.raises(UserError, match="only Secrets of namespace ours are"):
        await restricted.entries(Ref(SECRET, "team", "login"))
    assert await restricted.entries(Ref(SECRET, "ours", "login")) == {"pw": "swordfish"}


async def test_what_has_no_namespace_is_read_where_the_settings_allow_it(served: Served) -> None:
    served.authentication("all", "")
    [ref] = [each for each in served.objects if not each.kind.namespaced]
    assert await lookups(served).find(ref) is not None
    with pytest.raises(UserError, match="PENSTOCK_CLUSTER_SCOPED=false"):
        await lookups(served, cluster_scoped=False).find(ref)


async def test_tokens_come_from_the_api_server(served: Served) -> None:
    served.accounts["reader"] = "jwt-of-reader"
    assert await lookups(served).token("team", "reader") == "jwt-of-reader"


async def test_files_of_authentications_lie_in_the_folder_of_the_settings(served: Served, tmp_path: Path) -> None:
    (tmp_path / "login.json").write_text('{"password": "from a file"}')
    served.authentication("files", "", filePath="login.json")
    reference = {"name": "files", "kind": "ClusterTriggerAuthentication"}
    settings = Settings(auth_folder=tmp_path)
    vaults = poll_worker.vaults_of(settings)
    parser = poll_worker.triggers_of(settings, lookups(served), vaults)
    found = await parser.parse(REF, body({**trigger(None), "authenticationRef": reference}))
    await vaults.close()
    [probe] = found.probes
    scaler: Any = probe.scaler
    assert scaler.password.get_secret_value() == "from a file"


async def test_a_vault_that_does_not_answer_is_given_up_when_the_settings_say(served: Served) -> None:
    async def never(_: Any) -> Any:
        await asyncio.Event().wait()

    async with answering(never) as url:
        served.authentication(
            hashiCorpVault={
                "address": url,
                "authentication": "token",
                "credential": {"token": "s.hunter2"},
                "secrets": [{"parameter": "password", "path": "kv/login", "key": "pw"}],
            }
        )
        found = await parsed(served, trigger(), source_timeout=0.05)
    assert "no answer within 0.05 s" in (found.problem or "")


class _OpenedError(Exception):
    """The services of the broker were asked for. Its text: the bytes of values to keep decoded."""


@cases(
    ("a scaler", "scalers.polling.poll_worker.broker_services", lambda: _entered(poll_worker.measuring)),
    ("a standalone process", "workers.wiring.broker_services", lambda: standalone.serve(Settings(), Health())),
)
async def test_a_scaler_keeps_more_than_a_worker(
    opener: str, begin: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, kept: int = decode_cache.SIZE, **__: Any) -> Any:
        raise _OpenedError(str(kept))

    monkeypatch.setattr(opener, refuse)
    with pytest.raises(_OpenedError, match=str(4 * decode_cache.SIZE)):
        await begin()


async def _entered(measuring: Callable[..., AbstractAsyncContextManager[Any]]) -> None:
    async with measuring(Settings(), Health()):
        pass
