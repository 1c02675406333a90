"""The console of a command: its frames, its input, its terminal, its end."""

import asyncio
import os
import signal
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from deploy.local.kubelet.containers import console
from deploy.local.kubelet.containers.attempt import ContainerAttempt
from deploy.local.kubelet.containers.container_states import Terminated
from tests.support.conditions import eventually
from tests.support.processes import alive
from tests.support.tables import cases, for_each

ENV = {"PATH": os.environ["PATH"]}


@given(data=st.binary(max_size=3 * console.LONGEST), cut=st.integers(1, 5000))
def test_frames_carry_any_data_however_the_pipe_cuts_them(data: bytes, cut: int) -> None:
    sent = b"".join((*console.frames(console.DATA, data), *console.frames(console.END)))
    found, rest = [], b""
    for start in range(0, len(sent), cut):
        complete, rest = console.unpacked(rest + sent[start : start + cut])
        found += complete
    assert b"".join(part for kind, part in found if kind == console.DATA) == data
    assert (found[-1], rest) == ((console.END, b""), b"")


@given(st.binary(max_size=3 * console.LONGEST))
def test_no_frame_is_longer_than_what_a_pipe_takes_at_once(data: bytes) -> None:
    assert max(map(len, console.frames(console.DATA, data))) <= 4096


def started(folder: Path, script: str, reads: str) -> ContainerAttempt:
    attempt = ContainerAttempt(folder / "main" / "0")
    attempt.prepare()
    attempt.start(("sh", "-c", script), env=ENV, cwd="", reads=reads)
    return attempt


async def tell(attempt: ContainerAttempt, *frames: bytes) -> None:
    await attempt.begun()
    assert attempt.console is not None
    descriptor = os.open(attempt.console, os.O_WRONLY | os.O_NONBLOCK)
    for frame in frames:
        os.write(descriptor, frame)
    os.close(descriptor)


async def code(attempt: ContainerAttempt) -> int:
    await asyncio.wait_for(attempt.ended(), 30)
    state = attempt.state()
    assert isinstance(state, Terminated)
    return state.code


HELLO = tuple(console.frames(console.DATA, b"hello\n"))
END = tuple(console.frames(console.END))


@cases(
    ("input and its end", console.INPUT, "cat; echo over >&2", (*HELLO, *END), "hello\n", "over\n", 0),
    ("input after its end", console.INPUT, "cat", (*HELLO, *END, *HELLO), "hello\n", "", 0),
    ("input that nobody reads", console.INPUT, "exec <&-; sleep 0.1; exit 3", HELLO * 40, "", "", 3),
    ("an ending by a signal", console.INPUT, "read it; kill -9 $$", HELLO, "", "", 137),
    (
        "a terminal shows what is typed and both outputs",
        console.TERMINAL,
        "read it; echo over >&2",
        HELLO,
        "hello\r\nover\r\n",
        "",
        0,
    ),
    ("the end of a terminal's input", console.TERMINAL, "stty -echo; cat; exit 4", END, "", "", 4),
    (
        "the size of a terminal",
        console.TERMINAL,
        "stty -echo; read it; stty size",
        (console.window(33, 99), *HELLO),
        r"33 99\r\n",
        "",
        0,
    ),
)
async def test_a_command_reads_what_it_is_sent(
    reads: str, script: str, sent: tuple[bytes, ...], out: str, err: str, wanted: int, tmp_path: Path
) -> None:
    attempt = started(tmp_path, script, reads)
    await tell(attempt, *sent)
    assert await code(attempt) == wanted
    printed = (attempt.folder / "out").read_bytes().decode()
    # What is typed before the terminal stops showing it may be seen.
    assert printed.endswith(out.replace(r"\r\n", "\r\n"))
    assert (attempt.folder / "err").read_text() == err


@for_each(console.INPUT, console.TERMINAL)
async def test_a_command_below_a_console_is_signalled_and_killed(reads: str, tmp_path: Path) -> None:
    told = started(tmp_path / "told", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", reads)
    await eventually(lambda: b"ready" in (told.folder / "out").read_bytes())
    told.signal(signal.SIGTERM)
    assert await code(told) == 7
    killed = started(tmp_path / "killed", "trap '' HUP; echo ready; exec sleep 600", reads)
    await eventually(lambda: b"ready" in (killed.folder / "out").read_bytes())
    main = int((killed.folder / "main").read_text())
    killed.signal(signal.SIGKILL)
    assert await code(killed) == 137
    await eventually(lambda: not alive(main))


async def test_a_terminal_leaves_nothing_behind(tmp_path: Path) -> None:
    attempt = started(tmp_path, "trap '' HUP; sleep 600 & echo $!", console.TERMINAL)
    assert await code(attempt) == 0
    left = int((attempt.folder / "out").read_text())
    await eventually(lambda: not alive(left))
