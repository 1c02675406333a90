"""What a container finds where, with and without namespaces of its own."""

import shutil
from pathlib import Path

import pytest

from deploy.local.kubelet.containers import console, isolation, starter
from deploy.local.kubelet.containers.environment import ConfigProblem
from deploy.local.kubelet.containers.isolation import Bind
from deploy.local.kubelet.volumes import mounts
from deploy.local.kubelet.volumes.mounts import Mounts
from tests.support.tables import cases
from tests.unit.kubelet.factories import box, pod
from workers.api.kinds import Object

POD = Path("/pods/u")
WORK = POD / "main/0/work"
#: One volume in the pod's folder, one of the cluster's there, one elsewhere.
PLACES = {"v": POD / ".volumes/v", "conf": POD / ".volumes/conf", "host": Path("/srv/data")}
VOLUMES = [{"name": "v", "emptyDir": {}}, {"name": "conf", "configMap": {}}, {"name": "host", "hostPath": {}}]


def decided(*mounted: Object, isolated: bool = False) -> Mounts:
    container = box("main", volumeMounts=list(mounted))
    places = {name: PLACES[name] for name in dict.fromkeys(mount["name"] for mount in mounted)}
    if isolated:
        return mounts.decide_isolated(pod(container, volumes=VOLUMES), container, places, {"N": "1"}, WORK, POD)
    return mounts.decide(container, places, {"N": "1"}, WORK, POD)


@cases(
    ("relative", {"mountPath": "data"}, {WORK / "data": PLACES["v"]}, ()),
    ("deep", {"mountPath": "deep/data"}, {WORK / "deep/data": PLACES["v"]}, ()),
    ("a part", {"mountPath": "data", "subPath": "sub"}, {WORK / "data": PLACES["v"] / "sub"}, ()),
    ("a named part", {"mountPath": "data", "subPathExpr": "s$(N)"}, {WORK / "data": PLACES["v"] / "s1"}, ()),
    ("absolute in the pod's folder", {"mountPath": "/pods/u/shared"}, {POD / "shared": PLACES["v"]}, ()),
    ("absolute", {"mountPath": "/data"}, {}, ("/data (in $PENSTOCK_MOUNT_DATA)",)),
    ("the working directory itself", {"mountPath": "."}, {}, ()),
    ("its own path", {"name": "host", "mountPath": "/srv/data"}, {}, ()),
)
def test_without_namespaces_a_mount_is_a_link_or_is_named(
    mount: Object, links: dict[Path, Path], unmade: tuple[str, ...]
) -> None:
    found = decided({"name": "v", **mount})
    assert (found.links, found.unmade, found.binds) == (links, unmade, ())


@cases(
    ("absolute", {"mountPath": "/data"}, [Bind(PLACES["v"], Path("/data"))], {"PENSTOCK_MOUNT_DATA": "/data"}),
    (
        "relative",
        {"mountPath": "data"},
        [Bind(PLACES["v"], WORK / "data")],
        {"PENSTOCK_MOUNT_DATA": str(WORK / "data")},
    ),
    (
        "read-only",
        {"mountPath": "/data", "readOnly": True},
        [Bind(PLACES["v"], Path("/data"), read_only=True)],
        {"PENSTOCK_MOUNT_DATA": "/data"},
    ),
    (
        "the cluster's",
        {"name": "conf", "mountPath": "/etc/app", "subPath": "a.conf"},
        [Bind(PLACES["conf"] / "a.conf", Path("/etc/app"), read_only=True)],
        {"PENSTOCK_MOUNT_ETC_APP": "/etc/app"},
    ),
    (
        "from elsewhere, found in the pod's folder too",
        {"name": "host", "mountPath": "/in"},
        [Bind(PLACES["host"], POD / ".volumes/host"), Bind(PLACES["host"], Path("/in"))],
        {"PENSTOCK_MOUNT_IN": "/in"},
    ),
)
def test_an_isolated_container_has_every_mount_at_its_path(
    mount: Object, binds: list[Bind], variables: dict[str, str]
) -> None:
    found = decided({"name": "v", **mount}, isolated=True)
    assert (list(found.binds), found.variables, found.links, found.unmade) == (binds, variables, {}, ())


def test_a_volume_is_writable_in_the_pods_folder_if_one_mount_of_it_is() -> None:
    read_only = {"name": "host", "mountPath": "/in", "readOnly": True}
    writable = {"name": "host", "mountPath": "/out"}
    assert decided(read_only, isolated=True).binds[0] == Bind(PLACES["host"], POD / ".volumes/host", read_only=True)
    assert decided(read_only, writable, isolated=True).binds[0] == Bind(PLACES["host"], POD / ".volumes/host")


@cases(
    ("mountPath", {"mountPath": "../up"}, False),
    ("subPath", {"mountPath": "ok", "subPath": "../up"}, True),
    ("the root", {"mountPath": "/"}, True),
)
def test_a_way_out_is_refused(mount: Object, isolated: bool) -> None:
    with pytest.raises(ConfigProblem, match=r"leads out|nothing can be mounted"):
        decided({"name": "v", **mount}, isolated=isolated)


def test_a_part_that_is_named_by_no_variable_is_refused() -> None:
    with pytest.raises(ConfigProblem, match=r"subPathExpr a/\$\(NO\): no variable is named NO"):
        decided({"name": "v", "mountPath": "data", "subPathExpr": "a/$(NO)"})
    escaped = decided({"name": "v", "mountPath": "data", "subPathExpr": "$$(NO)"})
    assert escaped.links == {WORK / "data": PLACES["v"] / "$(NO)"}


def test_links_and_parts_are_made_once(tmp_path: Path) -> None:
    wanted = Mounts({}, parts=(tmp_path / "v/sub",), links={tmp_path / "work/deep/data": tmp_path / "v/sub"})
    for _ in range(2):
        mounts.make(wanted)
    assert (tmp_path / "work/deep/data").readlink() == tmp_path / "v/sub"
    assert (tmp_path / "v/sub").is_dir()


def test_a_variable_tells_where_a_volume_is() -> None:
    assert mounts.variable("my-data.v1") == "PENSTOCK_VOLUME_MY_DATA_V1"
    assert mounts.mount_variable("/data") == "PENSTOCK_MOUNT_DATA"
    assert mounts.mount_variable("/root/.ssh/") == "PENSTOCK_MOUNT_ROOT__SSH"


def test_outer_folders_come_first_and_those_below_tmp_stay_visible() -> None:
    own = Path("/tmp/home/u")
    kept = [Path("/usr"), Path("/tmp/checkout"), own / "main/0/work", Path("/tmp/v/below")]
    volumes = [Bind(own / ".volumes/v", Path("/data/deep/a/b")), Bind(PLACES["host"], Path("/data"))]
    volumes.append(Bind(PLACES["host"], Path("/tmp/v")))
    assert isolation.binds(own / "main/0", own, kept, volumes) == (
        Bind(own / "main/0/tmp", Path("/tmp")),
        volumes[1],
        Bind(Path("/tmp/checkout"), Path("/tmp/checkout"), read_only=True),
        volumes[2],
        Bind(own, own),
        volumes[0],
    )


@cases(
    ("there already", ["/etc", "/etc/app"], {}),
    ("in the root", ["/data"], {"/": ["/data"]}),
    ("the nearest folder", ["/etc/app/a/b"], {"/etc/app": ["/etc/app/a/b"]}),
    (
        "together, outer folders first",
        ["/etc/app/x", "/etc/y", "/etc/z"],
        {"/etc": ["/etc/y", "/etc/z"], "/etc/app": ["/etc/app/x"]},
    ),
    ("not below another", ["/data", "/data/deep/x"], {"/": ["/data"]}),
)
def test_places_that_the_machine_does_not_have(targets: list[str], wanted: dict[str, list[str]]) -> None:
    found = starter.missing(targets, {"/", "/etc", "/etc/app"}.__contains__)
    assert (found, list(found)) == (wanted, list(wanted))


def test_what_is_not_isolated_needs_nothing_to_enter_it(tmp_path: Path) -> None:
    assert isolation.entering(1 << 30) == ()
    assert isolation.Isolation("none", tmp_path).obstacle == "PENSTOCK_ISOLATION=none"
    assert list(tmp_path.iterdir()) == []


def test_required_isolation_is_refused_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    isolation.Isolation("auto", tmp_path).check()
    with pytest.raises(isolation.NotIsolated, match=r"is required.*no nsenter"):
        isolation.Isolation("required", tmp_path).check()


def test_what_runs_above_a_command_stays_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # As of an editable installation, whose modules a finder finds.
    monkeypatch.setattr("sys.path", [])
    assert any(Path(console.__file__).is_relative_to(folder) for folder in isolation.used_folders())
