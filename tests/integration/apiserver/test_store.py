"""The store: a restart loses nothing, watchers go on, and there is one writer."""

import signal
import threading
from itertools import islice
from pathlib import Path

import pytest
import redis
import urllib3

from deploy.local.apiserver.storage.object_store import ObjectStoreKeys
from tests.integration.apiserver.client import DEFINITIONS, Api, config_map, custom, definition, job, owned_by, until
from tests.support.embedded import Embedded, embedded_apiserver
from tests.support.tables import cases
from tests.support.valkeys import ValkeyServer

WIDGET = custom("Widget", "w")
WIDGETS = "/apis/test.penstock.dev/v1/namespaces/default/widgets"


def test_a_restart_after_a_crash_loses_nothing_and_stays_where_it_was(own: Embedded) -> None:
    api = Api(own.kubeconfig)
    made = api.create(api.jobs, job())
    api.create(DEFINITIONS, definition("widgets"))
    widget = api.create(WIDGETS, WIDGET)
    address, token = own.url, own.token
    own.kill()
    own.start()
    assert (own.url, own.token) == (address, token)
    assert api.get(f"{api.jobs}/crunch").body == made
    assert api.get(f"{WIDGETS}/w").body == widget
    after = api.create(api.jobs, job("next"))
    assert int(after["metadata"]["resourceVersion"]) > int(widget["metadata"]["resourceVersion"])


def test_every_answered_write_survives_a_kill(own: Embedded) -> None:
    api = Api(own.kubeconfig)
    answered: list[str] = []
    refused = threading.Event()

    def write(worker: int) -> None:
        mine = Api(own.kubeconfig)
        number = 0
        while not refused.is_set():
            name = f"m-{worker}-{number}"
            try:
                mine.create(mine.maps, config_map(name))
            except Exception:
                refused.set()
                return
            answered.append(name)
            number += 1

    workers = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    until(lambda: len(answered) > 100, "a hundred writes")
    own.kill()
    for worker in workers:
        worker.join(10)
    own.start()
    found = {item["metadata"]["name"] for item in api.get(api.maps).body["items"]}
    assert set(answered) <= found
    assert len(found - set(answered)) <= len(workers)


@cases(("has seen everything", False), ("has missed something", True))
def test_a_watcher_resumes_after_a_restart_or_is_told_to_list(missed: bool, own: Embedded) -> None:
    api = Api(own.kubeconfig)
    version = api.create(api.jobs, job("one"))["metadata"]["resourceVersion"]
    api.create(*((api.jobs, job("two")) if missed else (api.maps, config_map())))
    own.kill()
    own.start()
    with api.watch(api.jobs, resourceVersion=version) as events:
        api.create(api.jobs, job("three"))
        (event,) = islice(events, 1)
    if missed:
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    else:
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "three")


def test_dependents_orphaned_by_a_crash_are_collected_at_the_start(own: Embedded) -> None:
    api = Api(own.kubeconfig)
    owner = api.create(api.maps, config_map("owner"))
    api.create(api.maps, config_map("child", **owned_by(owner)))
    own.kill()
    keys = ObjectStoreKeys()
    with redis.Redis.from_url(own.store) as broker:
        broker.hdel(keys.objects("configmaps"), "default/owner")
    own.start()
    until(lambda: api.get(f"{api.maps}/child").code == 404, "the child is gone")


def test_a_broker_that_was_emptied_under_a_running_server_is_filled_again(own: Embedded) -> None:
    api = Api(own.kubeconfig)
    old = api.create(api.jobs, job())
    with redis.Redis.from_url(own.store) as broker:
        broker.flushall()
    api.create(api.maps, config_map())
    own.kill()
    own.start()
    assert api.get(f"{api.jobs}/crunch").body == old
    assert api.get(f"{api.maps}/one").code == 200


def test_an_empty_store_does_not_repeat_versions(own: Embedded) -> None:
    api = Api(own.kubeconfig)
    old = api.create(api.jobs, job())["metadata"]["resourceVersion"]
    own.kill()
    with redis.Redis.from_url(own.store) as broker:
        broker.flushall()
    own.start()
    assert api.get(f"{api.jobs}/crunch").code == 404
    assert int(api.get(api.jobs).version) > int(old)
    with api.watch(api.jobs, resourceVersion=old) as events:
        (event,) = islice(events, 1)
    assert event["object"]["code"] == 410


def test_a_second_server_on_the_same_store_displaces_the_first(own: Embedded, tmp_path: Path) -> None:
    first = Api(own.kubeconfig)
    first.create(first.jobs, job())
    with embedded_apiserver(tmp_path / "second", own.store) as other:
        second = Api(other.kubeconfig)
        assert second.get(f"{second.jobs}/crunch").code == 200
        second.create(second.maps, config_map())
        with pytest.raises((AssertionError, urllib3.exceptions.HTTPError)):
            first.create(first.maps, config_map("late"))
        process = own.process
        assert process is not None
        until(lambda: process.poll() is not None, "the first server has ended")
        assert "another API server writes to the same store" in own.output
        assert second.get(f"{second.maps}/late").code == 404


def test_writes_wait_for_a_broker_that_hangs_and_reads_do_not(tmp_path: Path) -> None:
    with (
        ValkeyServer(config={"save": ""}) as broker,
        embedded_apiserver(tmp_path / "own", f"{broker.connection_url}/0") as own,
    ):
        api = Api(own.kubeconfig)
        api.create(api.maps, config_map("before"))
        process = broker._process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        codes: list[int] = []
        writer = threading.Thread(target=lambda: codes.append(Api(own.kubeconfig)("POST", api.maps, config_map()).code))
        try:
            writer.start()
            assert api.get(f"{api.maps}/before").code == 200
            assert api.get(f"{api.maps}/one").code == 404
            assert not codes
        finally:
            process.send_signal(signal.SIGCONT)
        writer.join(20)
        assert codes == [201]
        assert api.get(f"{api.maps}/one").code == 200
