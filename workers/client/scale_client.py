"""The scale client: reads workloads with a scale subresource from the API server.

Not from the store: their kinds are known only from manifests, and a replica count that is a second old is useless.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from workers.api import conditions
from workers.api.kinds import HORIZONTAL_POD_AUTOSCALER, POD, POD_METRICS, Object, Ref
from workers.client.rest import Cluster
from workers.client.restmapper import RESTMapper
from workers.decision.controller import ScaleTarget
from workers.decision.snapshot import Scalable
from workers.errors import ClusterError, Forbidden, NotFound
from workers.json_logs import Outage

log = logging.getLogger(__name__)

#: Seconds the autoscalers of a namespace are cached.
AUTOSCALERS = 15.0
#: Seconds after which the listing of a namespace that was not asked about is forgotten.
FORGOTTEN = 3600.0
#: Errors of an answer in another form than the API's, such as that of a third party's server of an API group.
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)


class Scales:
    """Reads scale subresources of one cluster.

    seconds: life of cached discovery. patience: seconds one workload may take; the batch waits for it.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        seconds: float = 300.0,
        patience: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._patience = patience
        self._clock = clock
        self._listed: dict[str, tuple[float, tuple[Object, ...]]] = {}
        self._unseen = Outage(log, clock=clock)
        self._resources = RESTMapper(cluster.request, seconds=seconds, clock=clock)

    async def read(self, namespace: str, target: ScaleTarget) -> Scalable:
        """Returns the workload as it is now, with `Scalable.error` set if it cannot be read."""
        try:
            async with asyncio.timeout(self._patience):
                return await self._read(namespace, target)
        except NotFound:
            return Scalable(error=f"{target.kind} {namespace}/{target.name} does not exist", missing=True)
        except (ClusterError, TimeoutError) as error:
            return Scalable(error=str(error) or "the API server took too long")
        except _UNREADABLE as error:
            return Scalable(error=f"{target.kind} {namespace}/{target.name}: {_unreadable(error)}")

    async def _read(self, namespace: str, target: ScaleTarget) -> Scalable:
        resource = await self._resources.find(target.api_version, target.kind)
        if resource is None:
            return Scalable(error=f"the API server knows no {target.kind} of {target.api_version}", missing=True)
        ref = Ref(resource.kind, namespace, target.name)
        if not resource.scalable:
            return Scalable(ref, error=f"{target.kind} of {target.api_version} cannot be scaled", missing=True)
        scale: Object = await self._cluster.request("GET", resource.kind.path(namespace, target.name, "scale"))
        selector = str((scale.get("status") or {}).get("selector") or "")
        pods: list[Object] = []
        if selector and (target.ready or target.usage):
            pods, _ = await self._cluster.list(POD, namespace, label_selector=selector)
        found = Scalable(
            ref,
            replicas=(scale.get("spec") or {}).get("replicas") or 0,
            ready=sum(map(_is_ready, pods)) if target.ready else None,
            resource_version=scale["metadata"]["resourceVersion"],
        )
        found = replace(found, autoscalers=await self._autoscalers(namespace, target))
        return await self._measured(found, selector, pods) if target.usage else found

    async def _autoscalers(self, namespace: str, target: ScaleTarget) -> tuple[Object, ...]:
        """Returns the autoscalers of this target, from a cached listing of the namespace.

        None where there is no such API, or they could never be listed. Of a right that is taken away the log tells, and
        those that were seen before count as there.
        """
        known = self._listed.get(namespace)
        if known is None or self._clock() - known[0] >= AUTOSCALERS:
            seen: Sequence[Object] = known[1] if known else ()
            try:
                seen, _ = await self._cluster.list(HORIZONTAL_POD_AUTOSCALER, namespace)
            except NotFound:
                seen = ()
            except Forbidden as error:
                self._unseen.lasts(
                    "autoscalers cannot be listed: a new one of a target is not noticed", error=str(error)
                )
            else:
                self._unseen.over("autoscalers can be listed again")
            known = (self._clock(), tuple(seen))
            self._remember(namespace, *known)
        group = target.api_version.rpartition("/")[0]
        return tuple(each for each in known[1] if _scaled_by(each) == (group, target.kind, target.name))

    def _remember(self, namespace: str, now: float, seen: tuple[Object, ...]) -> None:
        """Keeps a listing, the newest last, and forgets those of namespaces that were not asked about for long."""
        self._listed.pop(namespace, None)
        self._listed[namespace] = (now, seen)
        while self._listed[oldest := next(iter(self._listed))][0] < now - FORGOTTEN:
            del self._listed[oldest]

    async def _measured(self, found: Scalable, selector: str, pods: Sequence[Object]) -> Scalable:
        """Returns the workload with its pods' usage from the resource metrics API."""
        if not selector or found.ref is None:
            return replace(found, usage_error="the target's scale has no selector of pods")
        try:
            metrics, _ = await self._cluster.list(POD_METRICS, found.ref.namespace, label_selector=selector)
        except NotFound:
            return replace(found, usage_error="the cluster has no resource metrics API (metrics.k8s.io)")
        except ClusterError as error:
            return replace(found, usage_error=f"the resource metrics API: {error}")
        try:
            usage = {each["metadata"]["name"]: each for each in metrics}
        except _UNREADABLE as error:
            return replace(found, usage_error=f"the resource metrics API: {_unreadable(error)}")
        return replace(found, pods=tuple(pods), usage=usage)


def _unreadable(error: Exception) -> str:
    return f"an answer cannot be read: {type(error).__name__}: {error}"


def _scaled_by(autoscaler: Object) -> tuple[str, str, str]:
    """Returns group, kind and name of an autoscaler's target."""
    reference = (autoscaler.get("spec") or {}).get("scaleTargetRef") or {}
    group = str(reference.get("apiVersion") or "").rpartition("/")[0]
    return group, str(reference.get("kind") or ""), str(reference.get("name") or "")


def _is_ready(pod: Object) -> bool:
    return (
        not pod["metadata"].get("deletionTimestamp")
        and (pod.get("status") or {}).get("phase") == "Running"
        and conditions.holds(pod, "Ready")
    )
