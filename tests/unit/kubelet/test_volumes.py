"""Volumes as folders."""

import stat
from pathlib import Path

import pytest

from deploy.local.kubelet.containers.environment import ConfigProblem, Sources
from deploy.local.kubelet.volumes import folders
from deploy.local.kubelet.volumes.account_files import TOKEN_REQUEST
from deploy.local.kubelet.volumes.folders import Files
from tests.support.tables import cases
from tests.unit.kubelet.factories import box, pod
from workers.api.kinds import CONFIG_MAP, SECRET, Object

SOURCES: Sources = {(CONFIG_MAP, "conf"): {"a": b"1", "b": b"2"}, (SECRET, "word"): {"s": b"hush"}}
TOKENS: Sources = {(TOKEN_REQUEST, ""): {"token": b"mine"}, (TOKEN_REQUEST, "vault"): {"token": b"theirs"}}
LABELS = {"fieldRef": {"fieldPath": "metadata.labels"}}


@cases(
    ("empty", {"emptyDir": {}}, {}),
    ("all keys", {"configMap": {"name": "conf"}}, {"a": (b"1", 0o644), "b": (b"2", 0o644)}),
    ("some keys", {"configMap": {"name": "conf", "items": [{"key": "a", "path": "x/y"}]}}, {"x/y": (b"1", 0o644)}),
    ("optional object", {"configMap": {"name": "no", "optional": True}}, {}),
    ("optional key", {"configMap": {"name": "conf", "items": [{"key": "no", "path": "x"}], "optional": True}}, {}),
    ("secret", {"secret": {"secretName": "word", "defaultMode": 0o400}}, {"s": (b"hush", 0o400)}),
    ("downward", {"downwardAPI": {"items": [{"path": "labels", **LABELS}]}}, {"labels": (b'k="v"', 0o644)}),
    (
        "projected",
        {"projected": {"sources": [{"secret": {"name": "word"}}, {"serviceAccountToken": {"path": "token"}}]}},
        {"s": (b"hush", 0o644), "token": (b"mine", 0o644)},
    ),
    (
        "a token for others",
        {"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}], "defaultMode": 0o400}},
        {"t": (b"theirs", 0o400)},
    ),
)
def test_files(volume: Object, wanted: Files) -> None:
    assert folders.files(pod(meta={"labels": {"k": "v"}}), {"name": "v", **volume}, {**SOURCES, **TOKENS}) == wanted


@cases(
    ("missing object", {"configMap": {"name": "no"}}, 'volume v: ConfigMap "no" not found'),
    (
        "missing key",
        {"secret": {"secretName": "word", "items": [{"key": "x", "path": "x"}]}},
        'volume v: Secret has no key "x"',
    ),
    ("unknown kind", {"nfs": {"server": "s"}}, "volume v: nfs is not supported"),
    ("no source", {}, "volume v: a volume without a source"),
    (
        "upwards",
        {"secret": {"secretName": "word", "items": [{"key": "s", "path": "../up"}]}},
        "volume v: path '../up' leads",
    ),
    (
        "absolute",
        {"secret": {"secretName": "word", "items": [{"key": "s", "path": "/abs"}]}},
        "volume v: path '/abs' leads",
    ),
)
def test_what_cannot_be_made_is_named(volume: Object, message: str) -> None:
    with pytest.raises(ConfigProblem) as raised:
        folders.files(pod(), {"name": "v", **volume}, SOURCES)
    assert str(raised.value).startswith(message)


def test_filling_keeps_other_files_and_renews_given_ones(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    folders.fill(folder, {"x/secret": (b"old", 0o400)})
    (folder / "own").write_text("kept")
    folders.fill(folder, {"x/secret": (b"new", 0o400)})
    assert (folder / "x/secret").read_bytes() == b"new"
    assert (folder / "x/secret").stat().st_mode & 0o777 == 0o400
    assert (folder / "own").read_text() == "kept"


def test_filling_again_takes_nothing_from_those_who_read(tmp_path: Path) -> None:
    folder, given = tmp_path / "v", {"same": (b"same", 0o400), "other": (b"old", 0o644), "mode": (b"m", 0o644)}
    folders.fill(folder, given)
    before = {name: (folder / name).stat().st_ino for name in given}
    with (folder / "other").open("rb") as reader:
        folders.fill(folder, {**given, "other": (b"new", 0o644), "mode": (b"m", 0o600)})
        # A file that is written anew would be empty for a moment.
        assert reader.read() == b"old"
    kept = {name for name in given if (folder / name).stat().st_ino == before[name]}
    assert kept == {"same"}
    assert (folder / "other").read_bytes() == b"new"
    assert stat.S_IMODE((folder / "mode").stat().st_mode) == 0o600
    assert {path.name for path in folder.iterdir()} == set(given)


def test_references_name_every_object_a_volume_needs() -> None:
    listed = [
        {"name": "a", "configMap": {"name": "conf"}},
        {"name": "b", "projected": {"sources": [{"secret": {"name": "word"}}]}},
        {"name": "c", "emptyDir": {}},
    ]
    assert list(folders.references(listed)) == [(CONFIG_MAP, "conf"), (SECRET, "word")]


def test_a_host_path_is_itself() -> None:
    assert folders.host_path({"name": "v", "hostPath": {"path": "/data"}}) == "/data"
    assert folders.host_path(box("v")) is None
