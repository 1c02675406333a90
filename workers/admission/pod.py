"""Ordinary pods that are to start as a gang: who places them, and the gate that holds them back until then."""

import re
from collections.abc import Iterator

from workers.admission.findings import Finding
from workers.admission.options import AdmissionOptions
from workers.api import kinds
from workers.api.kinds import Object, controller_of
from workers.api.references import GANG_GATE

MIN_AVAILABLE = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
_AMOUNT = re.compile("0*[1-9][0-9]*|0*[1-9][0-9]?%")


def defaulted(body: Object, options: AdmissionOptions) -> Object:
    """The pod as it is held back, if it asks for one of our schedulers: gated, and for a scheduler that is there.

    The pods of Volcano's Jobs are not made before their gang may start, and need no gate.
    """
    spec = body.get("spec") or {}
    if not options.gangs or spec.get("schedulerName") not in options.schedulers or _of_a_job(body):
        return body
    gates = list(spec.get("schedulingGates") or ())
    # A pod that has its node already cannot be held back any more.
    if not spec.get("nodeName") and not gated(body):
        gates.append({"name": GANG_GATE})
    placed = {**spec, "schedulerName": options.pod_scheduler}
    return {**body, "spec": {**placed, "schedulingGates": gates} if gates else placed}


def problems(body: Object, old: Object | None, options: AdmissionOptions) -> list[Finding]:
    """What is wrong with a new pod of ours: how many of its kind must stay, or may go, at a time."""
    spec = body.get("spec") or {}
    if old is not None or not (gated(body) or spec.get("schedulerName") in options.schedulers):
        return []
    return list(_budget(body["metadata"].get("annotations") or {}))


def gated(body: Object) -> bool:
    """Whether the pod is held back until its gang may start."""
    return any(gate.get("name") == GANG_GATE for gate in (body.get("spec") or {}).get("schedulingGates") or ())


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
