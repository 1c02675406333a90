"""Pods that start as a gang: their scheduler, and the gate that holds them back until admission."""

import re
from collections.abc import Iterator

from workers.admission.admission_options import AdmissionOptions
from workers.admission.findings import Finding
from workers.api import kinds
from workers.api.kinds import Object, controller_of
from workers.api.references import GANG_GATE, is_gated

MIN_AVAILABLE = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
_AMOUNT = re.compile("0*[1-9][0-9]*|0*[1-9][0-9]?%")


def defaulted(body: Object, options: AdmissionOptions) -> Object:
    """Returns the pod gated, and with the scheduler that places it, if it names a gang scheduler.

    The pods of Volcano's Jobs are created after admission and need no gate.
    """
    spec = body.get("spec") or {}
    if not options.gangs or spec.get("schedulerName") not in options.schedulers or _of_a_job(body):
        return body
    gates = list(spec.get("schedulingGates") or ())
    # A pod with a node cannot be gated any more.
    if not spec.get("nodeName") and not is_gated(body):
        gates.append({"name": GANG_GATE})
    placed = {**spec, "schedulerName": options.pod_scheduler}
    return {**body, "spec": {**placed, "schedulingGates": gates} if gates else placed}


def problems(body: Object, old: Object | None, options: AdmissionOptions) -> list[Finding]:
    """Returns the findings on a new pod of a gang scheduler: its disruption budget."""
    spec = body.get("spec") or {}
    if old is not None or not (is_gated(body) or spec.get("schedulerName") in options.schedulers):
        return []
    return list(_budget(body["metadata"].get("annotations") or {}))


def _of_a_job(body: Object) -> bool:
    owner = controller_of(body)
    return owner is not None and kinds.by_manifest(owner["apiVersion"], owner["kind"]) == kinds.VC_JOB


def _budget(annotations: dict[str, str]) -> Iterator[Finding]:
    given = [name for name in (MIN_AVAILABLE, MAX_UNAVAILABLE) if name in annotations]
    for name in given:
        if not _AMOUNT.fullmatch(annotations[name]):
            text = f"{annotations[name]!r} is neither a number above 0 nor a percentage from 1% to 99%"
            yield Finding(f"metadata.annotations[{name}]", text)
    if len(given) > 1:
        yield Finding("metadata.annotations", f"must not have both {MIN_AVAILABLE} and {MAX_UNAVAILABLE}")
