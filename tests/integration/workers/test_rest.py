"""The client against API servers that mean it."""

import asyncio
from contextlib import aclosing

import pytest

from workers import errors
from workers.api.kinds import CONFIG_MAP, Object, Ref
from workers.client.rest import Cluster


def config_map(namespace: str, name: str, **data: str) -> Object:
    metadata = {"namespace": namespace, "name": name, "labels": {"of": name[0]}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_an_object_lives_from_create_to_delete(cluster: Cluster, namespace: str) -> None:
    ref = Ref(CONFIG_MAP, namespace, "a")
    created = await cluster.create(CONFIG_MAP, config_map(namespace, "a", x="1"))
    assert await cluster.get(ref) == created
    patched = await cluster.patch(ref, {"data": {"x": None, "y": "2"}})
    assert patched["data"] == {"y": "2"}
    replaced = await cluster.replace(ref, {**patched, "data": {"z": "3"}})
    assert replaced["data"] == {"z": "3"}
    await cluster.delete(ref, uid=created["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await cluster.get(ref)


async def test_writes_from_an_old_state_are_conflicts(cluster: Cluster, namespace: str) -> None:
    ref = Ref(CONFIG_MAP, namespace, "a")
    old = await cluster.create(CONFIG_MAP, config_map(namespace, "a", x="1"))
    await cluster.patch(ref, {"data": {"x": "2"}})
    with pytest.raises(errors.Conflict):
        await cluster.replace(ref, old)
    version = {"resourceVersion": old["metadata"]["resourceVersion"]}
    with pytest.raises(errors.Conflict):
        await cluster.patch(ref, {"metadata": version, "data": {"x": "3"}})
    with pytest.raises(errors.Conflict):
        await cluster.delete(ref, uid="another")
    with pytest.raises(errors.AlreadyExists):
        await cluster.create(CONFIG_MAP, config_map(namespace, "a"))
    assert (await cluster.get(ref))["data"] == {"x": "2"}


async def test_what_is_wrong_with_an_object_is_told(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(errors.Invalid, match=r"metadata\.name"):
        await cluster.create(CONFIG_MAP, config_map(namespace, "Not_A_Name"))


async def test_a_list_of_many_pages_is_whole_and_selectors_narrow_it(cluster: Cluster, namespace: str) -> None:
    for name in ("a1", "a2", "a3", "b1", "b2"):
        await cluster.create(CONFIG_MAP, config_map(namespace, name))
    objects, version = await cluster.list(CONFIG_MAP, namespace, label_selector="of in (a,b)", limit=2)
    assert [body["metadata"]["name"] for body in objects] == ["a1", "a2", "a3", "b1", "b2"]
    assert int(version) >= max(int(body["metadata"]["resourceVersion"]) for body in objects)
    assert len((await cluster.list(CONFIG_MAP, namespace, label_selector="of=b"))[0]) == 2
    assert len((await cluster.list(CONFIG_MAP, namespace, field_selector="metadata.name=a2"))[0]) == 1


async def test_a_watch_tells_everything_after_its_version_once_and_in_order(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAP, config_map(namespace, "before"))
    _, version = await cluster.list(CONFIG_MAP, namespace)
    seen: list[tuple[str, str]] = []

    async def watch() -> None:
        async with aclosing(cluster.watch(CONFIG_MAP, namespace, resource_version=version, timeout=60)) as events:
            async for event in events:
                if event.type != "BOOKMARK":
                    seen.append((event.type, event.object["metadata"]["name"]))
                if event.type == "DELETED":
                    return

    watching = asyncio.create_task(watch())
    await cluster.create(CONFIG_MAP, config_map(namespace, "a"))
    await cluster.patch(Ref(CONFIG_MAP, namespace, "a"), {"data": {"x": "1"}})
    await cluster.delete(Ref(CONFIG_MAP, namespace, "a"))
    await asyncio.wait_for(watching, 60)
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_the_event_of_a_deletion_carries_a_version_of_its_own(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(CONFIG_MAP, config_map(namespace, "a"))
    await cluster.delete(Ref(CONFIG_MAP, namespace, "a"))
    version = created["metadata"]["resourceVersion"]
    async with aclosing(cluster.watch(CONFIG_MAP, namespace, resource_version=version, timeout=60)) as watch:
        event = await anext(watch)
    assert event.type == "DELETED"
    assert int(event.object["metadata"]["resourceVersion"]) > int(version)
    assert event.object["metadata"]["uid"] == created["metadata"]["uid"]


async def test_a_watch_ends_when_its_time_is_over(cluster: Cluster, namespace: str) -> None:
    _, version = await cluster.list(CONFIG_MAP, namespace)
    watch = cluster.watch(CONFIG_MAP, namespace, resource_version=version, timeout=1)
    assert all(event.type == "BOOKMARK" or event.object for event in [event async for event in watch])


async def test_any_path_can_be_asked_for(cluster: Cluster) -> None:
    assert "major" in await cluster.request("GET", "/version")
    assert await cluster.request("GET", "/healthz") == "ok"
