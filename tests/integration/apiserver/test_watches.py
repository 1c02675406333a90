"""Watches: every change, in order, from where the client left off."""

import json
from itertools import islice
from typing import Any

from tests.integration.apiserver.client import Api, config_map, pod
from tests.support.tables import for_each


def _seen(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def test_a_watch_from_a_list_sees_what_follows_and_nothing_else(api: Api) -> None:
    api.create(api.pods, pod("before"))
    version = api.get(api.pods).version
    with api.watch(api.pods, resourceVersion=version) as events:
        api.create(api.pods, pod("one"))
        api.patch(f"{api.pods}/one", {"metadata": {"labels": {"a": "b"}}})
        deleted = api("DELETE", f"{api.pods}/one")
        assert deleted.code == 200
        seen = list(islice(events, 4))
    assert _seen(seen) == [("ADDED", "one"), ("MODIFIED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]
    assert "deletionTimestamp" not in seen[1]["object"]["metadata"]
    assert seen[2]["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))
    assert seen[0]["object"]["kind"] == "Pod"


def test_a_watch_without_version_begins_with_what_is_there(api: Api) -> None:
    api.create(api.pods, pod("before"))
    with api.watch(api.pods) as events:
        api.create(api.pods, pod("after"))
        assert _seen(list(islice(events, 2))) == [("ADDED", "before"), ("ADDED", "after")]


def test_a_watch_resumes_from_the_version_it_saw_last(api: Api) -> None:
    version = api.get(api.pods).version
    api.create(api.pods, pod("one"))
    with api.watch(api.pods, resourceVersion=version) as events:
        (first,) = islice(events, 1)
    api.create(api.pods, pod("two"))
    with api.watch(api.pods, resourceVersion=first["object"]["metadata"]["resourceVersion"]) as events:
        assert _seen(list(islice(events, 1))) == [("ADDED", "two")]


def test_an_object_that_stops_matching_is_deleted_for_the_watcher(api: Api) -> None:
    version = api.get(api.maps).version
    with api.watch(api.maps, resourceVersion=version, labelSelector="colour=red") as events:
        api.create(api.maps, config_map("one", labels={"colour": "blue"}))
        api.patch(f"{api.maps}/one", {"metadata": {"labels": {"colour": "red"}}})
        api.patch(f"{api.maps}/one", {"data": {"c": "d"}})
        api.patch(f"{api.maps}/one", {"metadata": {"labels": {"colour": "blue"}}})
        seen = list(islice(events, 3))
    assert _seen(seen) == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]
    assert seen[2]["object"]["metadata"]["labels"] == {"colour": "red"}


def test_a_watch_by_field_sees_pods_come_to_a_node(api: Api) -> None:
    version = api.get(api.pods).version
    with api.watch(api.pods, resourceVersion=version, fieldSelector="spec.nodeName=local") as events:
        api.create(api.pods, pod("one"))
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"}}
        api.create(f"{api.pods}/one/binding", binding | {"target": {"kind": "Node", "name": "local"}})
        (event,) = islice(events, 1)
    assert (event["type"], event["object"]["spec"]["nodeName"]) == ("ADDED", "local")


def test_a_watch_ends_when_its_time_is_up(api: Api) -> None:
    with api.watch(api.jobs, seconds=1, resourceVersion=api.get(api.jobs).version) as events:
        assert list(events) == []


@for_each("watch", "watch=True", "watch=yes")
def test_a_watch_is_asked_for_by_its_name_alone(asked: str, api: Api) -> None:
    api.create(api.maps, config_map("mine", labels={"a": "b"}))
    answer = api("GET", f"{api.maps}?{asked}&timeoutSeconds=1&labelSelector=a")
    assert answer.body["type"] == "ADDED"


def test_a_watch_by_its_path_is_only_read(api: Api) -> None:
    answer = api("POST", f"/api/v1/watch/namespaces/{api.namespace}/configmaps", {}, timeoutSeconds=1)
    assert answer.code == 405


def test_a_bookmark_tells_how_far_the_watcher_is(ours: Api) -> None:
    version = ours.get(ours.jobs).version
    with ours.watch(ours.jobs, resourceVersion=version, allowWatchBookmarks="true") as events:
        newer = int(ours.create(ours.maps, config_map())["metadata"]["resourceVersion"])
        # The first one may have been on its way before the change.
        bookmark = next(event for event in events if int(event["object"]["metadata"]["resourceVersion"]) >= newer)
    assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "Job")


def test_a_version_that_is_forgotten_is_gone(ours: Api) -> None:
    with ours.watch(ours.jobs, resourceVersion="1") as events:
        (event,) = islice(events, 1)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_initial_events_are_refused_so_that_clients_list_instead(ours: Api) -> None:
    query = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    answer = ours.get(ours.jobs, **query, allowWatchBookmarks="true")
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["details"]["causes"][0]["field"] == "sendInitialEvents"


def test_a_watch_of_tables_describes_its_columns_once(api: Api) -> None:
    version = api.get(api.pods).version
    url = f"{api.url}{api.pods}?watch=1&timeoutSeconds=60&resourceVersion={version}"
    headers = api.headers("application/json;as=Table;g=meta.k8s.io;v=v1,application/json")
    answer = api.pool.request("GET", url, headers=headers, preload_content=False)
    try:
        api.create(api.pods, pod("one"))
        api.create(api.pods, pod("two"))

        first, second = (json.loads(line)["object"] for line in islice((line for line in answer if line.strip()), 2))
    finally:
        answer.close()
    assert (first["kind"], first["rows"][0]["cells"][0]) == ("Table", "one")
    assert first["columnDefinitions"]
    assert not second["columnDefinitions"]
