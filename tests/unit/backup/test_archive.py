"""The file of a backup: long values are written in pieces, and read as they were."""

import gzip
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.backup import archive
from deploy.backup.archive import BackupHeader, BackupWriter, SavedKey
from tests.support.tables import for_each
from workers.errors import UserError

TEXTS = st.text(max_size=20).map(str.encode) | st.binary(max_size=20)
VALUES = st.recursive(TEXTS | st.none() | st.integers(0, 9), lambda inner: st.lists(inner, max_size=7), max_leaves=30)


def test_pieces_are_the_json_of_the_whole_value() -> None:
    with pytest.MonkeyPatch.context() as small:
        small.setattr(archive, "PIECE", 3)
        small.setattr(archive, "TOGETHER", 2)

        @given(VALUES)
        def same(value: Any) -> None:
            assert orjson.loads(b"".join(archive._pieces(value))) == orjson.loads(orjson.dumps(archive._encoded(value)))

        same()


@for_each(b"\xff" * 10, "é".encode() * 10, [b"a" * 10, b"b", [b"\xfe" * 7, None]], b"", [])
def test_what_is_written_in_pieces_is_read_as_it_was(
    value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PIECE", 3)
    writer = BackupWriter(tmp_path / "a", BackupHeader("p", "t", "s"))
    keys = {"k": SavedKey("string", None, value), "l": SavedKey("list", 5, [b"x"])}
    writer.add("it", keys)
    writer.finish()
    assert list(archive.read(archive.verify(tmp_path / "a"))) == [("it", keys)]


def test_no_piece_is_much_longer_than_the_bound() -> None:
    value = b"x" * (3 * archive.PIECE) + b"\n"
    assert max(map(len, archive._pieces([value, b"a"]))) <= archive.PIECE + 100


@for_each({"penstock-backup": 1}, {"penstock-backup": 1, "prefix": 1, "taken": "t", "server": "s", "format": ""})
def test_a_header_that_lacks_a_text_is_refused(header: dict[str, object], tmp_path: Path) -> None:
    line = orjson.dumps(header) + b"\n"
    end = orjson.dumps({"objects": 0, "sha256": sha256(line).hexdigest()}) + b"\n"
    (tmp_path / "a").write_bytes(gzip.compress(line + end))
    with pytest.raises(UserError, match="is no backup, or damaged"):
        archive.verify(tmp_path / "a")


def test_the_name_of_a_backup_is_on_the_disk_as_its_content_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[bool, bool]] = []

    def fsync(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), (tmp_path / "a").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    BackupWriter(tmp_path / "a", BackupHeader("p", "t", "s")).finish()
    # A power cut after `finish` must leave the file with its name.
    assert synced == [(False, False), (True, True)]
