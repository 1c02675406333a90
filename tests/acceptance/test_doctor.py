"""`penstock doctor` beside a running Penstock."""

import json
import subprocess

from tests.support.terminal import Terminal


def test_beside_a_running_penstock_nothing_is_wrong(up: subprocess.Popen[bytes], terminal: Terminal) -> None:
    found = {each["check"]: each for each in json.loads(terminal.type("doctor", "-o", "json"))}
    judged = ("home", "ports", "broker", "broker maxmemory-policy", "broker appendonly", "broker clients", "cluster")
    assert {name: found[name]["level"] for name in (*judged, "cluster rights", "clocks")} == dict.fromkeys(
        (*judged, "cluster rights", "clocks"), "ok"
    )
    assert f"(pid {up.pid})" in found["home"]["text"]
    assert "agree with the broker and the API server" in found["clocks"]["text"]
    assert "VERDICT" in terminal.type("doctor")
