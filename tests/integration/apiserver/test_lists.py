"""Lists: selectors, pages that show one moment, and versions."""

import pytest

from tests.integration.apiserver.client import Api, config_map, job, pod
from tests.support.tables import for_each


def _names(answer: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


@pytest.fixture
def five(api: Api) -> Api:
    """Five labelled config maps."""
    for number, colour in enumerate(("red", "red", "blue", "green", "blue")):
        api.create(api.maps, config_map(f"m{number}", labels={"colour": colour}))
    return api


@for_each(
    (r"metadata.name!=m0\,m1", 200),
    (r"metadata.name!=m0\=", 200),
    (r"metadata.name!=m0\\", 200),
    (r"metadata.name!=m\0", 400),
    ("metadata.name!=m0\\", 400),
    ("metadata.name!=m0=m1", 400),
    (r"metadata\.name!=m0", 400),
)
def test_backslashes_of_field_selectors_escape_in_values(selector: str, code: int, five: Api) -> None:
    answer = five.get(five.maps, fieldSelector=selector)
    assert answer.code == code
    if code == 200:
        assert {"m0", "m1", "m2", "m3", "m4"} <= {*_names(answer.body)}


@for_each(
    ("colour=red", ["m0", "m1"]),
    ("colour!=red", ["m2", "m3", "m4"]),
    ("colour in (blue,green)", ["m2", "m3", "m4"]),
    ("colour notin (blue,green)", ["m0", "m1"]),
    ("colour", ["m0", "m1", "m2", "m3", "m4"]),
    ("!colour", []),
    ("colour,colour=green", ["m3"]),
)
def test_label_selectors_choose(selector: str, found: list[str], five: Api) -> None:
    names = _names(five.get(five.maps, labelSelector=selector).body)
    assert [name for name in names if name.startswith("m")] == found


def test_field_selectors_choose(api: Api) -> None:
    api.create(api.pods, pod("a"))
    api.create(api.pods, pod("b"))
    api.patch(f"{api.pods}/b/status", {"status": {"phase": "Running"}})
    assert _names(api.get(api.pods, fieldSelector="metadata.name=a").body) == ["a"]
    assert _names(api.get(api.pods, fieldSelector="status.phase=Running").body) == ["b"]
    assert _names(api.get(api.pods, fieldSelector="metadata.name!=a,spec.nodeName=").body) == ["b"]
    assert api.get(api.pods, fieldSelector="spec.nothing=x").code == 400


def test_pages_together_are_the_list_of_one_moment(five: Api) -> None:
    five.create(five.jobs, job("j0"))
    first = five.get(five.maps, limit=2, labelSelector="colour").body
    assert _names(first) == ["m0", "m1"]
    five("DELETE", f"{five.maps}/m2")
    five.create(five.maps, config_map("m9", labels={"colour": "red"}))
    second = five.get(five.maps, limit=2, labelSelector="colour", **{"continue": first["metadata"]["continue"]}).body
    assert _names(second) == ["m2", "m3"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = five.get(five.maps, limit=2, labelSelector="colour", **{"continue": second["metadata"]["continue"]}).body
    assert _names(third) == ["m4"]
    assert not third["metadata"].get("continue")


def test_a_page_says_how_many_follow(api: Api) -> None:
    for name in ("a", "b", "c"):
        api.create(api.jobs, job(name))
    page = api.get(api.jobs, limit=1).body
    assert (_names(page), page["metadata"]["remainingItemCount"]) == (["a"], 2)


def test_a_malformed_continue_token_is_refused(api: Api) -> None:
    answer = api.get(api.maps, **{"continue": "nonsense!"})
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")


def test_a_page_whose_moment_is_forgotten_offers_to_go_on_without_it(ours: Api) -> None:
    for name in ("a", "b"):
        ours.create(ours.jobs, job(name))
    first = ours.get(ours.jobs, limit=1).body["metadata"]["continue"]
    for _ in range(70):
        ours.create(ours.maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}})
        ours.get(ours.jobs, limit=1)
    answer = ours.get(ours.jobs, limit=1, **{"continue": first})
    assert (answer.code, answer.body["reason"]) == (410, "Expired")
    rest = ours.get(ours.jobs, **{"continue": answer.body["metadata"]["continue"]})
    assert _names(rest.body) == ["b"]


def test_items_of_built_in_kinds_do_not_repeat_their_kind(api: Api) -> None:
    api.create(api.jobs, job())
    answer = api.get(api.jobs).body
    assert (answer["kind"], answer["apiVersion"]) == ("JobList", "batch/v1")
    assert "kind" not in answer["items"][0]


def test_a_version_nobody_has_seen_yet_is_answered_with_a_request_to_retry(ours: Api) -> None:
    answer = ours.get(ours.maps, resourceVersion="9" * 18)
    assert (answer.code, answer.body["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


@for_each(
    ({"resourceVersionMatch": "Exact"}, ["FieldValueForbidden"]),
    ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, ["FieldValueForbidden"]),
    ({"resourceVersionMatch": "Newest", "resourceVersion": "1"}, ["FieldValueNotSupported"]),
    ({"resourceVersionMatch": "Newest"}, ["FieldValueForbidden", "FieldValueNotSupported"]),
    ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1", "watch": "1"}, ["FieldValueForbidden"]),
    ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "0"}, []),
)
def test_a_match_of_versions_that_does_not_exist_is_refused(
    query: dict[str, str], reasons: list[str], api: Api
) -> None:
    answer = api.get(api.maps, **query)
    causes = answer.body.get("details", {}).get("causes", ())
    assert (answer.code, [cause["reason"] for cause in causes]) == (422 if reasons else 200, reasons)


@for_each("-1", "+1", "1_0", "18446744073709551616")
def test_a_version_that_is_none_is_refused(version: str, ours: Api) -> None:
    # Kubernetes 1.20 answers with 500.
    assert ours.get(ours.maps, resourceVersion=version).code == 400


def test_a_time_that_is_no_number_is_refused(api: Api) -> None:
    assert api.get(api.maps, timeoutSeconds="1s").code == 400


def test_a_next_page_of_another_version_is_refused(five: Api) -> None:
    token = five.get(five.maps, limit=2).body["metadata"]["continue"]
    assert five.get(five.maps, resourceVersion="5", **{"continue": token}).code == 400


def test_all_namespaces_are_one_list(api: Api) -> None:
    api.create(api.jobs, job("here"))
    answer = api.get("/apis/batch/v1/jobs").body
    assert (api.namespace, "here") in [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in answer["items"]]
