"""The files of a release: wheel, source, manifests, chart, parts list and checksums."""

import gzip
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml

from deploy.release.checkout import Release, export
from deploy.release.tools import Tools

#: What a build of the wheel reads, and what tells of it.
SOURCES = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "requirements.lock", "setup.py")
PACKAGES = ("penstock", "scheduler", "workers", "scalers", "deploy")
CHART = Path("deploy", "helm", "penstock")
#: Single files of a release by their names there.
SINGLE = {
    "compose.yaml": Path("deploy", "compose.yaml"),
    "penstock-rbac.yaml": Path("deploy", "rbac.yaml"),
    "penstock-volcano.yaml": Path("deploy", "volcano.yaml"),
    "requirements.lock": Path("requirements.lock"),
}


def make(release: Release, tools: Tools) -> dict[str, bytes]:
    """Returns every file of a release by its name, checksums last."""
    with tempfile.TemporaryDirectory(prefix="penstock-release-") as name:
        source = Path(name) / "source"
        source.mkdir()
        export(release.root, release.revision, source)
        files = {name: (source / path).read_bytes() for name, path in SINGLE.items() if (source / path).exists()}
        files["penstock-crds.yaml"] = definitions(source)
        wheel = build_wheel(source, Path(name) / "wheel", tools, release.moment)
        files[wheel.name] = wheel.read_bytes()
        files[f"penstock-{release.version}.tar.gz"] = source_archive(source, wheel, release)
        if (source / CHART).is_dir():
            chart = yaml.safe_load((source / CHART / "Chart.yaml").read_text(encoding="utf-8"))
            content = packed(folder_files(source / CHART), chart["name"], release.moment)
            files[f"{chart['name']}-{chart['version']}.tgz"] = content
        files[f"penstock-{release.version}.cdx.json"] = parts_list(source, tools, release)
    return {**files, "SHA256SUMS": checksums(files)}


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Writes the files into a folder, in which nothing else stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def definitions(source: Path) -> bytes:
    """Returns the CustomResourceDefinitions of a checkout as one stream of documents."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((source / "deploy" / "crds").glob("*.yaml"))]
    return "".join(text if text.startswith("---") else f"---\n{text}" for text in texts).encode()


def build_wheel(source: Path, folder: Path, tools: Tools, moment: int) -> Path:
    """Returns the wheel of a folder of sources. moment: the time that its entries bear, seconds since 1970.

    It is built by the setuptools of the tools: another version would write its own name into the wheel.
    """
    words = ("-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    _run((tools.python, *words, "--wheel-dir", str(folder), str(source)), moment)
    [wheel] = folder.glob("*.whl")
    return wheel


def source_archive(source: Path, wheel: Path, release: Release) -> bytes:
    """Returns the sdist: what a build of the wheel reads, with the wheel's metadata as PKG-INFO."""
    named = f"penstock-{release.version}"
    files = {name: (source / name).read_bytes() for name in SOURCES}
    for package in PACKAGES:
        files |= {f"{package}/{name}": content for name, content in folder_files(source / package).items()}
    with zipfile.ZipFile(wheel) as archive:
        files["PKG-INFO"] = archive.read(f"{named}.dist-info/METADATA")
    return packed(files, named, release.moment)


def parts_list(source: Path, tools: Tools, release: Release) -> bytes:
    """Returns the SBOM of an installation with every extra, CycloneDX in JSON, from requirements.lock."""
    words = ("requirements", "--pyproject", "pyproject.toml", "--output-format", "JSON", "--output-reproducible")
    said = _run((tools.program("cyclonedx-py"), *words, "requirements.lock"), release.moment, source)
    bom: dict[str, Any] = json.loads(said)
    # The project's file has no version, which is in the package.
    described = bom["metadata"]["component"]
    described["version"] = release.version
    described["purl"] = f"pkg:pypi/penstock@{release.version}"
    for part in bom["components"]:
        # The line of the lock again, with all its hashes.
        part.pop("description", None)
    return json.dumps(bom, indent=2, sort_keys=True).encode() + b"\n"


def checksums(files: Mapping[str, bytes]) -> bytes:
    """Returns the lines that `sha256sum --check` reads."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items())
    ).encode()


def _run(words: Sequence[str], moment: int, folder: Path | None = None) -> bytes:
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(moment), "PYTHONHASHSEED": "0"}
    # A mode of what a build writes is in the wheel.
    done = subprocess.run(words, cwd=folder, env=variables, stdout=subprocess.PIPE, umask=0o022)
    done.check_returncode()
    return done.stdout


def folder_files(folder: Path) -> dict[str, bytes]:
    """Returns the contents of all files of a folder by their paths in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def packed(files: Mapping[str, bytes], top: str, moment: int) -> bytes:
    """Returns a gzipped tar of files below one folder. moment: the time that every entry bears, seconds since 1970."""
    plain = BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), moment, 0o644
            archive.addfile(entry, BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=moment)
