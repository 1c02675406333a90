"""The Job of one event: its template with the event's texts, and the event as file and variables."""

import re
from typing import Any

import orjson

from workers.api import job_annotations
from workers.api.kinds import EVENT_JOB, JOB, Object, owner_reference
from workers.api.penstock_dev.eventjob import EventJob
from workers.controllers.claims import binding
from workers.controllers.claims.binding import CarriedText
from workers.decision import claim_names
from workers.decision.claims import LARGEST, ClaimedItem
from workers.errors import UserError
from workers.events import job_texts
from workers.events.event_scope import EventScope
from workers.events.substitutions import SubstitutionFailed

#: Bytes of data that become a variable: with the largest event they fit into the annotations of one object.
LARGEST_DATA = 60_000
#: Bytes of an attribute that becomes a variable.
_LARGEST_ATTRIBUTE = 4096
#: Bytes of all annotations of a Job: the API server refuses 256 KiB.
_ANNOTATIONS = 255_000

_VARIABLES = {"id": "ID", "source": "SOURCE", "type": "TYPE", "subject": "SUBJECT", "time": "TIME"}
_TRACE_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{1,200})?", re.ASCII)
_TRACE_STATE = re.compile(r"[ -~]{1,512}", re.ASCII)


def name(metadata: Object, claim: ClaimedItem) -> str:
    """Returns the name of the Job of one attempt. metadata: the EventJob's, whose name and uid are in it."""
    return claim_names.of_event(str(metadata["name"]), str(metadata["uid"]), claim.id, claim.attempt)


def build(eventjob: EventJob, claim: ClaimedItem) -> Object:
    """Returns the Job of a claimed event. Raises SubstitutionFailed if the event does not fit the template."""
    scope = _scope(claim)
    filled = job_texts.filled(eventjob.spec.job_template, scope)
    metadata, spec = filled["metadata"], filled["spec"]
    label = {job_annotations.EVENT_JOB: claim_names.stem(str(eventjob.metadata["name"]))}
    pod = spec["template"].get("spec") or {}
    inner = spec["template"].get("metadata") or {}
    job = {
        **JOB.type_meta,
        "metadata": {
            "name": name(eventjob.metadata, claim),
            "namespace": eventjob.metadata["namespace"],
            "labels": {**(metadata.get("labels") or {}), **label},
            "annotations": metadata.get("annotations") or {},
            "ownerReferences": [owner_reference(EVENT_JOB, {"metadata": eventjob.metadata})],
        },
        "spec": {
            **_kept(eventjob),
            **spec,
            "template": {
                **spec["template"],
                "metadata": {**inner, "labels": {**(inner.get("labels") or {}), **label}},
                "spec": {**pod, "restartPolicy": pod.get("restartPolicy") or "Never"},
            },
        },
    }
    annotations = _annotations(scope)
    variables = _variables(scope, claim, annotations)
    carried = CarriedText(job_annotations.EVENT, "penstock-event", "event", tuple(variables), yields=True)
    bound = binding.carry(job, claim, annotations, carried)
    for each in (bound["metadata"], bound["spec"]["template"]["metadata"]):
        if sum(len(str(key)) + len(str(text).encode()) for key, text in each["annotations"].items()) > _ANNOTATIONS:
            raise SubstitutionFailed(f"the Job's annotations would have more than {_ANNOTATIONS} bytes")
    return bound


def _scope(claim: ClaimedItem) -> EventScope:
    try:
        fields = orjson.loads(claim.item or "")
    except orjson.JSONDecodeError as error:
        raise UserError(f"claim {claim.id} has no event: {error}") from None
    return EventScope(fields)


def _kept(eventjob: EventJob) -> Object:
    """Returns for how long finished Jobs are kept, unless the template says so."""
    seconds = eventjob.spec.ttl_seconds_after_finished
    return {} if seconds is None else {"ttlSecondsAfterFinished": seconds}


def _annotations(scope: EventScope) -> dict[str, str]:
    """Returns the annotations with the event. Raises SubstitutionFailed if it is too large for them."""
    event = scope.structured()
    if len(event.encode()) > LARGEST:
        raise SubstitutionFailed(f"the event has {len(event.encode())} bytes as JSON, and a Job can carry {LARGEST}")
    data = scope.fields.get("data")
    fits = data is not None and "\0" not in data and len(data.encode()) <= LARGEST_DATA
    trace = scope.attributes.get("traceparent", "")
    return {
        job_annotations.EVENT: event,
        **({job_annotations.EVENT_DATA: data} if data is not None and fits else {}),
        **({job_annotations.TRACEPARENT: trace} if _TRACE_PARENT.fullmatch(trace) else {}),
    }


def _variables(scope: EventScope, claim: ClaimedItem, annotations: dict[str, str]) -> list[Object]:
    """Returns the variables of every container; those that the event lacks, or that are too long, are left out."""
    variables: list[Object] = [_literal("CLAIM", claim.id), _literal("ATTEMPT", str(claim.attempt + 1))]
    if len(annotations[job_annotations.EVENT].encode()) <= binding.LONGEST_VARIABLE:
        variables.append({"name": "PENSTOCK_EVENT", "valueFrom": binding.annotation_reference(job_annotations.EVENT)})
    for attribute, suffix in _VARIABLES.items():
        text = scope.attributes.get(attribute)
        if text is not None and "\0" not in text and len(text.encode()) <= _LARGEST_ATTRIBUTE:
            variables.append(_literal(f"EVENT_{suffix}", text))
    if job_annotations.EVENT_DATA in annotations:
        variables.append(
            {"name": "PENSTOCK_EVENT_DATA", "valueFrom": binding.annotation_reference(job_annotations.EVENT_DATA)}
        )
    if job_annotations.TRACEPARENT in annotations:
        variables.append({"name": "TRACEPARENT", "value": annotations[job_annotations.TRACEPARENT]})
        state = scope.attributes.get("tracestate", "")
        if _TRACE_STATE.fullmatch(state):
            variables.append({"name": job_texts.TRACE_STATE, "value": state.replace("$", "$$")})
    return variables


def _literal(suffix: str, text: str) -> dict[str, Any]:
    # Kubernetes reads $$ as $ and expands $(NAME).
    return {"name": f"PENSTOCK_{suffix}", "value": text.replace("$", "$$")}
