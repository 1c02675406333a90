"""A kubelet that stops: no pod begins any more, and no process of one is left."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.kubelet import kubelet as module
from deploy.local.kubelet.kubelet import KubeletOptions, kubelet
from deploy.local.kubelet.pods import lifecycle
from tests.support.conditions import eventually
from tests.support.processes import alive
from tests.support.tables import cases
from tests.unit.kubelet.factories import box, pod
from workers.api.kinds import POD, Object, Ref
from workers.client.kubeconfig import ApiAccess


class Server:
    """Pods that wait for a place on this node. Requests that bind the pods in `held` are answered after `answer`."""

    access = ApiAccess("http://127.0.0.1")

    def __init__(self, folder: Path, *names: str, held: str = "") -> None:
        self.folder, self.held, self.answer = folder, held, asyncio.Event()
        self.bound: list[str] = []
        self.pods = [
            pod(
                box("main", command=["sh", "-c", f"echo $$$$ > {folder}/{name}; exec sleep 60"]),
                meta={"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
            )
            for name in names
        ]

    async def list(self, kind: Any, *_: Any, **__: Any) -> tuple[list[Object], str]:
        return (self.pods if kind == POD else []), "1"

    async def follow(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield ()

    async def request(self, _method: str, path: str, **_: Any) -> Object:
        name = path.split("/")[-2]
        self.bound.append(name)
        if name == self.held:
            await self.answer.wait()
        return {}

    async def get(self, ref: Ref) -> Object:
        return next(one for one in self.pods if one["metadata"]["name"] == ref.name)

    async def patch(self, *_: Any, **__: Any) -> Object:
        return {}

    create = delete = patch

    def pid(self, name: str) -> int:
        path = self.folder / name
        return int(path.read_text() or 0) if path.exists() else 0


@cases(("waits for the place of one that ends", 1, ""), ("is being bound", 2, "late"))
async def test_no_pod_begins_any_more_that(
    places: int, held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(tmp_path, "first", "late", held=held)
    options = KubeletOptions("local", places, tmp_path / "root", tmp_path / "logs", events="none", farewell=1.0)
    stop = asyncio.Event()
    end_all = module.Kubelet._end_all

    async def answered(self: module.Kubelet) -> None:
        # The answer to a request that was on its way comes while the pods end.
        asyncio.get_running_loop().call_later(0.05, server.answer.set)
        await end_all(self)

    monkeypatch.setattr(module.Kubelet, "_end_all", answered)
    async with kubelet(server, options) as node:  # type: ignore[arg-type]
        serving = asyncio.create_task(node.serve(stop))
        await eventually(lambda: server.pid("first") and (not held or held in server.bound))
        stop.set()
        await asyncio.wait_for(serving, 30)
    assert not alive(server.pid("first"))
    assert list((tmp_path / "root" / "pods").iterdir()) == []
    assert not server.pid("late")
    assert ("late" in server.bound) == bool(held)


async def test_a_pre_stop_hook_may_take_as_long_as_its_pod_may_take_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "GRACE", 0.1)
    server = Server(tmp_path, "drains")
    [only] = server.pods
    only["spec"]["terminationGracePeriodSeconds"] = 1000
    [main] = only["spec"]["containers"]
    asked = f"trap 'mv {tmp_path}/drained {tmp_path}/asked; exit 0' TERM"
    main["command"][-1] = f"{asked}; echo $$$$ > {tmp_path}/drains; while :; do sleep 0.05; done"
    main["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", f"sleep 0.5; touch {tmp_path}/drained"]}}}
    options = KubeletOptions("local", 1, tmp_path / "root", tmp_path / "logs", events="none", farewell=30.0)
    stop = asyncio.Event()
    async with kubelet(server, options) as node:  # type: ignore[arg-type]
        serving = asyncio.create_task(node.serve(stop))
        await eventually(lambda: server.pid("drains"))
        stop.set()
        await asyncio.wait_for(serving, 60)
    assert (tmp_path / "asked").exists()


async def test_a_pre_stop_hook_ends_with_its_container(tmp_path: Path) -> None:
    server = Server(tmp_path, "sick")
    [only] = server.pods
    only["spec"]["restartPolicy"] = "Always"
    [main] = only["spec"]["containers"]
    main["command"][-1] = f"echo $$$$ >> {tmp_path}/starts; until [ -e {tmp_path}/hook ]; do sleep 0.05; done"
    hook = ["sh", "-c", f"echo $$ > {tmp_path}/hook.new; mv {tmp_path}/hook.new {tmp_path}/hook; exec sleep 600"]
    main["lifecycle"] = {"preStop": {"exec": {"command": hook}}}
    main["livenessProbe"] = {"exec": {"command": ["false"]}, "failureThreshold": 1}
    options = KubeletOptions("local", 1, tmp_path / "root", tmp_path / "logs", events="none", farewell=0.0)
    stop = asyncio.Event()
    async with kubelet(server, options) as node:  # type: ignore[arg-type]
        serving = asyncio.create_task(node.serve(stop))
        await eventually(lambda: server.pid("hook"))
        await eventually(lambda: not alive(server.pid("hook")))
        stop.set()
        await asyncio.wait_for(serving, 60)
