"""A Deployment whose image cannot run, beside a Job that can: what the user sees of both."""

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.support.terminal import PATIENCE, Terminal, environment, until

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl")


@pytest.fixture
def kubectl(up: subprocess.Popen[bytes], terminal: Terminal) -> Callable[..., str]:
    """kubectl on the embedded cluster; what it printed, warnings last."""
    variables = environment(KUBECONFIG=f"{terminal.variables['PENSTOCK_HOME']}/kubeconfig", HOME=str(terminal.folder))

    def run(*words: str) -> str:
        done = subprocess.run(["kubectl", *words], capture_output=True, text=True, env=variables, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


@pytest.mark.timeout(300)
def test_pods_without_a_command_say_so_and_stop_nobody_else(kubectl: Callable[..., str], terminal: Terminal) -> None:
    more_than_run = str(max(4, 2 * (os.cpu_count() or 1)) + 1)
    made = kubectl("create", "deployment", "web", "--image=nginx", f"--replicas={more_than_run}")
    assert "Warning: spec.template.spec.containers[0]: no command: images are not run here" in made
    until(
        lambda: kubectl("get", "pods", "-l", "app=web").count("CreateContainerError") == int(more_than_run),
        "its pods say that they cannot start",
    )
    assert "Warning" not in kubectl("create", "job", "works", "--image=none", "--", "echo", "done")
    kubectl("wait", "--for=condition=complete", f"--timeout={PATIENCE:g}s", "job/works")
    assert "no command" in kubectl("create", "job", "stays", "--image=nginx")
    deployment = kubectl("create", "deployment", "told", "--image=nginx", "--dry-run=client", "-o", "yaml")
    printed = terminal.type("apply", "-f", "-", stdin=f"{deployment}---\n{deployment.replace('told', 'told-too')}")
    assert printed.count("Warning: spec.template.spec.containers[0]: no command: images are not run here") == 1
    for words in ("describe", "explain"):
        until(lambda verb=words: "no command: images are not run here" in terminal.type(verb, "job/stays"), words)
    kubectl("delete", "deployment/web", "deployment/told", "deployment/told-too", "job/works", "job/stays")
