"""The spans of one event after its push, calculated from the Job that was created for it.

All are children of the push:

* ``route``: the event was accepted and waited for the poll that gave it to a decision.
* ``decide``: from that observation to the first write of the decision; linked with the other events it decided on.
* ``create Job``: the request to the API server.
* ``wait``: the Job has no running container yet.
* ``run``: the containers of its pods.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from workers.api import conditions, job_annotations, times
from workers.api.kinds import Object, Ref
from workers.tracing import trace_context
from workers.tracing.trace_context import TraceContext

#: Most links of one span.
LINKS = 32

#: client and server talk to each other, producer and consumer over a queue.
SpanRole = Literal["internal", "client", "server", "producer", "consumer"]


@dataclass(frozen=True, slots=True)
class EventSpan:
    """One ended span. start, end: µs since the epoch, never in the wrong order. error: why it failed, or empty."""

    name: str
    context: TraceContext
    parent: TraceContext | None
    start: int
    end: int
    role: SpanRole = "internal"
    attributes: tuple[tuple[str, str | int], ...] = ()
    links: tuple[TraceContext, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class CreationMoments:
    """The moments of one Job's creation, in µs since the epoch.

    observed: of the decision's snapshot (broker's clock). began: its first write. posted, answered: of the request.
    """

    observed: int
    began: int
    posted: int
    answered: int


def arrived(claim: str) -> int | None:
    """Returns when a stream took the item of this claim (µs since the epoch); None for claims of lists."""
    milliseconds, hyphen, number = claim.partition("-")
    return int(milliseconds) * 1000 if hyphen and milliseconds.isdecimal() and number.isdecimal() else None


def claim_of(job: Object) -> tuple[str, str]:
    """Returns id and attempt of the claim that a Job was made for; empty texts for any other Job."""
    annotations = job["metadata"].get("annotations") or {}
    return str(annotations.get(job_annotations.CLAIM) or ""), str(annotations.get(job_annotations.CLAIM_ATTEMPT) or "0")


def of_creation(owner: Ref, job: Object, moments: CreationMoments, others: Iterable[Object] = ()) -> list[EventSpan]:
    """Returns the spans up to the Job's creation; none for a Job without a trace.

    others: the Jobs that the same plan creates.
    """
    push = trace_context.of_job(job)
    if push is None or not push.sampled:
        return []
    claim, attempt = claim_of(job)
    about = _attributes(owner, job)
    observed = max(moments.observed, 0)
    spans = []
    taken = arrived(claim)
    if taken is not None and attempt == "0":
        start = min(taken, observed)
        spans.append(
            EventSpan("route", push.derived("route", owner.key, claim), push, start, observed, "consumer", about)
        )
    links = _links(push, others)
    began = max(observed, moments.began)
    posted = max(began, moments.posted)
    decided = push.derived("decide", owner.key, claim, attempt)
    created = push.derived("create", owner.key, claim, attempt)
    spans.append(EventSpan("decide", decided, push, observed, began, "internal", about, links))
    spans.append(EventSpan("create Job", created, push, posted, max(posted, moments.answered), "client", about))
    return spans


def of_end(owner: Ref, job: Object, pods: Sequence[Object] = ()) -> list[EventSpan]:
    """Returns the spans of an ended Job: its wait for a container, and its run; none for a Job without a trace.

    pods: the Job's, as far as they still exist. Without them the times are the Job's own. Kubernetes' times have whole
    seconds; none is shown as earlier than what came before it.
    """
    push = trace_context.of_job(job)
    if push is None or not push.sampled:
        return []
    status = job.get("status") or {}
    created = _created(job)
    began = [instant for pod in pods for instant in _instants(pod, "startedAt")]
    ended = [instant for pod in pods for instant in _instants(pod, "finishedAt")]
    finished = conditions.finished(job)
    over = _micros(status.get("completionTime")) or _finished_at(job) or (max(ended) if ended else None)
    start = min(began) if began else _micros(status.get("startTime"))
    if created is None or over is None:
        return []
    run_from = max(created, start or created)
    run_to = max(run_from, max(ended) if ended else over)
    about, uid = _attributes(owner, job), job["metadata"].get("uid", "")
    failed = "" if finished == "Complete" else _failure(job)
    waited = EventSpan("wait", push.derived("wait", uid), push, created, run_from, "internal", about)
    ran = EventSpan("run", push.derived("run", uid), push, run_from, run_to, "consumer", about, error=failed)
    return [waited, ran]


def _attributes(owner: Ref, job: Object) -> tuple[tuple[str, str | int], ...]:
    claim, attempt = claim_of(job)
    metadata = job["metadata"]
    return (
        ("k8s.namespace.name", owner.namespace),
        ("k8s.job.name", str(metadata.get("name", ""))),
        ("penstock.owner.kind", owner.kind.kind),
        ("penstock.owner.name", owner.name),
        ("penstock.claim", claim),
        ("penstock.attempt", int(attempt) if attempt.isdecimal() else 0),
    )


def _links(push: TraceContext, others: Iterable[Object]) -> tuple[TraceContext, ...]:
    found: dict[TraceContext, None] = {}
    for job in others:
        other = trace_context.of_job(job)
        if other is not None and other != push:
            found[other] = None
        if len(found) == LINKS:
            break
    return tuple(found)


def _created(job: Object) -> int | None:
    stamp = (job["metadata"].get("annotations") or {}).get(job_annotations.TRACED_FROM)
    if isinstance(stamp, str) and stamp.isdecimal():
        return int(stamp)
    return _micros(job["metadata"].get("creationTimestamp"))


def _instants(pod: Object, field: str) -> Iterable[int]:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            for name in ("running", "terminated"):
                instant = _micros((state.get(name) or {}).get(field))
                if instant is not None:
                    yield instant


def _finished_at(job: Object) -> int | None:
    for type_ in ("Complete", "Failed"):
        found = conditions.find(job, type_) or {}
        if found.get("status") == "True":
            return _micros(found.get("lastTransitionTime"))
    return None


def _failure(job: Object) -> str:
    found = conditions.find(job, "Failed") or {}
    texts = (str(found.get("reason") or ""), str(found.get("message") or ""))
    return ": ".join(text for text in texts if text) or "the Job was deleted before it ended"


def _micros(text: object) -> int | None:
    if not isinstance(text, str):
        return None
    try:
        instant: datetime = times.parse(text)
    except ValueError:
        return None
    return int(instant.timestamp() * 1_000_000)
