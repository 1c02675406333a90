"""apps/v1 for clusters without controllers of their own: Deployment and ReplicaSet."""

from workers.controllers.apps.deployment import CONTROLLER as DEPLOYMENTS
from workers.controllers.apps.replicaset import CONTROLLER as REPLICA_SETS

#: One for each kind.
CONTROLLERS = (DEPLOYMENTS, REPLICA_SETS)

__all__ = ["CONTROLLERS"]
