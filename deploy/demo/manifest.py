"""The demo's ScaledJob, as a KEDA user would write it."""

import sys
from pathlib import Path

from deploy.demo import measure
from workers.api.kinds import Object

NAME = "measure-files"
NAMESPACE = "default"
#: Prefix of the demo's keys in Redis.
PREFIX = "demo"


def scaled_job(address: str) -> Object:
    """Returns a ScaledJob with one Job per file in the list. address: ``host:port`` of the Redis server.

    Up to 100 Jobs at once, KEDA's default; the embedded cluster runs a few pods at a time, the others stay Pending.
    """
    container = {
        "name": "measure",
        "image": "python",
        # -S -E: only the standard library, independent of installed packages and environment variables.
        "command": [sys.executable, "-S", "-E", str(Path(measure.__file__).resolve())],
        "env": [{"name": "DEMO_REDIS", "value": address}, {"name": "DEMO_PREFIX", "value": PREFIX}],
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "pollingInterval": 5,
            "maxReplicaCount": 100,
            "successfulJobsHistoryLimit": 20,
            "jobTargetRef": {
                "backoffLimit": 0,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
            "triggers": [
                {
                    "type": "redis",
                    "metadata": {"address": address, "listName": f"{PREFIX}:files", "listLength": "1"},
                }
            ],
        },
    }


def files(count: int) -> list[str]:
    """Returns the first `count` Python files of the running standard library, in a fixed order.

    Raises ValueError if it has fewer.
    """
    library = Path(sys.modules["os"].__file__ or "").resolve().parent
    found = sorted(str(path) for path in library.rglob("*.py") if "site-packages" not in path.parts and path.is_file())
    if len(found) < count:
        raise ValueError(f"--files {count}: this Python's standard library has only {len(found)} files")
    return found[:count]
