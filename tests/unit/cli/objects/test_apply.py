"""``penstock apply`` and ``penstock delete``."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.cli.objects import last_applied
from tests.support.tables import cases, for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import CONFIG_MAP, JOB, NODE, POD, FakeCluster
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from workers.errors import Forbidden

WIDGET = Kind("example.com", "v1", "Widget", "widgets")


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v, j: w}\n")
    return path


def test_created_then_unchanged_then_configured(cluster: FakeCluster, penstock: Type, manifest: Path) -> None:
    assert penstock("apply", "-f", str(manifest)).out == "configmap/a created\n"
    before = list(cluster.calls)
    assert penstock("apply", "-f", str(manifest)).out == "configmap/a unchanged\n"
    assert not [call for call in cluster.calls[len(before) :] if call[0] != "GET"]
    manifest.write_text(manifest.read_text().replace(", j: w", ""))
    assert penstock("apply", "-f", str(manifest)).out == "configmap/a configured\n"
    assert cluster.objects["/api/v1/namespaces/default/configmaps/a"]["data"] == {"k": "v"}


def test_the_server_is_asked_to_reject_unknown_fields(cluster: FakeCluster, penstock: Type, manifest: Path) -> None:
    penstock("apply", "-f", str(manifest))
    manifest.write_text(manifest.read_text().replace("k: v", "k: x"))
    penstock("apply", "-f", str(manifest))
    written = [
        (method, query.get("fieldValidation"))
        for (method, _), query in zip(cluster.calls, cluster.queries, strict=True)
        if method != "GET"
    ]
    assert written == [("POST", "Strict"), ("PATCH", "Strict")]


def test_a_misspelt_field_of_a_template_is_told_where_the_server_lets_it_through(
    cluster: FakeCluster, penstock: Type, manifest: Path
) -> None:
    spec = "{jobTargetRef: {template: {spec: {contianers: []}}}, triggers: []}"
    manifest.write_text(f"apiVersion: keda.sh/v1alpha1\nkind: ScaledJob\nmetadata: {{name: a}}\nspec: {spec}\n")
    warning = f'{manifest}: ScaledJob a: unknown field "spec.jobTargetRef.template.spec.contianers"'
    for verb in ("created", "unchanged"):
        printed = penstock("apply", "-f", str(manifest))
        assert (printed.code, printed.out, printed.err) == (0, f"scaledjob.keda.sh/a {verb}\n", f"Warning: {warning}\n")


def test_fields_added_by_others_survive(cluster: FakeCluster, penstock: Type, manifest: Path) -> None:
    penstock("apply", "-f", str(manifest))
    live = cluster.objects["/api/v1/namespaces/default/configmaps/a"]
    live["data"]["theirs"] = "1"
    manifest.write_text(manifest.read_text().replace("k: v", "k: x"))
    penstock("apply", "-f", str(manifest))
    assert cluster.objects["/api/v1/namespaces/default/configmaps/a"]["data"] == {"k": "x", "j": "w", "theirs": "1"}


def test_an_object_without_a_namespace_goes_to_the_one_that_was_asked_for(
    cluster: FakeCluster, penstock: Type, manifest: Path
) -> None:
    penstock("apply", "-f", str(manifest), "-n", "x")
    stored = cluster.objects["/api/v1/namespaces/x/configmaps/a"]
    assert stored["metadata"]["namespace"] == "x"
    assert last_applied.recorded(stored)["metadata"]["namespace"] == "x"


def test_two_namespaces_that_differ_are_an_error(cluster: FakeCluster, penstock: Type, manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace("name: a", "name: a, namespace: y"))
    printed = penstock("apply", "-f", str(manifest), "-n", "x")
    assert printed.code == 1
    assert "ConfigMap a: metadata.namespace: the manifest says y, --namespace says x" in printed.err
    assert penstock("apply", "-f", str(manifest)).out == "configmap/a created\n"


def test_a_bad_object_does_not_stop_the_others_and_is_named(
    cluster: FakeCluster, penstock: Type, manifest: Path
) -> None:
    bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: BAD}\n---\n"
    manifest.write_text(bad + manifest.read_text())
    printed = penstock("apply", "-f", str(manifest))
    assert (printed.code, printed.out) == (1, "configmap/a created\n")
    assert f"{manifest}, document 1: ConfigMap BAD: " in printed.err
    assert "metadata.name: Invalid value" in printed.err
    assert printed.err.count("\n") == 1


def test_the_error_for_an_unknown_kind_says_what_to_do(cluster: FakeCluster, penstock: Type, manifest: Path) -> None:
    manifest.write_text("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n")
    printed = penstock("apply", "-f", str(manifest))
    assert printed.code == 1
    assert "the server has no Widget in example.com/v1; its CustomResourceDefinition is missing" in printed.err


def test_a_kind_defined_in_the_same_run_is_waited_for(cluster: FakeCluster, penstock: Type, manifest: Path) -> None:
    cluster.kinds.append(CUSTOM_RESOURCE_DEFINITION)
    asked = 0
    discovery = cluster._discovery

    def later(path: str) -> object:
        nonlocal asked
        asked += path == "/apis/example.com/v1"
        if asked == 3 and WIDGET not in cluster.kinds:
            cluster.kinds.append(WIDGET)
        return discovery(path)

    cluster._discovery = later  # type: ignore[method-assign]
    manifest.write_text(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\n"
        "---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n"
    )
    assert "widget.example.com/a created" in penstock("apply", "-f", str(manifest)).out


@for_each("--dry-run", "--dry-run=server", "--dry-run server")
@cases(
    ("a new object", {}, "created", ["POST"]),
    ("an equal one", {"k": "v", "j": "w"}, "unchanged", []),
    ("a changed one", {"k": "x", "j": "w"}, "configured", ["PATCH"]),
)
def test_a_dry_run_stores_nothing_and_lets_the_server_check_everything(
    there: dict[str, str],
    outcome: str,
    asked: list[str],
    flag: str,
    cluster: FakeCluster,
    penstock: Type,
    manifest: Path,
) -> None:
    if there:
        changed = manifest.with_name("before.yaml")
        changed.write_text(manifest.read_text().replace("{k: v, j: w}", json.dumps(there)))
        penstock("apply", "-f", str(changed))
    before, calls = copy.deepcopy(cluster.objects), len(cluster.calls)
    assert penstock("apply", *flag.split(), "-f", str(manifest)).out == f"configmap/a {outcome} (server dry run)\n"
    assert cluster.objects == before
    requests = zip(cluster.calls[calls:], cluster.queries[calls:], strict=True)
    written = [(method, query.get("dryRun")) for (method, _), query in requests if method != "GET"]
    assert written == [(method, "All") for method in asked]


def test_without_a_dry_run_objects_are_stored(cluster: FakeCluster, penstock: Type, manifest: Path) -> None:
    assert penstock("apply", "--dry-run=none", "-f", str(manifest)).out == "configmap/a created\n"
    assert "dryRun" not in cluster.queries[-1]
    refused = penstock("apply", "--dry-run=client", "-f", str(manifest))
    assert (refused.code, "'client' is not one of 'none', 'server'" in refused.err) == (2, True)


# --- delete


def intercept(cluster: FakeCluster, verb: str, act: Callable[[str, Any], object]) -> None:
    """Calls `act` with path and body before each request of this verb; what it returns, if anything, is the answer."""
    request = cluster.request

    async def intercepted(method: str, path: str, **more: Any) -> Any:
        if method == verb and (answer := act(path, more.get("body"))) is not None:
            return answer
        return await request(method, path, **more)

    cluster.request = intercepted  # type: ignore[method-assign]


def test_deleting_by_name_prints_it_and_passes_the_cascade(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(JOB, "a")
    cluster.add(JOB, "b")
    sent: list[Any] = []
    intercept(cluster, "DELETE", lambda _, body: sent.append(body))
    printed = penstock("delete", "jobs", "a", "b", "--cascade", "orphan", "--grace-period", "0")
    assert printed.out == 'job.batch "a" deleted\njob.batch "b" deleted\n'
    assert [(options["propagationPolicy"], options["gracePeriodSeconds"]) for options in sent] == [("Orphan", 0)] * 2
    assert cluster.objects == {}


def test_deleting_by_manifest_goes_backwards(cluster: FakeCluster, penstock: Type, manifest: Path) -> None:
    manifest.write_text(manifest.read_text() + "---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n")
    cluster.add(CONFIG_MAP, "a")
    cluster.add(NODE, "n")
    assert penstock("delete", "-f", str(manifest)).out == 'node "n" deleted\nconfigmap "a" deleted\n'


def test_deleting_by_manifest_refuses_another_namespace(cluster: FakeCluster, penstock: Type, manifest: Path) -> None:
    manifest.write_text(manifest.read_text() + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: y}\n")
    cluster.add(CONFIG_MAP, "a", "x")
    cluster.add(POD, "p", "y")
    printed = penstock("delete", "-f", str(manifest), "-n", "x")
    assert (printed.code, len(cluster.objects)) == (1, 2)
    assert "document 2: Pod p: metadata.namespace: the manifest says y, --namespace says x" in printed.err
    assert penstock("delete", "-f", str(manifest), "--ignore-not-found").out == 'pod "p" deleted\n'


def test_deleting_by_label_leaves_the_others(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(POD, "a", metadata={"labels": {"app": "x"}})
    cluster.add(POD, "b")
    penstock("delete", "pods", "-l", "app=x")
    assert list(cluster.objects) == ["/api/v1/namespaces/default/pods/b"]


def test_a_kind_alone_deletes_nothing(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(POD, "a")
    printed = penstock("delete", "pods")
    assert (printed.code, len(cluster.objects)) == (1, 1)
    assert "pods: which? give names, --selector or --all" in printed.err
    assert penstock("delete", "pods", "--all").code == 0
    assert cluster.objects == {}


def test_a_missing_object_is_an_error_without_ignore_not_found(cluster: FakeCluster, penstock: Type) -> None:
    assert penstock("delete", "pod", "a").err == 'penstock: pods "a" not found\n'
    both = 'penstock: pods "a" not found\npenstock: pods "b" not found\n'
    assert penstock("delete", "pod", "a", "b").err == both
    assert penstock("delete", "pod", "a", "--ignore-not-found").code == 0


def test_what_was_deleted_is_waited_for_where_others_are_missing_or_refused(
    cluster: FakeCluster, penstock: Type
) -> None:
    cluster.add(POD, "a")
    cluster.add(POD, "c")
    cluster.refused["/api/v1/namespaces/default/pods/b"] = Forbidden("403", status=403, body={"message": "pods b: no"})
    looks: list[str] = []

    def leave(path: str, _: Any) -> None:
        looks.append(path)
        if looks.count(path) > 2:
            cluster.objects.pop(path, None)

    intercept(cluster, "GET", leave)
    intercept(cluster, "DELETE", lambda *_: {})
    printed = penstock("delete", "pod", "a", "b", "missing", "c")
    assert (printed.code, printed.out) == (1, 'pod "a" deleted\npod "c" deleted\n')
    assert printed.err == 'penstock: pods b: no\npenstock: pods "missing" not found\n'
    assert cluster.objects == {}
    cluster.add(POD, "d")
    late = penstock("delete", "pod", "d", "missing", "--timeout", "0")
    assert late.err.splitlines()[0] == 'penstock: pods "missing" not found'
    assert "still there after 0 s" in late.err


@cases(("all", ("--all",)), ("label", ("-l", "app=x")))
def test_an_object_that_disappears_after_the_list_is_no_error(
    which: tuple[str, ...], cluster: FakeCluster, penstock: Type
) -> None:
    for name in ("a", "b"):
        cluster.add(POD, name, metadata={"labels": {"app": "x"}})

    def collect(path: str, _: Any) -> None:
        if path.endswith("/a"):
            cluster.objects.pop(path, None)

    intercept(cluster, "GET", collect)
    printed = penstock("delete", "pods", *which)
    assert (printed.code, printed.out) == (0, 'pod "b" deleted\n'), printed.err


def test_an_object_that_stays_is_named_when_the_wait_is_over(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(POD, "a")
    intercept(cluster, "DELETE", lambda *_: {})
    printed = penstock("delete", "pod", "a", "--timeout", "0")
    assert printed.code == 1
    assert "still there" in printed.err
    assert "Pod default/a" in printed.err
    assert penstock("delete", "pod", "a", "--no-wait").code == 0
