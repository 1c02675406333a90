"""Helm, as the package helm-python-sdk brings it: Helm's own library in a process of its own.

``python -m tests.support.helm`` answers one request per line. Go's runtime wants the signals of its process.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

CHART = ROOT / "deploy" / "helm" / "penstock"


class HelmError(Exception):
    """Helm's error, with its text."""


@dataclass
class Helm:
    """Answers requests by a running process."""

    process: "subprocess.Popen[str]"

    def template(self, values: Mapping[str, Any], chart: Path = CHART, **options: Any) -> list[dict[str, Any]]:
        """Returns the objects that the chart renders to. Raises HelmError."""
        files = self.files(values, chart, **options)
        texts = [text for name, text in sorted(files.items()) if not name.endswith(".txt")]
        return [each for text in texts for each in yaml.safe_load_all(text) if each]

    def files(self, values: Mapping[str, Any], chart: Path = CHART, **options: Any) -> dict[str, str]:
        """Returns the rendered files by name, NOTES.txt with them. Raises HelmError."""
        options = {"name": "penstock", "namespace": "penstock", **options}
        return dict(self.ask(do="render", chart=str(chart), values=values, options=options))

    def ask(self, **request: Any) -> Any:
        """Returns the answer to one request. Raises HelmError."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise HelmError(answer["error"])
        return answer["done"]


@contextmanager
def running() -> Iterator[Helm]:
    """Helm until the end. Skips the test where it is not installed."""
    if importlib.util.find_spec("helm_python") is None:
        pytest.skip("helm-python-sdk is not installed: the chart is NOT rendered by Helm")
    command = [sys.executable, "-m", "tests.support.helm"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield Helm(process)
        assert process.stdin
        process.stdin.close()


def _answer(request: dict[str, Any]) -> Any:
    helm = importlib.import_module("helm_python")
    do = request.pop("do")
    if do == "lint":
        return helm.lint(request["chart"], request["values"], strict=True)
    if do == "render":
        with helm.Chart.load(request["chart"]) as chart:
            return chart.render(request["values"], **request["options"])
    with helm.Config(kubeconfig_path=request["kubeconfig"], namespace="penstock") as config:
        if do == "uninstall":
            return config.uninstall("penstock")
        return getattr(config, do)(request["chart"], "penstock", request["values"], namespace="penstock")


def _main() -> None:
    for line in sys.stdin:
        try:
            answer = {"done": _answer(json.loads(line))}
        except Exception as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _main()
