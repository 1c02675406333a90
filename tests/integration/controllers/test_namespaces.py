"""A namespace that is deleted goes with all that is at work in it."""

import pytest

from tests.integration.controllers.keda_objects import job_template, manifest
from tests.integration.controllers.volcano_objects import is_gone
from tests.support.conditions import eventually
from tests.support.house import House
from workers.api.kinds import JOB, NAMESPACE, POD, SCHEDULED_JOB, Ref
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

#: On the embedded API server: a real one needs a controller of namespaces, which is not ours.
HOUSE: dict[str, str] = {}

PLACE = "going"


async def test_a_namespace_goes_with_its_jobs_at_work(running: House, cluster: Cluster) -> None:
    ref = Ref(NAMESPACE, "", PLACE)
    await cluster.create(NAMESPACE, manifest(ref))
    job_spec = job_template("/bin/sh", "-c", "exec sleep 600")
    parallel = {**job_spec, "parallelism": 2, "completions": 5}
    await cluster.create(JOB, manifest(Ref(JOB, PLACE, "crunch"), parallel))
    schedule = {"schedule": "* * * * * *", "concurrencyPolicy": "Replace", "jobTemplate": {"spec": job_spec}}
    await cluster.create(SCHEDULED_JOB, manifest(Ref(SCHEDULED_JOB, PLACE, "tick"), schedule))

    async def at_work() -> bool:
        # Of the schedule's pods each has a second: on a busy machine none of them may live to run.
        pods, _ = await cluster.list(POD, PLACE)
        phases = [(pod["metadata"]["labels"]["job-name"], pod["status"].get("phase")) for pod in pods]
        return phases.count(("crunch", "Running")) == 2 and any(name != "crunch" for name, _ in phases)

    await eventually(at_work, 60)
    await cluster.delete(ref)
    await eventually(lambda: is_gone(cluster, ref), 60)
    assert (await cluster.list(POD, PLACE))[0] == []
    for log in (running.home / "logs").glob("*.log"):
        assert '"level":"ERROR"' not in log.read_text(), log.name
