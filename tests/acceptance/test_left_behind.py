"""Parts and guards of `penstock up` that are killed, and the next `penstock up` after that."""

import signal
from pathlib import Path

import psutil
import pytest
import yaml

from tests.support.terminal import Terminal, family, gone, running, until


@pytest.mark.timeout(300)
def test_up_replaces_its_guard_and_the_next_one_ends_what_nobody_could(tmp_path: Path) -> None:
    terminal = Terminal.of(tmp_path)

    def guards(pid: int) -> list[psutil.Process]:
        """Those of `up` itself, that live: the kubelet has one of its own."""
        children = psutil.Process(pid).children()
        return [each for each in children if not gone([each]) and any("guard.py" in word for word in each.cmdline())]

    with running(terminal, tmp_path / "up.log") as process:
        (first,) = guards(process.pid)
        first.kill()
        until(lambda: guards(process.pid), "there is another guard")
        until(lambda: "the guard died and is started again" in (tmp_path / "up.log").read_text(), "and it is said")
        # Now both at once: nothing is left that could end the parts.
        left = family(process.pid)
        psutil.Process(process.pid).suspend()
        for guard in guards(process.pid):
            guard.kill()
        process.kill()
        process.wait()
    parts = [each for each in left if not gone([each])]
    assert parts
    with running(terminal, tmp_path / "again.log"):
        assert gone(parts)
        said = (tmp_path / "again.log").read_text()
        assert "left behind by an earlier run, and ended now, parts apiserver, beat, broker, gateway, kubelet" in said
        assert terminal.type("get", "namespaces").startswith("NAME")


def words(process: psutil.Process) -> list[str]:
    """The command line of a process; empty for one that has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


@pytest.mark.timeout(300)
def test_no_pod_outlives_an_up_that_was_told_twice(tmp_path: Path) -> None:
    terminal = Terminal.of(tmp_path)
    script = "trap '' TERM; touch /mine/runs; while :; do sleep 0.1; done"
    mounts = [{"name": "mine", "mountPath": "/mine"}]
    containers = [{"name": "main", "image": "none", "command": ["sh", "-c", script], "volumeMounts": mounts}]
    spec = {"containers": containers, "volumes": [{"name": "mine", "hostPath": {"path": str(tmp_path)}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "deaf"}, "spec": spec}
    with running(terminal, tmp_path / "up.log") as process:
        terminal.type("apply", "-f", "-", stdin=yaml.safe_dump(pod))
        until((tmp_path / "runs").exists, "it runs")
        left = [each for each in family(process.pid) if script in words(each)]
        assert left
        process.send_signal(signal.SIGINT)

        def ended() -> bool:
            process.send_signal(signal.SIGINT)
            return process.poll() is not None

        until(ended, "up has ended")
        assert gone(left)
