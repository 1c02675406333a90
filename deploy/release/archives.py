"""Archives whose bytes depend on names, modes and contents alone."""

import gzip
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path


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
