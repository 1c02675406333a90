"""The log files of containers."""

import os
import re
import resource
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deploy.local import log_parts
from deploy.local.kubelet.containers import log_files
from deploy.local.kubelet.containers.log_files import LONGEST, Log
from tests.support.tables import cases

LINE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) (.*)", re.DOTALL)


def printed(folder: Path, name: str, data: bytes) -> None:
    with (folder / name).open("ab") as file:
        file.write(data)


def lines(log: Path) -> list[tuple[bytes, ...]]:
    found = []
    for line in log.read_bytes().split(b"\n")[:-1]:
        match = LINE.fullmatch(line)
        assert match, line
        found.append(match.groups())
    return found


def texts(log: Path, stream: bytes) -> bytes:
    """Returns the bytes of one stream that a reader of the log gets."""
    found = (line for part in (*log_parts.earlier(log), log) for line in lines(part))
    return b"".join(text + (b"\n" if kind == b"F" else b"") for which, kind, text in found if which == stream)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "main" / "0.log"


OUT, ERR = b"stdout", b"stderr"


@cases(
    ("each line names its stream", {"out": b"one\n", "err": b"two\n"}, [(OUT, b"F", b"one"), (ERR, b"F", b"two")]),
    ("a line that is not whole waits", {"out": b"one\nhel"}, [(OUT, b"F", b"one")]),
    ("a long line comes in pieces", {"out": b"x" * LONGEST + b"y\n"}, [(OUT, b"P", b"x" * LONGEST), (OUT, b"F", b"y")]),
)
async def test_what_is_printed_is_logged(
    written: dict[str, bytes], logged: list[tuple[bytes, ...]], folder: Path, path: Path
) -> None:
    log = Log(folder, path)
    for name, data in written.items():
        printed(folder, name, data)
    log.pump()
    assert lines(path) == logged
    printed(folder, "out", b"bye")
    await log.finish()
    # What has no line end in the end is partial.
    rest = written["out"].rpartition(b"\n")[2] + b"bye"
    assert lines(path) == [*logged, (OUT, b"P", rest)]


async def test_one_call_copies_a_bounded_amount_and_the_rest_follows(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "CHUNK", 64)
    printed(folder, "out", b"0123456789\n" * 100)
    log = Log(folder, path)
    assert log.pump()
    assert 0 < len(lines(path)) < 10
    await log.finish()
    assert texts(path, b"stdout") == b"0123456789\n" * 100


def test_a_log_torn_by_a_crash_is_mended(folder: Path, path: Path) -> None:
    printed(folder, "out", b"one\ntwo\n")
    Log(folder, path).pump()
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    Log(folder, path).pump()
    assert texts(path, b"stdout") == b"one\ntwo\n"
    assert len(lines(path)) == 2


def emptied(folder: Path, name: str, data: bytes) -> None:
    """Empties the file and prints, as the shell does for ``> /dev/stdout``."""
    file = folder / name
    later = file.stat().st_mtime_ns + 10**9
    file.write_bytes(data)
    os.utime(file, ns=(later, later))


@cases(
    ("a shorter text", b"a\n"),
    ("a text as long", b"two\n"),
    ("a longer text", b"a line that is longer\n"),
    ("two lines", b"a\nb\n"),
)
async def test_what_is_printed_into_an_emptied_file_is_logged(after: bytes, folder: Path, path: Path) -> None:
    printed(folder, "out", b"one\n")
    log = Log(folder, path)
    log.pump()
    emptied(folder, "out", after)
    log.pump()
    assert texts(path, OUT) == b"one\n" + after
    # A kubelet that starts again goes on where this one was.
    for number in range(2):
        log = Log(folder, path)
        printed(folder, "out", b"more %d\n" % number)
        log.pump()
    emptied(folder, "out", b"last")
    await log.finish()
    assert texts(path, OUT) == b"one\n" + after + b"more 0\nmore 1\nlast"


def test_an_output_that_is_never_emptied_leaves_no_note(folder: Path, path: Path) -> None:
    printed(folder, "out", b"")
    printed(folder, "err", b"one\n")
    log = Log(folder, path)
    for text in (b"two\n", b"thr", b"ee\n"):
        log.pump()
        printed(folder, "err", text)
    log.pump()
    assert {file.name for file in folder.iterdir()} == {"out", "err"}


def test_what_a_full_disk_does_not_take_is_logged_later(folder: Path, path: Path) -> None:
    log = Log(folder, path)
    printed(folder, "out", b"one\n")
    log.pump()
    printed(folder, "out", b"two\nthree\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Room for half a line: a write stops there, as on a disk that fills up.
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.pump()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert texts(path, OUT) == b"one\n"
    log.pump()
    assert texts(path, OUT) == b"one\ntwo\nthree\n"


async def test_an_end_does_not_wait_for_a_log_that_cannot_be_written(
    folder: Path, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(folder, path)
    printed(folder, "out", b"one\n")
    shutil.rmtree(path.parent)
    await log.finish()
    assert [record.message for record in caplog.records] == ["the last output could not be copied"]
    assert log_files.last(path, 10, 100) == b""


def numbers(first: int, end: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(first, end))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs go on in a new file after a few lines."""
    monkeypatch.setattr(log_files, "LARGEST", 500)


async def test_a_long_log_is_kept_in_a_few_files(folder: Path, path: Path, small: None) -> None:
    log = Log(folder, path)
    for number in range(0, 1000, 10):
        # The kubelet starts again now and then.
        log = log if number % 50 else Log(folder, path)
        printed(folder, "out", numbers(number, number + 10))
        log.pump()
    await log.finish()
    assert len(list(path.parent.iterdir())) == log_files.MOST_PARTS
    assert sum(part.stat().st_size for part in path.parent.iterdir()) < 2 * log_files.MOST_PARTS * 500
    found = texts(path, OUT)
    assert len(found) > 200
    assert numbers(0, 1000).endswith(found)


async def test_a_crash_while_a_log_goes_on_in_a_new_file_repeats_nothing(folder: Path, path: Path) -> None:
    printed(folder, "out", b"one\n")
    printed(folder, "err", b"two\n")
    Log(folder, path).pump()
    os.link(path, log_parts.named(path, 4, 4))
    printed(folder, "out", b"three\n")
    await Log(folder, path).finish()
    assert (texts(path, OUT), texts(path, ERR)) == (b"one\nthree\n", b"two\n")
    assert [text for _, _, text in lines(path)] == [b"three"]


@pytest.mark.skipif(sys.platform != "linux", reason="files have no holes there")
async def test_what_is_copied_takes_no_space_beside_the_log(folder: Path, path: Path) -> None:
    log, line = Log(folder, path), b"x" * 1023 + b"\n"
    for _ in range(6):
        printed(folder, "out", line * 512)
        log.pump()
    assert (folder / "out").stat().st_blocks * 512 < 2 * 1024 * 1024
    # That is no change of the command's own, as emptying the file is.
    log.pump()
    printed(folder, "out", b"bye\n")
    log.pump()
    assert texts(path, OUT) == line * 512 * 6 + b"bye\n"
    emptied(folder, "out", b"again\n")
    await Log(folder, path).finish()
    assert texts(path, OUT).endswith(b"x\nbye\nagain\n")


async def test_the_oldest_output_is_left_out_of_one_that_comes_too_fast(
    folder: Path, path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "CHUNK", 600)
    log = Log(folder, path)
    printed(folder, "err", b"before\n")
    for number in range(3):
        printed(folder, "out", numbers(number * 1000, number * 1000 + 1000))
        log.pump()
        log = Log(folder, path)
    printed(folder, "out", b"end\n")
    await log.finish()
    assert numbers(0, 3000).endswith(texts(path, OUT).removesuffix(b"end\n")[-100:])
    assert texts(path, OUT).endswith(b"2999\nend\n")
    assert len(list(path.parent.iterdir())) <= log_files.MOST_PARTS


async def test_the_end_of_a_log_may_be_in_two_files(folder: Path, path: Path, small: None) -> None:
    log = Log(folder, path)
    for number in range(20):
        printed(folder, "out", b"%d\n" % number)
        log.pump()
    assert log_files.last(path, 15, 1000) == numbers(5, 20)
    assert log_files.last(path, 100, 1000) == numbers(0, 20)


ALPHABET = st.binary(max_size=40) | st.sampled_from([b"\n", b"\n\n", b"a b F c\n", b"\r\n", b"x" * (LONGEST + 3)])
STEP = st.tuples(st.sampled_from(["out", "err"]), ALPHABET) | st.just("pump") | st.just("crash")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(steps=st.lists(STEP, max_size=25), largest=st.sampled_from((200, log_files.LARGEST)))
async def test_every_byte_is_logged_once_after_any_crashes(
    steps: list[tuple[str, bytes] | str],
    largest: int,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_files, "LARGEST", largest)
    monkeypatch.setattr(log_files, "MOST_PARTS", 1000)
    base = tmp_path_factory.mktemp("log")
    path, log = base / "0.log", Log(base, base / "0.log")
    wanted = {"out": b"", "err": b""}
    for step in steps:
        if step == "pump":
            log.pump()
        elif step == "crash":
            log = Log(base, path)
        else:
            name, data = step
            printed(base, name, data)
            wanted[name] += data
    await log.finish()
    assert texts(path, b"stdout") == wanted["out"]
    assert texts(path, b"stderr") == wanted["err"]
