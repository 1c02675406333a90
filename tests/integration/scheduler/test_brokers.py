"""Real brokers with TLS, behind sentinels and as a cluster: what one client can do, Celery's can."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import kombu
import pytest
import pytest_asyncio
from celery import Celery
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

from scheduler.broker import address, celery_transport, clients
from scheduler.broker.address import BrokerAddress
from scheduler.keys import Keys
from scheduler.queue import Done, Lane
from tests.support.broker_servers import Certificates, Trio, certificates, options, tls_front, trio
from tests.support.conditions import eventually
from tests.support.ports import free_port
from tests.support.tables import cases
from tests.support.valkeys import LONG, Cluster, ValkeyServer, cluster

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240), pytest.mark.broker]


@contextmanager
def messages(url: str, **more: Any) -> Iterator[kombu.Connection]:
    """A connection of kombu, as Celery makes it of Penstock's settings."""
    options = celery_transport.celery_options(address.parse(url))
    transport_options = {
        "global_keyprefix": "{penstock}:celery:",
        "socket_timeout": 5,
        "socket_connect_timeout": 3,
        "client_name": "penstock",
        **options["broker_transport_options"],
        **more,
    }
    app = Celery("test", set_as_current=False)
    app.conf.update(**{**options, "broker_transport_options": transport_options})
    with app.connection_for_write() as connection:
        yield connection


def exchanged(url: str) -> bool:
    """Sends a message by kombu and receives it."""
    with messages(url) as connection, connection.SimpleQueue("bell") as queue:
        queue.put({"n": 1})
        message = queue.get(timeout=10)
        message.ack()
        return bool(message.payload == {"n": 1})


# --- TLS


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls(files: Certificates, redis_server: str) -> Iterator[str]:
    with tls_front(files, urlsplit(redis_server).port or 6379) as port:
        yield f"rediss://127.0.0.1:{port}/0"


async def test_a_certificate_of_the_named_server_is_accepted_from_both_clients(tls: str, files: Certificates) -> None:
    url = tls + options(files, ssl_server_name="broker.example")
    async with clients.client(url) as client:
        assert await client.ping()
    assert exchanged(url)


@cases(
    ("no server name", {}, "certificate is not valid for|IP address mismatch|doesn't match"),
    ("another name", {"ssl_server_name": "other.example"}, "not valid for 'other.example'|match"),
)
async def test_a_certificate_of_another_name_is_refused_by_both_clients(
    more: dict[str, str], complaint: str, tls: str, files: Certificates
) -> None:
    url = tls + options(files, **more)
    async with clients.client(url) as client:
        with pytest.raises(exceptions.ConnectionError, match=complaint):
            await client.ping()
    with pytest.raises(kombu.exceptions.OperationalError, match=complaint), messages(url) as connection:
        connection.default_channel.client.ping()


async def test_an_authority_that_is_not_trusted_is_refused_and_none_verifies_nothing(
    tls: str, files: Certificates
) -> None:
    of_client = f"?ssl_certfile={files.cert}&ssl_keyfile={files.key}"
    for more, works in (("", False), ("&ssl_check_hostname=false", False), ("&ssl_cert_reqs=none", True)):
        async with clients.client(tls + of_client + more) as client:
            if works:
                assert await client.ping()
                assert exchanged(tls + of_client + more)
                continue
            with pytest.raises(exceptions.ConnectionError, match="certificate verify failed"):
                await client.ping()


async def test_without_its_certificate_a_client_is_refused(tls: str, files: Certificates) -> None:
    url = f"{tls}?ssl_ca_certs={files.ca}&ssl_server_name=broker.example"
    async with clients.client(url) as client:
        with pytest.raises(exceptions.ConnectionError):
            await client.ping()


# --- a cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


async def test_a_cluster_holds_a_lane_and_celerys_messages_whatever_node_is_asked_first(nodes: Cluster) -> None:
    for master in nodes.masters:
        url = f"redis://127.0.0.1:{master.port}?cluster=true"
        async with clients.client(url) as client:
            lane = Lane(client, "reconcile", Keys())
            await lane.mark(["a/b"])
            await lane.open()
            [lease] = (await lane.claim(1)).leases
            assert lease.key == "a/b"
            await lane.finish([(lease, Done())])
        assert exchanged(url)


async def test_a_node_that_lost_our_slot_counts_as_gone_and_the_owner_is_asked_for_again(
    nodes: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, found = nodes.masters[0].port, []
    discover = clients.discover

    async def outdated(at: BrokerAddress) -> tuple[str, int]:
        found.append(await discover(at))
        others = [master.port for master in nodes.masters if master.port != found[-1][1]]
        return ("127.0.0.1", others[0]) if len(found) == 1 else found[-1]

    monkeypatch.setattr(clients, "discover", outdated)
    retry = Retry(ConstantBackoff(0.01), 3)
    async with clients.client(f"redis://127.0.0.1:{first}?cluster=true", retry=retry) as client:
        assert await client.set("{penstock}:here", "1")
    assert len(found) == 2


async def test_a_node_without_our_slot_says_how_to_name_a_cluster(nodes: Cluster) -> None:
    answers = []
    for master in nodes.masters:
        async with clients.client(f"redis://127.0.0.1:{master.port}") as client:
            answers += await asyncio.gather(client.get("{penstock}:generation"), return_exceptions=True)
    refusals = [str(answer) for answer in answers if isinstance(answer, exceptions.ResponseError)]
    assert len(refusals) == 2
    assert all("cluster=true" in each for each in refusals)


# --- servers that take no writes


@cases(("no memory", "maxmemory", "1", "0"), ("too few replicas", "min-replicas-to-write", "1", "0"))
async def test_a_server_that_takes_no_writes_is_away_for_celery_until_it_does(
    setting: str, without: str, again: str
) -> None:
    with ValkeyServer(config={"save": ""}) as server:
        url = f"{server.connection_url}/0"
        async with clients.client(url) as client:
            with messages(url) as connection:
                await client.config_set(setting, without)
                with pytest.raises(connection.connection_errors, match="refuses to write"):
                    connection.connect()
                await client.config_set(setting, again)
        assert exchanged(url)


async def test_a_server_that_takes_no_writes_any_more_is_away_for_a_worker_that_waits() -> None:
    with ValkeyServer(config={"save": ""}) as server:
        url = f"{server.connection_url}/0"
        async with clients.client(url) as client:
            with messages(url) as connection, connection.SimpleQueue("bell") as queue:
                await client.config_set("min-replicas-to-write", "1")
                with pytest.raises(connection.connection_errors, match="refuses to write"):
                    queue.get(timeout=5)
                await client.config_set("min-replicas-to-write", "0")


async def test_a_master_that_is_demoted_is_away_for_a_worker_that_waits() -> None:
    with ValkeyServer(config={"save": ""}) as server:
        url = f"{server.connection_url}/0"
        async with clients.client(url) as client:
            with messages(url) as connection, connection.SimpleQueue("bell") as queue:
                waiting = asyncio.create_task(asyncio.to_thread(queue.get, timeout=30))

                async def waits() -> bool:
                    return bool((await client.info("clients"))["blocked_clients"])

                await eventually(waits)
                await client.replicaof("127.0.0.1", free_port())
                with pytest.raises(connection.connection_errors, match="is not the master"):
                    await waiting


# --- sentinels


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Trio]:
    async with trio(tmp_path_factory.mktemp("sentinels")) as made:
        yield made


async def test_the_master_that_sentinels_name_is_used_by_both_clients(watched: Trio) -> None:
    async with clients.client(watched.url) as client:
        await client.set("{penstock}:here", "1")
        assert await watched.master.client.get("{penstock}:here") == b"1"
    assert exchanged(watched.url)


async def test_a_wrong_password_is_named_and_not_shown(watched: Trio) -> None:
    for wrong, right in (("hunter3", "hunter2"), ("swordfist", "swordfish")):
        async with clients.client(watched.url.replace(right, wrong)) as client:
            with pytest.raises(exceptions.ConnectionError) as caught:
                await client.ping()
        for secret in (wrong, right):
            assert secret not in f"{caught.value} {caught.value!r}"


async def test_a_replica_that_is_taken_for_the_master_counts_as_gone(watched: Trio) -> None:
    async with clients.client(f"redis://:hunter2@127.0.0.1:{watched.replica.port}") as client:
        with pytest.raises(exceptions.ConnectionError, match="is not the master"):
            await client.set("{penstock}:here", "2")
        with pytest.raises(exceptions.ConnectionError, match="is not the master"):
            await Lane(client, "poll", Keys()).mark(["a/b"])


async def test_a_replica_that_an_outdated_sentinel_names_is_not_read(
    watched: Trio, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    discover = clients.discover

    async def outdated(at: BrokerAddress) -> tuple[str, int]:
        asked.append(1)
        return ("127.0.0.1", watched.replica.port) if len(asked) == 1 else await discover(at)

    monkeypatch.setattr(clients, "discover", outdated)
    async with clients.client(watched.url, retry=Retry(ConstantBackoff(0.01), 3)) as client:
        assert (await client.info("replication"))["role"] == "master"
    assert len(asked) == 2


@pytest.fixture
def secured(watched: Trio, files: Certificates) -> Iterator[str]:
    """The URL of sentinels that speak TLS, and name a server that does."""
    with ExitStack() as fronts:
        master = fronts.enter_context(tls_front(files, watched.master.port))
        named = {watched.master.port: master}
        ports = [fronts.enter_context(tls_front(files, each.port, named)) for each in watched.sentinels]
        places = ",".join(f"127.0.0.1:{port}" for port in ports)
        login = "master=mymaster&sentinel_password=swordfish&ssl=true"
        secrets = options(files, ssl_server_name="broker.example").removeprefix("?")
        yield f"sentinel://:hunter2@{places}/0?{login}&{secrets}"


async def test_sentinels_and_servers_speak_tls(watched: Trio, secured: str) -> None:
    async with clients.client(secured) as client:
        await client.set("{penstock}:here", "3")
        assert await watched.master.client.get("{penstock}:here") == b"3"
    assert await asyncio.to_thread(exchanged, secured)
    for wrong in (secured.replace("broker.example", "other.example"), f"{secured}&sentinel_ssl=false"):
        async with clients.client(wrong) as client:
            with pytest.raises(exceptions.ConnectionError):
                await client.ping()


async def test_after_a_failover_both_clients_go_on_with_what_the_replica_acknowledged(watched: Trio) -> None:
    """The last test of these servers."""
    async with clients.client(watched.url) as client:
        lane = Lane(client, "reconcile", Keys())
        await lane.open()
        await lane.mark([f"ns/{n}" for n in range(50)])
        before = await lane.claim(10)
        with messages(watched.url) as connection, connection.SimpleQueue("bell") as queue:
            queue.put({"n": 7})
            assert await client.wait(1, 5000) == 1
            watched.master.kill()

            async def again() -> bool:
                try:
                    return bool(await client.ping())
                except exceptions.ConnectionError:
                    return False

            await eventually(again, LONG)
            message = connection.ensure(queue, queue.get, max_retries=20, interval_start=0.2)(timeout=10)
            assert message.payload == {"n": 7}
            message.ack()
        # Another server answers: a new generation, whose claims wait until every lease from before has passed.
        after = await lane.claim(10)
        assert not after.leases
        assert after.opens
        assert (await lane.stats()).ready == 40
        assert (await lane.stats()).leased == len(before.leases)
