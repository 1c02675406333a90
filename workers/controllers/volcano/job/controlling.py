"""The controller of Volcano's Jobs: what its decision must see."""

from datetime import datetime

from workers.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    SERVICE,
    VC_JOB,
    Object,
    Ref,
)
from workers.api.volcano.job import parse
from workers.controllers.volcano.job import names, volumes, working
from workers.controllers.volcano.job.decide import decide
from workers.controllers.volcano.job.observed import queue_of
from workers.controllers.volcano.job.site import Site
from workers.errors import UserError
from workers.reconcile.controller import Controller
from workers.reconcile.plan import Plan
from workers.reconcile.snapshot import Snapshot

#: What plugins make. Every object of theirs has the label, so that no others need be looked at.
_MADE = (CONFIG_MAP, SERVICE, NETWORK_POLICY)


def controller(site: Site) -> Controller:
    """The controller of Volcano's Jobs. site: what kind of cluster pods are made for."""

    def decided(snapshot: Snapshot, now: datetime) -> Plan:
        return decide(snapshot, now, site)

    return Controller(
        kind=VC_JOB,
        decide=decided,
        children=(POD, POD_GROUP, *_MADE),
        referrers=(COMMAND,),
        relatives=relatives,
        optional_relatives=optional_relatives,
        follows=(QUEUE, PRIORITY_CLASS, PERSISTENT_VOLUME_CLAIM),
        labelled={kind.id: names.JOB_NAME for kind in _MADE},
    )


def relatives(body: Object) -> tuple[Ref, ...]:
    """The queue, others' claims, and the PriorityClasses that a job names. Of a job that cannot be read, the queue."""
    try:
        job = parse(body)
    except UserError:
        return (queue_of(body),)
    others = (ref for ref in volumes.wanted(job) if ref not in volumes.own(job))
    return (queue_of(body), *others, *working.priority_classes(body["spec"]["tasks"]))


def optional_relatives(body: Object) -> tuple[Ref, ...]:
    """The claims that are made for a job."""
    try:
        return volumes.own(parse(body))
    except UserError:
        return ()
