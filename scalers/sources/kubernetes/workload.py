"""KEDA's `kubernetes-workload` trigger: the number of pods of a namespace that match a selector."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Self

from penstock.scaler import Connections, Measure, Scaler, Source, SourceError, parameter
from scalers.sources.field_properties import text_of, value_of
from scalers.sources.kubernetes.each_by_itself import each_by_itself
from workers.api.kinds import POD, Object
from workers.client.rest import Cluster
from workers.errors import Invalid

_M = (Source.METADATA,)

#: Leaves out pods that have ended.
_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"


class KubernetesWorkload(Scaler):
    """Pods that have not ended, or the nodes they are on."""

    within: str = parameter(sources=(Source.NAMESPACE,))
    pod_selector: str = parameter(sources=_M, description="label selector of the pods")
    value: float = parameter(sources=_M, gt=0, description="pods, or nodes, that one Job is meant for")
    activation_value: float = parameter(0.0, sources=_M, description="the trigger is active above this value")
    group_by_node: bool = parameter(
        False, sources=_M, description="count the nodes the pods are on instead of the pods"
    )

    metric: ClassVar[str] = text_of("workload-{0.within}")
    target: ClassVar[float] = value_of("value")
    activation: ClassVar[float] = value_of("activation_value")
    server: ClassVar[str] = "the API server"

    @classmethod
    async def read(cls, scalers: Sequence[Self], connections: Connections) -> Sequence[float | Measure | Exception]:
        """Lists pods once per namespace and selector, side by side."""
        cluster = connections.cluster
        if cluster is None:
            raise SourceError("there is no cluster to ask here")
        places = list(dict.fromkeys((scaler.within, scaler.pod_selector) for scaler in scalers))
        found = dict(zip(places, await each_by_itself(partial(_pods, cluster), places), strict=True))
        return [scaler.count(found[scaler.within, scaler.pod_selector]) for scaler in scalers]

    def count(self, pods: list[Object] | SourceError) -> float | Exception:
        """Returns the number of pods, or of their nodes."""
        if isinstance(pods, SourceError):
            return pods
        if not self.group_by_node:
            return float(len(pods))
        return float(len({node for pod in pods if (node := pod["spec"].get("nodeName"))}))


async def _pods(cluster: Cluster, place: tuple[str, str]) -> list[Object]:
    """Returns the pods of a namespace and selector. Raises SourceError, also for a refused selector; ClusterError."""
    namespace, selector = place
    try:
        pods, _ = await cluster.list(POD, namespace, label_selector=selector, field_selector=_RUNNING)
    except Invalid as error:
        raise SourceError(f"podSelector: {error}") from error
    except (AttributeError, KeyError, TypeError):
        raise SourceError("the API server: what it answers is no list of pods") from None
    return pods
