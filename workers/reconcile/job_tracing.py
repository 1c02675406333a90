"""The traces of Jobs that plans create and release: stamps, spans, and the time from an event to its Job."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from workers.api import job_annotations
from workers.api.kinds import JOB, POD, Object, Ref
from workers.client.rest import Cluster
from workers.decision.plan import Create, Plan, Together
from workers.decision.snapshot import Snapshot
from workers.errors import ClusterError
from workers.metrics import process
from workers.tracing import event_spans, trace_context
from workers.tracing.event_spans import CreationMoments
from workers.tracing.span_export import SpanSink

log = logging.getLogger(__name__)

#: Jobs whose pods are read at once for their times; the traces of more that end meanwhile have the Jobs' own times.
READS = 32


class JobTracing:
    """Follows the Jobs of events.

    clock: the wall clock. sink: None where tracing is off; then only the metric is kept.
    """

    def __init__(self, cluster: Cluster, clock: Callable[[], datetime], sink: SpanSink | None = None) -> None:
        self._cluster = cluster
        self._clock = clock
        self._sink = sink
        self._reading: set[asyncio.Task[None]] = set()

    def now(self) -> int:
        """Returns the time in µs since the epoch."""
        return int(self._clock().timestamp() * 1_000_000)

    def stamped(self, step: Create, posted: int) -> Create:
        """Returns the step with the moment of its creation (µs since the epoch) on a Job that is traced."""
        if self._sink is None or step.kind != JOB or trace_context.of_job(step.body) is None:
            return step
        metadata = step.body["metadata"]
        annotations = {**(metadata.get("annotations") or {}), job_annotations.TRACED_FROM: str(posted)}
        return replace(step, body={**step.body, "metadata": {**metadata, "annotations": annotations}})

    def created(self, snapshot: Snapshot, plan: Plan, body: Object, moments: CreationMoments) -> None:
        """Exports the spans of a Job that was created just now, and measures how long its event waited for it."""
        claim, attempt = event_spans.claim_of(body)
        arrived = event_spans.arrived(claim)
        if arrived is not None and attempt == "0":
            waited = max(0, moments.answered - arrived) / 1e6
            process.EVENT_TO_JOB.labels(snapshot.ref.kind.id).observe(waited)
        if self._sink is not None:
            self._sink.export(event_spans.of_creation(snapshot.ref, body, moments, _jobs(plan)))

    def ended(self, snapshot: Snapshot, ref: Ref, uid: str) -> None:
        """Exports the spans of a Job whose end is settled. Reads its pods meanwhile, for their times."""
        if self._sink is None or ref.kind != JOB:
            return
        children = snapshot.children.get(JOB.id, ())
        job = next((each.body for each in children if each.body and each.body["metadata"].get("uid") == uid), None)
        if job is None or trace_context.of_job(job) is None:
            return
        if len(self._reading) >= READS:
            self._sink.export(event_spans.of_end(snapshot.ref, job))
            return
        task = asyncio.create_task(self._export_end(self._sink, snapshot.ref, job))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def close(self) -> None:
        """Exports what is left and closes the export."""
        await asyncio.gather(*self._reading, return_exceptions=True)
        if self._sink is not None:
            # It waits for the collector.
            await asyncio.to_thread(self._sink.close)

    async def _export_end(self, sink: SpanSink, owner: Ref, job: Object) -> None:
        metadata = job["metadata"]
        pods: list[Object] = []
        try:
            selector = f"controller-uid={metadata['uid']}"
            pods, _ = await self._cluster.list(POD, metadata["namespace"], label_selector=selector)
        except ClusterError as error:
            log.debug("a trace lacks the times of pods", extra={"job": metadata["name"], "error": str(error)})
        sink.export(event_spans.of_end(owner, job, pods))


def _jobs(plan: Plan) -> Iterator[Object]:
    """Returns the Jobs that a plan creates."""
    parts = (part for step in plan.steps for part in (step.steps if isinstance(step, Together) else (step,)))
    return (part.body for part in parts if isinstance(part, Create) and part.kind == JOB)
