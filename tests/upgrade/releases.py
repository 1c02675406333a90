"""The files of the last release, taken from this repository's history."""

from pathlib import Path

import pytest
import yaml

from deploy.release.checkout import ReleaseRefused, export
from tests.support.paths import ROOT
from workers.api.kinds import Object

#: The file with the commit of the last release.
LAST = Path(__file__).with_name("last_release.txt")


def last_release(folder: Path) -> Path:
    """Unpacks the last release into a folder of its own and returns that; skips the test without that history."""
    commit = LAST.read_text().strip()
    tree = folder / "last"
    try:
        export(ROOT, commit, tree)
    except ReleaseRefused:
        pytest.skip(f"commit {commit} is not in this clone: NOT tested with the last release")
    return tree


def definitions(tree: Path) -> list[Object]:
    """Returns the custom resource definitions of a release."""
    files = sorted((tree / "deploy" / "crds").glob("*.yaml"))
    return [body for file in files for body in yaml.safe_load_all(file.read_text()) if body]
