"""Probes of JobFlows: TCP and HTTP checks of the pods of a task, polled like triggers.

Pods are found in the store anew for every poll. A pod that does not answer is a measure, not a failure of a source: it
opens no circuit breaker and is asked again soon.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar

from pydantic import ConfigDict

from penstock.scaler import Measure, Scaler
from scalers.sources.field_properties import value_of
from scalers.triggers.parse import Parsed, SourceKey, TriggerProbe
from workers.api import model
from workers.api.kinds import JOB_FLOW, POD, VC_JOB, Object
from workers.api.references import TASK_NAME
from workers.api.volcano import jobflow
from workers.api.volcano.jobflow import HttpGet, JobFlow, TcpSocket
from workers.cache.store import Store
from workers.errors import UserError

#: Seconds that one pod may take to answer, and until pods that did not answer are asked again.
PATIENCE, AGAIN = 1.0, 1.0
_FINAL = frozenset({"Succeed", "Failed", "Terminated", "Terminating"})


def is_probed(body: Object) -> bool:
    """Returns whether an entry of the flow waits for pods to answer."""
    status, spec = body.get("status") or {}, body.get("spec") or {}
    phase = (status.get("state") or {}).get("phase")
    if body["metadata"].get("deletionTimestamp") or spec.get("schedule") or phase in _FINAL:
        return False
    begun = status.get("entries") or {}
    return any(
        (entry.get("dependsOn") or {}).get("probe") and not (begun.get(_first(entry)) or {}).get("phase")
        for entry in spec.get("flows") or ()
    )


def _first(entry: Object) -> str:
    """Returns the name under which the status has an entry, or its first item, once it began."""
    return f"{entry['name']}-0" if entry.get("forEach") else str(entry["name"])


async def parse(body: Object, store: Store) -> Parsed:
    """Returns the probes of the Jobs that the flow has now, with the addresses of their pods."""
    try:
        spec = model.parse(JobFlow, JOB_FLOW, body).spec
    except UserError as error:
        return Parsed(problem=str(error))
    uid = body["metadata"]["uid"]
    (children,) = await store.children_many([(VC_JOB, uid)])
    jobs = [entry.body for entry in children if entry.body is not None]
    owned = await store.children_many([(POD, job["metadata"]["uid"]) for job in jobs]) if jobs else []
    found: dict[str, TriggerProbe] = {}
    for job, entries in zip(jobs, owned, strict=True):
        pods = [entry.body for entry in entries if entry.body is not None]
        for asked in _asked(spec, job):
            name = jobflow.probed(asked, job["metadata"]["name"])
            pod = PodProbe(asked=asked, addresses=_addresses(pods, asked.task_name), wanted=_wanted(job, asked))
            kind = "tcpSocket" if isinstance(asked, TcpSocket) else "httpGet"
            found[name] = TriggerProbe(name, kind, pod, SourceKey.of(pod, (uid, name)))
    return Parsed(tuple(found.values()))


def _asked(spec: jobflow.JobFlowSpec, job: Object) -> Iterator[HttpGet | TcpSocket]:
    """Yields the probes that concern a Job: those of tasks that it has, of entries that depend on it."""
    tasks = {task.get("name") for task in job["spec"].get("tasks") or ()}
    for entry in spec.flows:
        for asked in entry.probe.asked if entry.probe else ():
            if asked.task_name in tasks:
                yield asked


def _wanted(job: Object, asked: HttpGet | TcpSocket) -> int:
    """Returns the number of the task's pods that must answer: those of its gang."""
    (task,) = [each for each in job["spec"]["tasks"] if each.get("name") == asked.task_name][:1]
    least = task.get("minAvailable")
    return max(1, task.get("replicas") or 0 if least is None else least)


def _addresses(pods: Sequence[Object], task: str) -> tuple[str, ...]:
    """Returns the addresses of the running pods of a task."""
    found = [
        (pod.get("status") or {}).get("podIP")
        for pod in pods
        if (pod["metadata"].get("annotations") or {}).get(TASK_NAME) == task
        and (pod.get("status") or {}).get("phase") == "Running"
        and not pod["metadata"].get("deletionTimestamp")
    ]
    return tuple(sorted(address for address in found if address))


class PodProbe(Scaler):
    """One probe of the pods of one task. addresses: of the pods. wanted: number of pods that must answer."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    asked: HttpGet | TcpSocket
    addresses: tuple[str, ...]
    wanted: int

    metric: ClassVar[str] = "probe"
    target: ClassVar[float] = value_of("wanted")

    async def measure(self) -> Measure:
        """Returns the number of pods that answer; enough of them make it active."""
        answers = await asyncio.gather(*(self._answers(address) for address in self.addresses))
        ready = sum(answers) >= self.wanted
        return Measure(float(sum(answers)), active=ready, again=AGAIN)

    async def _answers(self, address: str) -> bool:
        import aiohttp

        try:
            async with asyncio.timeout(PATIENCE):
                if isinstance(self.asked, TcpSocket):
                    _, writer = await asyncio.open_connection(address, self.asked.port)
                    writer.close()
                    return True
                return await _succeeds(address, self.asked)
        except (OSError, aiohttp.ClientError, ValueError):
            return False


async def _succeeds(address: str, asked: HttpGet) -> bool:
    """Returns whether the status is a success or a redirect, which a kubelet takes for success."""
    import aiohttp

    host = f"[{address}]" if ":" in address else address
    header = {asked.http_header.name: asked.http_header.value} if asked.http_header else {}
    url = f"http://{host}:{asked.port}/{asked.path.removeprefix('/')}"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=header, allow_redirects=False) as response,
    ):
        return 200 <= response.status < 400
