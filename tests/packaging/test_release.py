"""A release is made from a clean tag alone, and has the same bytes wherever and whenever it is made."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
import yaml

from deploy.release import artifacts, checkout, tools
from deploy.release.checkout import Release, ReleaseRefused
from penstock import __version__
from tests.packaging.test_dependencies import LOCKED
from tests.support.paths import ROOT

pytestmark = pytest.mark.timeout(600)

#: The author of the commits that tests make, at a moment of its own.
COMMITTED = 1_700_000_000
_AUTHOR = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in
           {"NAME": "tests", "EMAIL": "tests@localhost", "DATE": f"{COMMITTED} +0000"}.items()}  # fmt: skip


def repository(folder: Path, *, commit: bool = True) -> Path:
    """A repository with the checkout's files, in one commit without a tag."""
    folder.mkdir()
    for name in (*artifacts.SOURCES, "release.lock", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    for name in artifacts.PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")
    return folder


def git(folder: Path, *words: str) -> None:
    environment = {**os.environ, **_AUTHOR, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(("git", *words), cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    root = repository(tmp_path_factory.mktemp("release") / "checkout")
    git(root, "tag", f"v{__version__}")
    return Release.of(root)


@pytest.fixture(scope="module")
def files(release: Release) -> dict[str, bytes]:
    return artifacts.make(release, tools.environment(ROOT))


def test_a_release_has_what_it_is_said_to_have(files: dict[str, bytes]) -> None:
    wanted = {
        "SHA256SUMS",
        "compose.yaml",
        "penstock-crds.yaml",
        "penstock-rbac.yaml",
        "penstock-volcano.yaml",
        "requirements.lock",
        f"penstock-{__version__}-py3-none-any.whl",
        f"penstock-{__version__}.tar.gz",
        f"penstock-{__version__}.cdx.json",
    }
    charts = {name for name in files if name.endswith(".tgz")}
    assert set(files) == wanted | charts
    assert len(charts) == (ROOT / artifacts.CHART).is_dir()


def test_a_release_has_the_same_bytes_from_another_folder_at_another_time(
    files: dict[str, bytes], release: Release, tmp_path: Path
) -> None:
    copy = tmp_path / "copy of it"
    shutil.copytree(release.root, copy)
    yesterday = time.time() - 86_400
    for path in copy.rglob("*"):
        if path.is_file() and ".git" not in path.parts:
            path.chmod(0o600)
            os.utime(path, (yesterday, yesterday))
    # Modes of the checkout are no change for git, which knows the executable bit alone.
    before = os.umask(0o077)
    try:
        again = artifacts.make(Release.of(copy), tools.environment(ROOT))
    finally:
        os.umask(before)
    assert {name for name in files if files[name] != again[name]} == set()


def test_the_wheel_bears_the_commits_time_and_modes_that_everybody_may_read(files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(io.BytesIO(files[f"penstock-{__version__}-py3-none-any.whl"])) as wheel:
        entries = wheel.infolist()
    assert {entry.date_time for entry in entries} == {(*time.gmtime(COMMITTED)[:5], COMMITTED % 60 // 2 * 2)}
    assert {oct(entry.external_attr >> 16 & 0o7777) for entry in entries} <= {"0o644", "0o664"}


def test_the_source_builds_the_wheel(files: dict[str, bytes], tmp_path: Path) -> None:
    named = f"penstock-{__version__}"
    with tarfile.open(fileobj=io.BytesIO(files[f"{named}.tar.gz"])) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    assert (tmp_path / named / "PKG-INFO").read_text().startswith("Metadata-Version: ")
    built = artifacts.build_wheel(tmp_path / named, tmp_path / "wheel", tools.environment(ROOT), COMMITTED)
    assert built.read_bytes() == files[built.name]


def test_the_parts_list_has_everything_that_the_lock_has(files: dict[str, bytes]) -> None:
    bom = json.loads(files[f"penstock-{__version__}.cdx.json"])
    assert bom["bomFormat"] == "CycloneDX"
    assert (bom["metadata"]["component"]["name"], bom["metadata"]["component"]["version"]) == ("penstock", __version__)
    assert {(part["name"], part["version"]) for part in bom["components"]} == {
        (name, version) for name, (version, _) in LOCKED.items()
    }
    for part in bom["components"]:
        assert part["externalReferences"][0]["hashes"], part["name"]


def test_the_checksums_are_those_of_all_files(files: dict[str, bytes]) -> None:
    lines = [line.split("  ") for line in files["SHA256SUMS"].decode().splitlines()]
    assert {name: hashlib.sha256(files[name]).hexdigest() for name in set(files) - {"SHA256SUMS"}} == {
        name: digest for digest, name in lines
    }


def test_the_definitions_are_those_of_the_checkout(files: dict[str, bytes]) -> None:
    names = {each["metadata"]["name"] for each in yaml.safe_load_all(files["penstock-crds.yaml"])}
    assert len(names) == len(list((ROOT / "deploy" / "crds").glob("*.yaml")))


def test_only_a_clean_commit_with_the_versions_tag_is_released(tmp_path: Path) -> None:
    root = tmp_path / "small"
    (root / "penstock").mkdir(parents=True)
    (root / "penstock" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "all")
    with pytest.raises(ReleaseRefused, match=r"the version is 1\.2\.3, but the commit has no tag, not v1\.2\.3"):
        Release.of(root)
    git(root, "tag", "v1.2.4")
    with pytest.raises(ReleaseRefused, match=r"has the tags v1\.2\.4, not v1\.2\.3"):
        Release.of(root)
    git(root, "tag", "v1.2.3")
    assert (Release.of(root).version, Release.of(root).moment) == ("1.2.3", COMMITTED)
    (root / "new").touch()
    with pytest.raises(ReleaseRefused, match=r"the tree is not clean: \?\? new$"):
        Release.of(root)
    with pytest.raises(ReleaseRefused, match="not a git repository"):
        checkout.git(tmp_path, "status")
