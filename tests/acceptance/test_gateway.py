"""Events over HTTP to the gateway that `penstock up` runs."""

import json
import subprocess
import urllib.error
import urllib.request
from typing import Any

import pytest
import yaml

from tests.acceptance.test_command import main, manifest
from tests.support.terminal import Terminal, until
from workers.api import conditions


def scaled_job(name: str, **push: Any) -> str:
    """A ScaledJob that prints each event."""
    container = main("/bin/sh", "-c", 'echo "$PENSTOCK_ITEM"')
    spec = {
        "pollingInterval": 600,
        "scalingStrategy": {"strategy": "claim"},
        "jobTargetRef": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        "triggers": [{"type": "push", "metadata": {}}],
        "push": push,
    }
    return manifest("keda.sh/v1alpha1", "ScaledJob", name, spec=spec)


def post(url: str, body: bytes, **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.timeout(300)
def test_a_push_over_http_becomes_a_job(up: subprocess.Popen[bytes], terminal: Terminal) -> None:
    url = (terminal.folder / "home" / "gateway.url").read_text().strip()
    assert url.startswith("http://127.0.0.1:")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "senders"}}
    token = "a-token-of-some-length"
    terminal.type("apply", "-f", "-", stdin=json.dumps({**secret, "stringData": {"token": token}}))
    auth = [{"bearer": {"name": "senders", "key": "token"}}]
    terminal.type("apply", "-f", "-", stdin=scaled_job("pushed", auth=auth))
    bearer = {"Authorization": f"Bearer {token}", "Idempotency-Key": "4711"}

    def accepted() -> bool:
        status, _ = post(f"{url}/events/default/pushed", b'{"total": 12}', **bearer)
        return status == 202

    until(accepted, "the push is accepted")
    status, answer = post(f"{url}/events/default/pushed", b'{"total": 12}', **bearer)
    assert (status, answer["id"], answer["duplicate"]) == (202, "4711", True)
    assert post(f"{url}/events/default/pushed", b"{}", Authorization="Bearer wrong")[0] == 401

    def complete() -> list[str | None]:
        jobs = terminal.type("get", "jobs", "-l", "scaledjob.keda.sh/name=pushed", "-o", "yaml")
        return [conditions.finished(job) for job in yaml.safe_load(jobs)["items"]]

    until(lambda: complete() == ["Complete"], "the event's Job is complete")
    said = terminal.type("logs", "scaledjob/pushed").replace(" ", "").splitlines()
    assert len([line for line in said if '"id":"4711"' in line]) == 1
    with urllib.request.urlopen(f"{url}/readyz", timeout=30) as ready:
        assert ready.status == 200
    terminal.type("delete", "scaledjob", "pushed")
