"""The manifests of the demo: a Secret, and two EventJobs that take the events of one channel."""

import sys
from pathlib import Path

from deploy.demo.events import pod_program
from workers.api.kinds import Object

NAMESPACE = "default"
#: The EventJob that is pushed to, and the one that takes the same events.
BUILD, AUDIT = "build", "audit"
#: Events that one repository's pods do at once, and in all.
PLACES = 4


def secret(text: str) -> Object:
    """Returns the Secret that the sender signs with."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "github", "namespace": NAMESPACE},
        "stringData": {"webhook": text},
    }


def event_jobs(address: str) -> list[Object]:
    """Returns the EventJobs. address: ``host:port`` of the Redis server that pods write to."""
    signature = {"scheme": "github", "secret": {"name": "github", "key": "webhook"}}
    concurrency = {"total": PLACES, "orderingKey": "event.data.repository.full_name"}
    retry = {"limit": 3, "delaySeconds": 1, "maxDelaySeconds": 2}
    build = {"push": {"auth": [{"signature": signature}]}, "concurrency": concurrency, "retry": retry}
    audit = {"channel": BUILD, "filter": {"exact": {"type": "com.github.push"}}, "concurrency": {"total": PLACES}}
    return [_event_job(BUILD, {**build, "rateLimit": {"jobs": 50}}, address), _event_job(AUDIT, audit, address)]


def _event_job(name: str, spec: Object, address: str) -> Object:
    container = {
        "name": "main",
        "image": "python",
        # -S -E: only the standard library, independent of installed packages and environment variables.
        "command": [sys.executable, "-S", "-E", str(Path(pod_program.__file__).resolve()), name, "$(event.id)"],
        "env": [{"name": "DEMO_REDIS", "value": address}],
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    job = {"backoffLimit": 0, "template": {"spec": pod}}
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "EventJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**spec, "jobTemplate": {"spec": job}},
    }
