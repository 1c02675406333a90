"""The message of a container's end."""

from pathlib import Path
from typing import Any

import pytest

from deploy.local.kubelet.containers import termination_messages
from deploy.local.kubelet.containers.isolation import Bind
from deploy.local.kubelet.containers.log_files import Log
from tests.support.tables import cases
from tests.unit.kubelet.factories import box

FALLBACK = {"terminationMessagePolicy": "FallbackToLogsOnError"}
LINES = [f"line {number}\n" for number in range(100)]


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    folder = tmp_path / "pod" / "main" / "0"
    (folder / "work").mkdir(parents=True)
    return folder


async def message(attempt: Path, code: int, spec: dict[str, Any], *, out: str = "", **files: str) -> str:
    """The message of an attempt that printed this and left these files."""
    (attempt / "out").write_text(out)
    for name, text in files.items():
        (attempt / name.replace("_", "/")).write_text(text)
    log = Log(attempt, attempt / "0.log")
    await log.finish()
    return termination_messages.of_end(box("main", **spec), attempt, attempt / "0.log", code)


@cases(
    ("no file", {}, {}, ""),
    ("what it wrote", {"terminationMessagePath": "/why"}, {"message": "lost\n"}, "lost\n"),
    ("in its working directory", {"terminationMessagePath": "why"}, {"work_why": "lost"}, "lost"),
    ("not in another file there", {"terminationMessagePath": "how"}, {"work_why": "lost"}, ""),
    ("the end of much", {"terminationMessagePath": "/why"}, {"message": "x" * 5000 + "end"}, "x" * 4093 + "end"),
    ("no output without the policy", {}, {"out": "bye"}, ""),
    ("the output with it", FALLBACK, {"out": "bye\n"}, "bye\n"),
    ("a line that has no end", FALLBACK, {"out": "so\nlong"}, "so\nlong"),
    ("rather the file", {"terminationMessagePath": "/why", **FALLBACK}, {"message": "lost", "out": "bye"}, "lost"),
    ("eighty lines", FALLBACK, {"out": "".join(LINES)}, "".join(LINES[20:])),
    ("two kibibytes", FALLBACK, {"out": "y" * 70_000 + "end\n"}, "y" * 2044 + "end\n"),
)
async def test_a_failed_container_leaves(
    spec: dict[str, Any], files: dict[str, str], wanted: str, attempt: Path
) -> None:
    assert await message(attempt, 1, spec, **files) == wanted


async def test_a_container_that_succeeded_leaves_its_file_and_no_output(attempt: Path) -> None:
    spec = {"terminationMessagePath": "/why", **FALLBACK}
    assert await message(attempt, 0, spec, out="bye") == ""
    assert await message(attempt, 0, spec, out="bye", message="done") == "done"


async def test_a_link_in_the_place_of_the_file_is_not_followed(attempt: Path) -> None:
    (attempt / "secret").write_text("hush")
    (attempt / "work" / "why").symlink_to(attempt / "secret")
    assert await message(attempt, 1, {"terminationMessagePath": "why"}) == ""


@cases(
    ("a path of its own", {"terminationMessagePath": "/var/log/why"}, "/var/log/why"),
    ("the default", {}, "/dev/termination-log"),
    ("in the working directory", {"terminationMessagePath": "why"}, None),
    ("in the container's /tmp", {"terminationMessagePath": "/tmp/why"}, None),
    ("in a volume", {"terminationMessagePath": "/v/why", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}, None),
    ("the root", {"terminationMessagePath": "/"}, None),
    ("the kernel's", {"terminationMessagePath": "/var/../proc/why"}, None),
)
def test_the_file_is_mounted(spec: dict[str, Any], target: str | None) -> None:
    attempt = Path("/var/lib/pods/u/main/0")
    found = termination_messages.bind(box("main", **spec), attempt, has_default=True)
    assert found == (None if target is None else Bind(attempt / "message", Path(target)))


def test_the_file_is_not_mounted_at_a_default_path_that_this_machine_does_not_have() -> None:
    assert termination_messages.bind(box("main"), Path("/var/lib/pods/u/main/0"), has_default=False) is None
