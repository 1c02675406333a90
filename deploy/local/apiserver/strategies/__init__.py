"""Strategies, one per kind: they prepare objects for storage and validate them. Discovery and admission import them.

A strategy is a function of values: it reads no store and knows no request.
"""

from collections.abc import Callable, Mapping

from deploy.local.apiserver.strategies import role_bindings
from deploy.local.apiserver.strategies.apps import RevisionStrategy, WorkloadStrategy
from deploy.local.apiserver.strategies.base import Strategy
from deploy.local.apiserver.strategies.cluster_policy import NetworkPolicyStrategy, PriorityClassStrategy, QuotaStrategy
from deploy.local.apiserver.strategies.core import (
    ClaimStrategy,
    DataStrategy,
    EventStrategy,
    LeaseStrategy,
    NamespaceStrategy,
    NodeStrategy,
    ServiceStrategy,
)
from deploy.local.apiserver.strategies.cronjobs import CronJobStrategy
from deploy.local.apiserver.strategies.custom import CustomStrategy, DefinitionStrategy
from deploy.local.apiserver.strategies.jobs import JobStrategy
from deploy.local.apiserver.strategies.kept import KeptStrategy, row_of
from deploy.local.apiserver.strategies.pods import PodStrategy
from workers.api.kinds import Kind, Object

__all__ = ["Strategy", "strategy"]

_BUILTIN: Mapping[str, Callable[[], Strategy]] = {
    "configmaps": DataStrategy,
    "controllerrevisions.apps": RevisionStrategy,
    "cronjobs.batch": CronJobStrategy,
    "customresourcedefinitions.apiextensions.k8s.io": DefinitionStrategy,
    "events": EventStrategy,
    "events.events.k8s.io": EventStrategy,
    "jobs.batch": JobStrategy,
    "leases.coordination.k8s.io": LeaseStrategy,
    "namespaces": NamespaceStrategy,
    "networkpolicies.networking.k8s.io": NetworkPolicyStrategy,
    "nodes": NodeStrategy,
    "persistentvolumeclaims": ClaimStrategy,
    "pods": PodStrategy,
    "priorityclasses.scheduling.k8s.io": PriorityClassStrategy,
    "resourcequotas": QuotaStrategy,
    "secrets": DataStrategy,
    "services": ServiceStrategy,
}


def strategy(kind: Kind, crd: Object | None = None) -> Strategy:
    """Returns the strategy of a kind. crd: the whole CustomResourceDefinition of a custom resource."""
    if crd is not None:
        return CustomStrategy(kind, crd)
    if kind.id in ("deployments.apps", "replicasets.apps", "statefulsets.apps"):
        return WorkloadStrategy(kind)
    if (row := row_of(kind)) is not None:
        return (role_bindings.RoleStrategy if kind.group == role_bindings.GROUP else KeptStrategy)(row)
    return _BUILTIN.get(kind.id, Strategy)()
