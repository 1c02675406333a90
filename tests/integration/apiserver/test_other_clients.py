"""Clients that others wrote for Python work against the embedded server: kr8s, lightkube, kopf.

The official client has a module of its own (test_python_client.py).
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apiserver.client import DEFINITIONS, MERGE, PATIENCE, Api, custom, definition, job, until
from tests.support.embedded import Embedded

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": {"a": "b"}}, "data": {"k": "v"}}


class TestKr8s:
    """kr8s, asynchronous."""

    @pytest.fixture
    async def api(self, embedded: Embedded, ours: Api) -> AsyncIterator[Any]:
        kr8s = pytest.importorskip("kr8s.asyncio", reason="kr8s is not installed: NOT tested with it")
        api = await kr8s.api(kubeconfig=str(embedded.kubeconfig), namespace=ours.namespace)
        yield api
        # It has no close of its own.
        if api._session is not None:
            await api._session.aclose()

    async def test_objects_are_made_changed_listed_and_deleted(self, api: Any) -> None:
        from kr8s.asyncio.objects import ConfigMap

        one = await ConfigMap(MAP, api=api)
        await one.create()
        await one.patch({"data": {"k": "w"}})
        await one.label({"c": "d"})
        found = [(each.name, each.data.k) async for each in api.get("configmaps", label_selector="a=b,c=d")]
        assert found == [("one", "w")]
        await one.delete()
        await one.wait("delete", timeout=PATIENCE)
        assert not await one.exists()

    async def test_a_watch_sees_changes(self, api: Any) -> None:
        from kr8s.asyncio.objects import ConfigMap

        one = await ConfigMap(MAP, api=api)
        await one.create()
        seen = []
        async with asyncio.timeout(PATIENCE):
            async with contextlib.aclosing(api.watch("configmaps")) as events:
                async for event, each in events:
                    seen.append((event, each.name))
                    if event == "DELETED":
                        break
                    await one.delete()
        assert seen == [("ADDED", "one"), ("DELETED", "one")]

    async def test_custom_resources_are_made_and_listed(self, api: Any, ours: Api) -> None:
        from kr8s.asyncio.objects import new_class

        ours.create(DEFINITIONS, definition("spools"))
        crank = new_class("Spool", version="test.penstock.dev/v1", plural="spools", asyncio=True, namespaced=True)
        one = await crank(custom("Spool", "c", spec={"turns": 2}), api=api)
        await one.create()
        assert [each.spec.turns async for each in api.get("spools.test.penstock.dev")] == [2]

    async def test_finished_jobs_are_seen(self, api: Any, ours: Api) -> None:
        from kr8s.asyncio.objects import Job

        one = await Job(job(), api=api)
        await one.create()
        assert (await Job.get("crunch", api=api)).raw["spec"]["parallelism"] == 1


class TestLightkube:
    """lightkube, synchronous."""

    @pytest.fixture
    def client(self, embedded: Embedded, ours: Api) -> Iterator[Any]:
        lightkube = pytest.importorskip("lightkube", reason="lightkube is not installed: NOT tested with it")
        config = lightkube.KubeConfig.from_file(str(embedded.kubeconfig))
        client = lightkube.Client(config=config, namespace=ours.namespace, field_manager="me")
        yield client
        client.close()

    def test_objects_are_made_changed_listed_and_deleted(self, client: Any) -> None:
        from lightkube.core.exceptions import ApiError
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap

        made = client.create(ConfigMap(metadata=ObjectMeta(name="one", labels={"a": "b"}), data={"k": "v"}))
        made.data["k"] = "w"
        assert client.replace(made).data == {"k": "w"}
        with pytest.raises(ApiError) as refused:
            client.replace(made)
        assert (refused.value.status.code, refused.value.status.reason) == (409, "Conflict")
        assert client.patch(ConfigMap, "one", {"data": {"l": "x"}}).data == {"k": "w", "l": "x"}
        assert [each.metadata.name for each in client.list(ConfigMap, labels={"a": "b"})] == ["one"]
        client.delete(ConfigMap, "one")
        with pytest.raises(ApiError) as gone:
            client.get(ConfigMap, "one")
        assert gone.value.status.code == 404

    def test_server_side_apply_removes_what_is_no_longer_applied_and_tells_of_conflicts(self, client: Any) -> None:
        from lightkube.core.exceptions import ApiError
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap

        def wanted(**data: str) -> Any:
            return ConfigMap(metadata=ObjectMeta(name="one"), data=data)

        client.apply(wanted(a="1", b="2"))
        assert client.apply(wanted(a="1")).data == {"a": "1"}
        with pytest.raises(ApiError) as conflict:
            client.apply(wanted(a="3"), field_manager="another")
        assert conflict.value.status.code == 409
        assert client.apply(wanted(a="3"), field_manager="another", force=True).data == {"a": "3"}

    def test_custom_resources_are_applied_with_their_status(self, client: Any, ours: Api) -> None:
        from lightkube.generic_resource import create_namespaced_resource

        ours.create(DEFINITIONS, definition("winchs"))
        winch = create_namespaced_resource("test.penstock.dev", "v1", "Winch", "winchs")
        made = client.apply(winch(custom("Winch", "w", spec={"turns": 2})))
        assert made.spec["turns"] == 2
        status = winch.Status({**custom("Winch", "w"), "status": {"turned": 1}})
        assert client.apply(status).status == {"turned": 1}
        assert client.get(winch, "w").to_dict()["spec"] == {"turns": 2}

    def test_a_watch_begins_with_what_is_there(self, client: Any) -> None:
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap

        client.create(ConfigMap(metadata=ObjectMeta(name="one")))
        seen = []
        with contextlib.closing(client.watch(ConfigMap, server_timeout=int(PATIENCE))) as events:
            for event, each in events:
                seen.append((event, each.metadata.name))
                if event == "DELETED":
                    break
                client.delete(ConfigMap, "one")
        assert seen == [("ADDED", "one"), ("DELETED", "one")]


@contextlib.contextmanager
def operating(kopf: Any, registry: Any, kubeconfig: Path, namespace: str) -> Iterator[None]:
    """Runs an operator in a thread of its own."""
    ready, stop = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(
                kopf.operator(
                    registry=registry, namespaces=[namespace], standalone=True, ready_flag=ready, stop_flag=stop
                )
            )
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert not failed
    assert not thread.is_alive()


def test_a_kopf_operator_handles_custom_resources(
    embedded: Embedded, ours: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    kopf = pytest.importorskip("kopf", reason="kopf is not installed: NOT tested with it")
    monkeypatch.setenv("KUBECONFIG", str(embedded.kubeconfig))
    ours.create(DEFINITIONS, definition("pumps"))
    pumps = f"/apis/test.penstock.dev/v1/namespaces/{ours.namespace}/pumps"
    registry = kopf.OperatorRegistry()

    def on(decorator: Callable[..., Any], **more: Any) -> Any:
        return decorator("test.penstock.dev", "v1", "pumps", registry=registry, **more)

    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    ticks: list[str] = []
    goes = threading.Event()

    @on(kopf.on.create, id="created")
    def created(spec: Any, name: str, namespace: str, **_: Any) -> Any:
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"of-{name}"}, "data": {}}
        kopf.adopt(child)
        ours.create(ours.maps, child)
        return {"turns": spec["turns"]}

    @on(kopf.on.update, field="spec.turns")
    def turned(old: int, new: int, patch: Any, **_: Any) -> None:
        patch.status["turned"] = new - old

    @on(kopf.timer, interval=0.05)
    def tick(name: str, **_: Any) -> None:
        ticks.append(name)

    @on(kopf.on.delete)
    def deleted(**_: Any) -> None:
        if not goes.is_set():
            raise kopf.TemporaryError("not yet", delay=0.05)

    def pump() -> Any:
        answer = ours("GET", f"{pumps}/p")
        return answer.body if answer.code == 200 else None

    with operating(kopf, registry, embedded.kubeconfig, ours.namespace):
        ours.create(pumps, custom("Pump", "p", spec={"turns": 2}))
        until(lambda: (pump().get("status") or {}).get("created") == {"turns": 2}, "it was handled")
        owner = ours("GET", f"{ours.maps}/of-p").body["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"]) == ("Pump", pump()["metadata"]["uid"])
        ours("PATCH", f"{pumps}/p", {"spec": {"turns": 5}}, type=MERGE)
        until(lambda: pump()["status"].get("turned") == 3, "the change was handled")
        until(lambda: len(ticks) > 2, "its timer runs")
        assert pump()["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        ours("DELETE", f"{pumps}/p")
        until(lambda: pump()["metadata"].get("deletionTimestamp"), "it waits for its finalizer")
        goes.set()
        until(lambda: pump() is None, "it is gone")
        until(lambda: ours("GET", f"{ours.maps}/of-p").code == 404, "what it owned is gone")
