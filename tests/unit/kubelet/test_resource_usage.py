"""The resource usage of pods: read from /proc, and written as PodMetrics."""

import os
from pathlib import Path

import pytest

from deploy.local.kubelet.containers.resource_usage import (
    Consumed,
    ContainerUsage,
    MeasuredContainer,
    UsageSample,
    metrics,
    sessions,
)
from tests.support.tables import cases
from workers.api.kinds import POD_METRICS, Ref
from workers.errors import AlreadyExists, NotFound, Unavailable

TICK, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "team", "uid": "u", "labels": {"app": "x"}, "resourceVersion": "9"},
}


def process(proc: Path, pid: int, session: int, times: tuple[int, int, int, int], pages: int, name: str = "sh") -> None:
    """A process as /proc tells of it. times: user, system, and the same of the children that were waited for."""
    fields = ["S", "1", str(session), str(session), *["0"] * 7, *map(str, times), *["0"] * 6, str(pages), *["0"] * 20]
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")


def test_processes_count_with_their_session(tmp_path: Path) -> None:
    process(tmp_path, 7, 7, (1 * TICK, 2 * TICK, 3 * TICK, 4 * TICK), 10)
    process(tmp_path, 8, 7, (5 * TICK, 0, 0, 0), 1, name="a) 99 (b")
    process(tmp_path, 9, 9, (0, 0, 0, 0), 2)
    (tmp_path / "10").mkdir()
    (tmp_path / "meminfo").touch()
    assert sessions(tmp_path) == {7: Consumed(15.0, 11 * PAGE), 9: Consumed(0.0, 2 * PAGE)}
    assert sessions(tmp_path / "nowhere") == {}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell it this way")
def test_this_very_process_is_among_them() -> None:
    own = sessions()[os.getsid(0)]
    assert own.cpu > 0
    assert own.memory > PAGE


BEFORE = UsageSample(100.0, {7: Consumed(10.0, 50), 8: Consumed(3.0, 9999)})


@cases(
    (
        "rates, and what is there now",
        {"main": 7, "side": 8},
        {7: Consumed(11.0, 4096), 8: Consumed(3.0, 2048)},
        [("main", "250000000n", "4Ki"), ("side", "0n", "2Ki")],
    ),
    ("less: no process waited for it", {"main": 7}, {7: Consumed(9.0, 0)}, [("main", "0n", "0Ki")]),
    ("one has just begun", {"main": 7, "new": 9}, {7: Consumed(11.0, 1), 9: Consumed(1.0, 1)}, None),
    ("one has just ended", {"main": 7}, {}, None),
    ("nothing runs", {}, {7: Consumed(11.0, 1)}, None),
)
def test_the_metrics_of_a_pod(containers, after, expected) -> None:
    written = metrics(MeasuredContainer(POD, containers), BEFORE, UsageSample(104.0, after), 1_790_000_000.0)
    if expected is None:
        assert written is None
        return
    assert [(each["name"], each["usage"]["cpu"], each["usage"]["memory"]) for each in written["containers"]] == expected
    assert (written["metadata"]["labels"], written["window"], written["timestamp"]) == (
        {"app": "x"},
        "4.000s",
        "2026-09-21T14:13:20Z",
    )
    assert written["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]


class Server:
    """Answers patches and creates with what it is written to."""

    def __init__(self, patch=None, create=None):
        self.answers = {"patch": patch, "create": create}
        self.asked = []

    async def patch(self, ref, body):
        return self._answer("patch", ref)

    async def create(self, kind, body):
        return self._answer("create", Ref(kind, "team", body["metadata"]["name"]))

    def _answer(self, verb, ref):
        assert ref == Ref(POD_METRICS, "team", "a")
        self.asked.append(verb)
        if error := self.answers[verb]:
            raise error


MISSING = NotFound("404", status=404)


@cases(
    ("known", Server(), ["patch"], True),
    ("new", Server(MISSING), ["patch", "create"], True),
    ("both at once", Server(MISSING, AlreadyExists("409", status=409)), ["patch", "create"], True),
    ("no such API", Server(MISSING, MISSING), ["patch", "create"], False),
    ("away", Server(Unavailable("away")), ["patch"], True),
)
async def test_writing_metrics(server, asked, goes_on) -> None:
    written = metrics(MeasuredContainer(POD, {"main": 7}), BEFORE, UsageSample(104.0, {7: Consumed(11.0, 1)}), 0.0)
    usage = ContainerUsage(server, lambda: (), lambda: 0.0)
    assert await usage._write(written) is goes_on
    assert server.asked == asked
