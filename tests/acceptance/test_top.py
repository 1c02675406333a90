"""`penstock top --once` and completion of names, as a user types them beside a running Penstock."""

import json
import os
import subprocess

from deploy.cli.top import top_rows
from tests.acceptance.test_observability import scaled_job
from tests.support.terminal import COMMAND, Terminal, environment, until


def test_objects_and_the_pipeline_are_printed_once(up: subprocess.Popen[bytes], terminal: Terminal) -> None:
    terminal.type("apply", "-f", "-", stdin=scaled_job("watched", "import time; time.sleep(600)"))
    try:
        terminal.type("push", "watched", "--data", "x")

        def row() -> dict[str, object]:
            found = json.loads(terminal.type("top", "--once", "-o", "json"))
            assert set(found["lanes"]) == {"reconcile", "poll"}
            return next(each for each in found["objects"] if each["name"] == "watched")

        until(lambda: row()["active"] == 1, "its Job is shown")
        assert row()["state"] in ("Idle", "Active")
        lines = terminal.type("top", "--kind", "sj", "--filter", "watched").splitlines()
        assert lines[0].startswith("reconcile ")
        assert lines[3].split() == list(top_rows.COLUMNS)
        assert lines[4].split()[:4] == ["ScaledJob", "default", "watched", row()["state"]]
        assert len(lines) == 5
        assert "none of eventjobs, scaledjobs" in terminal.type("top", "--once", "--kind", "pods", code=1)
        assert complete(terminal, "penstock", "describe", "sj", "watch") == ["watched"]
        assert complete(terminal, "penstock", "get", "-n", "kube-s") == ["kube-system"]
    finally:
        terminal.type("delete", "scaledjob", "watched")


def complete(terminal: Terminal, *words: str) -> list[str]:
    """The candidates that bash would be given for the last word."""
    asked = {"_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    variables = environment(**terminal.variables, **asked, PATH=os.environ["PATH"])
    done = subprocess.run(COMMAND, capture_output=True, text=True, cwd=terminal.folder, env=variables, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.removeprefix("plain,") for line in done.stdout.split()]
