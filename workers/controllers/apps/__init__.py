"""apps/v1 for clusters without controllers of their own: Deployment, ReplicaSet, StatefulSet."""

from workers.controllers.apps.deployment import CONTROLLER as DEPLOYMENTS
from workers.controllers.apps.replicaset import CONTROLLER as REPLICA_SETS
from workers.controllers.apps.statefulset import CONTROLLER as STATEFUL_SETS

#: One for each kind.
CONTROLLERS = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)

__all__ = ["CONTROLLERS"]
