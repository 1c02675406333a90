"""One embedded Penstock for all acceptance tests that only use it: eight processes take their time to start.

It ends with the last of them, and costs the tests that come after nothing. It serves metrics and exports traces, for
the tests that look at those.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support import otlp, ports
from tests.support.otlp import Collector
from tests.support.terminal import Terminal, running


@pytest.fixture(scope="package")
def traces() -> Iterator[Collector]:
    """The collector that the embedded Penstock exports to."""
    with otlp.collector() as found:
        yield found


@pytest.fixture(scope="package")
def metrics_ports() -> tuple[int, ...]:
    """The ports of a worker, a scaler and the watch, one after the other."""
    return ports.consecutive(3)


@pytest.fixture(scope="package")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    return Terminal.of(tmp_path_factory.mktemp("command"))


@pytest.fixture(scope="package")
def up(terminal: Terminal, traces: Collector, metrics_ports: tuple[int, ...]) -> Iterator[subprocess.Popen[bytes]]:
    """Everything, embedded."""
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": traces.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    traced = replace(terminal, variables={**terminal.variables, **variables})
    words = ("--polling", "5", "--metrics-port", str(metrics_ports[0]), "--tracing")
    with running(traced, terminal.folder / "up.log", *words) as process:
        yield process
