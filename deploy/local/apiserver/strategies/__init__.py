"""What the server fills in and refuses, kind by kind."""

from deploy.local.apiserver.strategies.apps import RevisionStrategy, WorkloadStrategy
from deploy.local.apiserver.strategies.base import Strategy
from deploy.local.apiserver.strategies.core import (
    ClaimStrategy,
    DataStrategy,
    EventStrategy,
    LeaseStrategy,
    NamespaceStrategy,
    ServiceStrategy,
)
from deploy.local.apiserver.strategies.cronjobs import CronJobStrategy
from deploy.local.apiserver.strategies.custom import CustomStrategy, DefinitionStrategy
from deploy.local.apiserver.strategies.jobs import JobStrategy
from deploy.local.apiserver.strategies.limits import NetworkPolicyStrategy, PriorityClassStrategy, QuotaStrategy
from deploy.local.apiserver.strategies.pods import PodStrategy
from workers.api.kinds import Kind, Object

__all__ = ["Strategy", "strategy"]

#: Built-in kinds with a status subresource and no rules of their own.
_WITH_STATUS = frozenset({"nodes"})


def strategy(kind: Kind, crd: Object | None = None) -> Strategy:
    """The strategy of a kind; `crd` is the whole CustomResourceDefinition of a custom resource."""
    if crd is not None:
        return CustomStrategy(kind, crd)
    match kind.id:
        case "pods":
            return PodStrategy()
        case "jobs.batch":
            return JobStrategy()
        case "cronjobs.batch":
            return CronJobStrategy()
        case "deployments.apps" | "replicasets.apps" | "statefulsets.apps":
            return WorkloadStrategy(kind)
        case "controllerrevisions.apps":
            return RevisionStrategy()
        case "configmaps" | "secrets":
            return DataStrategy()
        case "namespaces":
            return NamespaceStrategy()
        case "services":
            return ServiceStrategy()
        case "leases.coordination.k8s.io":
            return LeaseStrategy()
        case "events" | "events.events.k8s.io":
            return EventStrategy()
        case "persistentvolumeclaims":
            return ClaimStrategy()
        case "networkpolicies.networking.k8s.io":
            return NetworkPolicyStrategy()
        case "priorityclasses.scheduling.k8s.io":
            return PriorityClassStrategy()
        case "resourcequotas":
            return QuotaStrategy()
        case "customresourcedefinitions.apiextensions.k8s.io":
            return DefinitionStrategy()
        case _:
            return Strategy(status=kind.id in _WITH_STATUS)
