"""A real Prometheus for tests: it scrapes processes of this machine, and answers queries."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.support.ports import free_port

PROGRAM = shutil.which("prometheus")
#: Seconds it may take to start on a busy machine.
START = 60.0


@dataclass(frozen=True)
class Prometheus:
    """A running one at `url`."""

    url: str

    def ask(self, path: str, **parameters: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(parameters)}", timeout=10) as answer:
            content = json.load(answer)
        assert content["status"] == "success", content
        return content["data"]

    def query(self, expression: str) -> list[Any]:
        """The series of an expression now."""
        return list(self.ask("query", query=expression)["result"])


@contextmanager
def prometheus(folder: Path, ports: Sequence[int], rules: Sequence[Path]) -> Iterator[Prometheus]:
    """Scrapes these ports of 127.0.0.1 once a second, and evaluates these files."""
    assert PROGRAM
    port = free_port()
    targets = [f"127.0.0.1:{each}" for each in ports]
    content = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [{"job_name": "penstock", "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(content))
    with (folder / "prometheus.log").open("w") as output:
        process = subprocess.Popen(
            [
                *(PROGRAM, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"),
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    found = Prometheus(f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + START
        while not _ready(found):
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            assert time.monotonic() < deadline, "Prometheus does not start"
            time.sleep(0.05)
        yield found
    finally:
        process.terminate()
        process.wait(30)


def _ready(server: Prometheus) -> bool:
    try:
        with urlopen(f"{server.url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
