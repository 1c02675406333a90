"""The commit that is released: it is clean, and its tag names the version."""

import re
import subprocess
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from workers.errors import UserError

_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


class ReleaseRefused(UserError):  # noqa: N818 - says what it is
    """Nothing is released: the message says what is wrong with the checkout."""


@dataclass(frozen=True, slots=True)
class Release:
    """A released commit. revision: its full hash. moment: of the commit, seconds since 1970."""

    root: Path
    version: str
    revision: str
    moment: int

    @classmethod
    def of(cls, root: Path) -> "Release":
        """Returns the release of a checkout's commit.

        Raises ReleaseRefused if the tree has changes, or if no tag of the commit is its version with a `v` before it.
        """
        if changes := git(root, "status", "--porcelain").decode().splitlines():
            raise ReleaseRefused(
                f"{root}: the tree is not clean: {changes[0].strip()}"
                + (f" and {len(changes) - 1} more" if len(changes) > 1 else "")
            )
        version = version_of(root)
        tags = git(root, "tag", "--points-at", "HEAD").decode().split()
        if f"v{version}" not in tags:
            has = f"has the tags {', '.join(tags)}" if tags else "has no tag"
            raise ReleaseRefused(
                f"penstock/__init__.py: the version is {version}, but the commit {has}, not v{version}"
            )
        return cls(
            root=root,
            version=version,
            revision=git(root, "rev-parse", "HEAD").decode().strip(),
            moment=int(git(root, "log", "-1", "--format=%ct")),
        )


def export(root: Path, revision: str, folder: Path) -> None:
    """Writes a commit's files into a folder; their modes are those of the commit, under every umask.

    Raises ReleaseRefused if the checkout does not have the commit.
    """
    packed = git(root, "-c", "tar.umask=0022", "archive", "--format=tar", revision)
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        # As an attribute: the argument came with Python 3.11.4.
        archive.extraction_filter = _as_packed
        archive.extractall(folder)


def _as_packed(member: tarfile.TarInfo, _: str) -> tarfile.TarInfo:
    # The archive is git's own. Python's filters would change modes.
    return member


def version_of(root: Path) -> str:
    """Returns the version that the package of a checkout names."""
    found = _VERSION.search((root / "penstock" / "__init__.py").read_text(encoding="utf-8"))
    if found is None:
        raise ReleaseRefused("penstock/__init__.py: there is no __version__")
    return found[1]


def git(root: Path, *words: str) -> bytes:
    """Returns the output of a git command in a checkout. Raises ReleaseRefused with git's own words if it fails."""
    try:
        done = subprocess.run(("git", *words), cwd=root, capture_output=True)
    except FileNotFoundError:
        raise ReleaseRefused("git is not installed") from None
    if done.returncode:
        raise ReleaseRefused(f"git {words[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
