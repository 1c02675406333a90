"""``penstock get``."""

import json
from pathlib import Path

import pytest
import yaml

from deploy.cli.discovery import Catalogue, DiscoveredKind
from tests.support.tables import for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import CONFIG_MAP, EVENT, JOB, NODE, POD, SCALED_JOB, VOLCANO_JOB, FakeCluster
from workers.api.kinds import Kind
from workers.errors import Forbidden


@for_each(
    ("jobs", "batch"),
    ("job", "batch"),
    ("vj", "batch.volcano.sh"),
    ("vjs", "batch.volcano.sh"),
    ("vcjobs", "batch.volcano.sh"),
    ("vcjobs.batch.volcano.sh", "batch.volcano.sh"),
    ("cms", ""),
    # A name proper counts before the plural of a short one, in any group.
    ("bs", "late.example"),
)
def test_several_of_a_short_name_are_its_kind(word: str, group: str) -> None:
    catalogue = Catalogue(
        (
            DiscoveredKind(CONFIG_MAP, "configmap", ("cm", "b")),
            DiscoveredKind(JOB, "job"),
            DiscoveredKind(VOLCANO_JOB, "job", ("vcjob", "vj")),
            DiscoveredKind(Kind("late.example", "v1", "Bus", "buses"), "bus", ("bs",)),
        )
    )
    assert catalogue.find(word).kind.group == group


def test_an_unknown_kind_is_named_with_its_neighbours(cluster: FakeCluster, penstock: Type) -> None:
    printed = penstock("get", "podz")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err == 'penstock: the server has no kind called "podz"; did you mean pod or pods?\n'


A, B = (POD, "a", "x"), (POD, "b", "y")
CRUNCH = (SCALED_JOB, "crunch", "default")
NAMES = ("scaledjobs", "scaledjob", "ScaledJob", "sj", "scaledjobs.keda.sh", "scaledjobs.v1alpha1.keda.sh")
TABLES = {
    **{f"get {word}": ([CRUNCH], ["NAME     STATUS", "crunch   Running"]) for word in NAMES},
    "get jobs --no-headers": ([(JOB, "ours", "default"), (VOLCANO_JOB, "theirs", "default")], ["ours   Running"]),
    "get jobs.batch.volcano.sh --no-headers": (
        [(JOB, "ours", "default"), (VOLCANO_JOB, "theirs", "default")],
        ["theirs   Running"],
    ),
    "get pods -n x -o wide": ([A], ["NAME   STATUS    UID", "a      Running   uid-a"]),
    "get po -A": ([A, B], ["NAMESPACE   NAME   STATUS", "x           a      Running", "y           b      Running"]),
    "get pods -n x --no-headers": ([A, B], ["a      Running"]),
    # Cluster-scoped kinds have no namespace.
    "get nodes -n y --no-headers": ([(NODE, "local", "")], ["local   Running"]),
    "get cm,pods,sj": (
        [(CONFIG_MAP, "a", "default"), (SCALED_JOB, "b", "default")],
        [
            *("NAME          STATUS", "configmap/a   Running", ""),
            *("NAME                  STATUS", "scaledjob.keda.sh/b   Running"),
        ],
    ),
    "get pods a b -n x": ([A, (POD, "b", "x")], ["NAME   STATUS", "a      Running", "b      Running"]),
    "get all": (
        [(JOB, "a", "default"), (POD, "b", "default"), (CONFIG_MAP, "c", "default")],
        [*("NAME    STATUS", "pod/b   Running", ""), *("NAME          STATUS", "job.batch/a   Running")],
    ),
    "get pod/a po/b -n x": ([A, (POD, "b", "x")], ["NAME   STATUS", "a      Running", "b      Running"]),
}


@pytest.mark.parametrize(("line", "objects", "printed"), [(line, *row) for line, row in TABLES.items()], ids=TABLES)
def test_objects_are_listed_as_a_table(
    line: str, objects: list[tuple[Kind, str, str]], printed: list[str], cluster: FakeCluster, penstock: Type
) -> None:
    for each in objects:
        cluster.add(*each)
    assert penstock(*line.split()).out.splitlines() == printed


@pytest.mark.parametrize(
    ("line", "told"),
    {
        "get pods -n y": "No resources found in namespace y.\n",
        "get pods,cm,sj -n x": "No configmaps, scaledjobs found in namespace x.\n",
        "get sj,nodes -n x": "No scaledjobs found in namespace x.\nNo nodes found.\n",
        "get sj -A": "No resources found.\n",
        "get pods -n x": "",
        # A category names no kind that is empty.
        "get all -n x": "",
        "get all -n y": "No resources found in namespace y.\n",
        "get all,cm -n x": "No configmaps found in namespace x.\n",
    }.items(),
)
def test_what_is_empty_is_said_on_standard_error(line: str, told: str, cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(*A)
    assert penstock(*line.split()).err == told


def test_events_are_listed_in_the_order_of_their_last_change(cluster: FakeCluster, penstock: Type) -> None:
    for name, version in (("a", "110"), ("b", "9"), ("c", "101")):
        cluster.add(EVENT, name, metadata={"resourceVersion": version})
    assert [line.split()[0] for line in penstock("get", "events").out.splitlines()] == ["NAME", "b", "c", "a"]


def test_a_missing_object_is_an_error_in_the_servers_words_after_the_others_are_shown(
    cluster: FakeCluster, penstock: Type
) -> None:
    cluster.add(POD, "b")
    printed = penstock("get", "pods", "a", "b")
    assert printed.code == 1
    assert "b" in printed.out
    assert printed.err == 'penstock: pods "a" not found\n'
    assert penstock("get", "pods", "a", "--ignore-not-found").code == 0


def test_named_objects_are_one_table_also_behind_a_missing_one(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(JOB, "a")
    cluster.add(POD, "c")
    cluster.add(POD, "long-name")
    printed = penstock("get", "job/a", "pod/b", "pod/c", "pod/long-name")
    assert printed.out.splitlines() == [
        *("NAME          STATUS", "job.batch/a   Running", ""),
        *("NAME            STATUS", "pod/c           Running", "pod/long-name   Running"),
    ]
    assert printed.err == 'penstock: pods "b" not found\n'


@pytest.fixture
def three(cluster: FakeCluster) -> FakeCluster:
    """Three pods that started in another order than that of their names."""
    for name, started, labels in (("a", "12:00", {}), ("b", "11:00", {"app": "x", "tier": "1"}), ("c", "13:00", {})):
        status = {"phase": "Running", "startTime": started}
        cluster.add(POD, name, metadata={"labels": labels}, spec={"containers": [{"image": name}]}, status=status)
    return cluster


ROWS = ["NAME   STATUS", "b      Running", "a      Running", "c      Running"]
FORMS = {
    "get pods --sort-by .status.startTime": ROWS,
    "get pods --sort-by={.status.startTime}": ROWS,
    "get pods --sort-by status.startTime -o name": ["pod/b", "pod/a", "pod/c"],
    "get pods --show-labels": [
        *("NAME   STATUS    LABELS", "a      Running   <none>", "b      Running   app=x,tier=1"),
        "c      Running   <none>",
    ],
    "get pods -L app,none/tier": [
        "NAME   STATUS    APP   TIER",
        "a      Running",
        "b      Running   x",
        "c      Running",
    ],
    "get pods --label-columns app -L=tier, -o wide": [
        *("NAME   STATUS    UID     APP   TIER", "a      Running   uid-a", "b      Running   uid-b   x     1"),
        "c      Running   uid-c",
    ],
    "get pods b -L tier --show-labels --no-headers": ["b      Running   1      app=x,tier=1"],
    "get pods -L tier -o name": ["pod/a", "pod/b", "pod/c"],
    "get pods -o jsonpath={.items[*].metadata.name}": ["a b c"],
    "get pods -o=jsonpath={.items[*].metadata.name} --sort-by .status.startTime": ["b a c"],
    "get pod b -ojsonpath={.metadata.name}": ["b"],
    "get pods a c -o jsonpath={.kind}": ["List"],
    "get pods -o custom-columns=NAME:.metadata.name,IMAGES:.spec.containers[*].image,X:.x": [
        *("NAME   IMAGES   X", "a      a        <none>", "b      b        <none>", "c      c        <none>"),
    ],
    "get pod b --no-headers -o custom-columns=NAME:metadata.name": ["b"],
    "get pods -o=name": ["pod/a", "pod/b", "pod/c"],
}


@pytest.mark.parametrize(("line", "printed"), FORMS.items(), ids=FORMS)
def test_objects_are_shown_as_paths_say(line: str, printed: list[str], three: FakeCluster, penstock: Type) -> None:
    assert penstock(*line.split()).out.splitlines() == printed


@for_each(
    "get pods -n=x",
    "get pods -n=x -l=app=x",
    "describe pods -n=x -l=app=x",
    "logs b -n=x -c=main",
    "logs -n=x -l=app=x",
    "apply -n=x -f=b.yaml",
    "check -n=x -f=b.yaml",
    "delete -n=x -f=b.yaml",
    "delete pods -n=x -l=app=x",
)
def test_flags_of_one_letter_may_have_an_equals_sign(line: str, cluster: FakeCluster, penstock: Type) -> None:
    Path("b.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: b, labels: {app: x}}}")
    cluster.add(POD, "b", "x", metadata={"labels": {"app": "x"}}, spec={"containers": [{"name": "main"}]})
    cluster.streams["/api/v1/namespaces/x/pods/b/log"] = [b"b says"]
    printed = penstock(*line.split())
    assert (printed.code, printed.err) == (0, "")
    assert "b" in printed.out


def test_a_template_ends_with_its_own_line_break_alone(three: FakeCluster, penstock: Type) -> None:
    three.add(CONFIG_MAP, "x", data={"text": "\x1b[2Jone\ttwo\n"})
    assert penstock("get", "cm", "x", "-o", 'jsonpath={.data.text}{"\\n"}.').out == "\\x1b[2Jone\ttwo\n\n."


def test_custom_columns_follow_a_watch(three: FakeCluster, penstock: Type) -> None:
    body = three.objects["/api/v1/namespaces/default/pods/a"]
    three.streams["/api/v1/namespaces/default/pods"] = [three.event("MODIFIED", body)]
    printed = penstock("get", "pods", "-w", "-o", "custom-columns=N:.metadata.name,P:.status.phase")
    assert printed.out.splitlines() == ["N   P", "a   Running", "b   Running", "c   Running", "a   Running"]


@for_each(
    ("jsonpath={.x", 1, "penstock: -o jsonpath: {.x: a brace or quotation mark is not closed\n"),
    ("jsonpath={.items[9].x}", 1, "penstock: -o jsonpath: there is no element 9 in a list of 3\n"),
    ("go-template={{.kind}}", 2, "'jsonpath=', 'custom-columns='"),
)
def test_a_form_that_cannot_be_is_an_error(form: str, code: int, told: str, three: FakeCluster, penstock: Type) -> None:
    printed = penstock("get", "pods", "-o", form)
    assert (printed.code, printed.out) == (code, "")
    assert told in printed.err


def test_a_sort_by_what_no_object_has_is_an_error(three: FakeCluster, penstock: Type) -> None:
    for form in ((), ("-o", "yaml")):
        assert (
            penstock("get", "pods", "--sort-by", ".x", *form).err == "penstock: --sort-by: no object has the field .x\n"
        )
    assert penstock("get", "cm", "--sort-by", ".x").err == "No resources found in namespace default.\n"


@for_each("", "name", "yaml")
def test_a_refused_kind_is_an_error_after_the_others_are_shown(form: str, cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(POD, "b")
    refused = [f"{kind.plural} is forbidden" for kind in (CONFIG_MAP, JOB)]
    for kind, message in zip((CONFIG_MAP, JOB), refused, strict=True):
        cluster.refused[kind.path("default")] = Forbidden("403", status=403, body={"message": message})
    printed = penstock("get", "cm,pods,jobs,pod", *(["-o", form] if form else []))
    assert (printed.code, printed.err.splitlines()) == (1, [f"penstock: {message}" for message in refused])
    assert "b" in printed.out


def test_a_name_needs_one_kind(cluster: FakeCluster, penstock: Type) -> None:
    assert penstock("get", "all", "a").err == "penstock: all/a: a name needs one kind; all are 2 kinds\n"


def test_long_lists_are_read_page_by_page(cluster: FakeCluster, penstock: Type) -> None:
    cluster.page = 2
    for name in "abcde":
        cluster.add(POD, name)
    assert [line.split()[0] for line in penstock("get", "pods").out.splitlines()] == ["NAME", *"abcde"]
    assert cluster.calls.count(("GET", "/api/v1/namespaces/default/pods")) == 3
    assert [item["metadata"]["name"] for item in json.loads(penstock("get", "po", "-o", "json").out)["items"]] == list(
        "abcde"
    )


def test_selectors_go_to_the_server(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(POD, "a", metadata={"labels": {"app": "x"}})
    cluster.add(POD, "b")
    assert penstock("get", "pods", "-l", "app=x", "-o", "name").out == "pod/a\n"
    penstock("get", "pods", "--field-selector", "status.phase=Failed")
    assert cluster.queries[-1]["fieldSelector"] == "status.phase=Failed"


def test_one_object_is_written_whole_and_several_become_a_list(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(CONFIG_MAP, "a", data={"k": "v"}, metadata={"managedFields": [{}]})
    one = yaml.safe_load(penstock("get", "cm", "a", "-o", "yaml").out)
    assert (one["kind"], one["data"]) == ("ConfigMap", {"k": "v"})
    assert "managedFields" not in one["metadata"]
    many = json.loads(penstock("get", "cm", "-o", "json", "--show-managed-fields").out)
    assert many["kind"] == "List"
    # Items of a list come without them from the server; a file of them must still be appliable.
    assert many["items"][0]["apiVersion"] == "v1"
    assert many["items"][0]["kind"] == "ConfigMap"
    assert many["items"][0]["metadata"]["managedFields"] == [{}]


def test_a_watch_shows_every_change_and_resumes_where_the_stream_ended(cluster: FakeCluster, penstock: Type) -> None:
    pod = cluster.add(POD, "a", status={"phase": "Pending"})
    later = {**pod, "status": {"phase": "Succeeded"}, "metadata": {**pod["metadata"], "resourceVersion": "500"}}
    last = {**later, "status": {"phase": "Unknown"}}
    bookmark = {"kind": "Table", "metadata": {"resourceVersion": "600"}, "columnDefinitions": [], "rows": []}
    cluster.streams["/api/v1/namespaces/default/pods"] = [
        cluster.event("MODIFIED", cluster.table([later], {})),
        b"",
        # Only the first event of a stream names the columns.
        cluster.event("MODIFIED", {**cluster.table([last], {}), "columnDefinitions": None}),
        cluster.event("BOOKMARK", bookmark),
    ]
    printed = penstock("get", "pods", "-w")
    assert printed.code == 130
    assert printed.out == "NAME   STATUS\na      Pending\na      Succeeded\na      Unknown\n"
    first, second = cluster.queries[-2:]
    assert (first["watch"], first["resourceVersion"], second["resourceVersion"]) == ("true", "101", "600")


def test_an_expired_watch_restarts_at_the_current_version_with_a_note(cluster: FakeCluster, penstock: Type) -> None:
    path = "/api/v1/namespaces/default/pods"
    cluster.streams[path] = [cluster.event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})]
    printed = penstock("get", "pods", "-w", "-o", "name")
    assert "from now on" in printed.err
    assert cluster.queries[-1]["resourceVersion"] == "100"


def test_a_watch_of_one_object_asks_for_that_object(cluster: FakeCluster, penstock: Type) -> None:
    cluster.add(POD, "a")
    penstock("get", "pod", "a", "-w")
    assert cluster.calls[-1] == ("STREAM", "/api/v1/namespaces/default/pods")
    assert cluster.queries[-1]["fieldSelector"] == "metadata.name=a"
