"""Kubeconfig files, merged as kubectl merges them: of equal names the first counts, paths are relative to their file.

Shell completion reads them at every key, so this module imports little.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from workers.errors import UserError

#: libyaml's parser takes a tenth of the time of the other one.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class KubeconfigEntry:
    """The fields of an entry, and the folder of the file that it came from."""

    fields: dict[str, Any]
    folder: Path


@dataclass(frozen=True, slots=True)
class MergedKubeconfig:
    """The contents of files. current: the context of the first file that names one; empty for none."""

    contents: Sequence[tuple[Path, dict[str, Any]]]
    current: str

    @classmethod
    def read(cls, files: Iterable[Path]) -> "MergedKubeconfig":
        """Returns the contents of those files that exist. Raises UserError, naming it, for one that is none."""
        contents = [(file, _read(file)) for file in files if file.is_file()]
        named = (str(content["current-context"]) for _, content in contents if content.get("current-context"))
        return cls(contents, next(named, ""))

    def entries(self, section: Literal["contexts", "clusters", "users"]) -> dict[str, KubeconfigEntry]:
        """Returns the entries of a section by name. Raises UserError, naming the file, if they are none."""
        found: dict[str, KubeconfigEntry] = {}
        for file, content in self.contents:
            try:
                for each in content.get(section) or ():
                    fields = dict(each.get(section[:-1]) or {})
                    found.setdefault(each["name"], KubeconfigEntry(fields, file.absolute().parent))
            except (ValueError, AttributeError, KeyError, TypeError) as error:
                raise _unusable(file, error) from error
        return found


def _read(file: Path) -> dict[str, Any]:
    try:
        return parsed(file, file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unusable(file, error) from error


def parsed(path: Path, text: str) -> dict[str, Any]:
    """Returns the content of a kubeconfig; an empty file has none. Raises UserError if it is none."""
    try:
        content = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise _unusable(path, error) from error
    if content is not None and not isinstance(content, dict):
        raise _unusable(path, "it is no mapping")
    return content or {}


def _unusable(path: Path, why: object) -> UserError:
    return UserError(f"{path}: not a usable kubeconfig: {why}")
