"""The controllers of apps/v1 (Deployment, ReplicaSet, StatefulSet), for clusters without their own.

The registry alone imports them.
"""

from workers.controllers.apps.deployment import CONTROLLER as DEPLOYMENTS
from workers.controllers.apps.replicaset import CONTROLLER as REPLICA_SETS
from workers.controllers.apps.statefulset import CONTROLLER as STATEFUL_SETS

#: One per kind.
CONTROLLERS = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)

__all__ = ["CONTROLLERS"]
