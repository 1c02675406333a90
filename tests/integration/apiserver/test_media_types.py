"""Forms of answers by the Accept header: both servers choose the same alternative, or none (406)."""

from typing import Any

from tests.integration.apiserver.client import Api, config_map
from tests.support.tables import cases

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL, PARTIALS = (TABLE.replace("Table", kind) for kind in ("PartialObjectMetadata", "PartialObjectMetadataList"))
UNKNOWN = TABLE.replace("v=v1", "v=v2")
META, BETA = "meta.k8s.io/v1", "meta.k8s.io/v1beta1"


@cases(
    ("a table", TABLE, "Table", "Table", META),
    (
        "a table, its parameters in another order",
        "application/json;v=v1;g=meta.k8s.io;as=Table",
        "Table",
        "Table",
        META,
    ),
    ("an older table", TABLE.replace("v=v1", "v=v1beta1"), "Table", "Table", BETA),
    ("a table of an unknown version", UNKNOWN, None, None, ""),
    ("a table without a version", "application/json;as=Table;g=meta.k8s.io", None, None, ""),
    ("a table without a group", "application/json;as=Table;v=v1", None, None, ""),
    ("a table of another group", "application/json;as=Table;g=other;v=v1", None, None, ""),
    ("a table or the whole", f"{TABLE},application/json", "Table", "Table", META),
    ("an unknown table or the whole", f"{UNKNOWN},application/json", "ConfigMapList", "ConfigMap", "v1"),
    ("an unknown table or an older one", f"{UNKNOWN}, {TABLE.replace('v=v1', 'v=v1beta1')}", "Table", "Table", BETA),
    ("metadata of one", PARTIAL, None, "PartialObjectMetadata", META),
    ("metadata of several", PARTIALS, "PartialObjectMetadataList", None, META),
    ("metadata of an unknown version", PARTIALS.replace("v=v1", "v=v9"), None, None, ""),
    ("another form", TABLE.replace("Table", "Nothing"), None, None, ""),
    (
        "another form or the whole",
        TABLE.replace("Table", "Nothing") + ",application/json",
        "ConfigMapList",
        "ConfigMap",
        "v1",
    ),
    ("a version of the whole", "application/json;v=v1", None, None, ""),
    ("a page or the whole", "text/html,application/json", "ConfigMapList", "ConfigMap", "v1"),
    ("a page or anything", "text/html, */*;q=0.1", "ConfigMapList", "ConfigMap", "v1"),
    ("a page", "text/html", None, None, ""),
    ("by weight", "application/yaml;q=0.1,application/json;q=0.9", "ConfigMapList", "ConfigMap", "v1"),
    ("the whole before anything", "*/*,application/json", "ConfigMapList", "ConfigMap", "v1"),
)
def test_the_first_form_that_there_is_is_answered(
    accept: str, listed: str | None, one: str | None, version: str, api: Api
) -> None:
    api.create(api.maps, config_map())
    for path, kind in ((api.maps, listed), (f"{api.maps}/one", one)):
        answer = api("GET", path, accept=accept)
        found: dict[str, Any] = answer.body
        if kind is None:
            assert (answer.code, found["reason"], found["code"]) == (406, "NotAcceptable", 406)
        else:
            assert (answer.code, found["kind"], found["apiVersion"]) == (200, kind, version)


@cases(
    ("the whole", "application/yaml", b"kind: ConfigMapList"),
    ("the whole, by weight", "application/json;q=0.1,application/yaml;q=0.9", b"kind: ConfigMapList"),
    ("a table", TABLE.replace("json", "yaml"), b"kind: Table"),
    ("metadata", PARTIALS.replace("json", "yaml"), b"kind: PartialObjectMetadataList"),
)
def test_every_form_is_there_as_yaml(accept: str, text: bytes, api: Api) -> None:
    answer = api("GET", api.maps, accept=accept)
    assert (answer.code, answer.headers["content-type"], text in answer.text) == (200, "application/yaml", True)


@cases(
    ("a watch", "GET", "{maps}?watch=1&timeoutSeconds=1", "application/yaml"), ("none", "GET", "{maps}/none", UNKNOWN)
)
def test_a_form_that_is_not_there_is_refused_first(method: str, path: str, accept: str, api: Api) -> None:
    assert api(method, path.format(maps=api.maps), accept=accept).code == 406


def test_a_write_whose_answer_has_no_form_is_not_made(api: Api) -> None:
    assert api("POST", api.maps, config_map(), accept=UNKNOWN).code == 406
    assert api.get(f"{api.maps}/one").code == 404
