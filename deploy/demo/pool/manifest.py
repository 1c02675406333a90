"""The pool's manifests: a Deployment of Celery workers, and the ScaledObject that sizes it by its own queue."""

from deploy.demo.pool.work import QUEUE
from deploy.processes import command_lines
from workers.api.kinds import Object

NAME = "pool"
NAMESPACE = "default"


def deployment(broker: str) -> Object:
    """Returns a Deployment with no replicas at first. broker: the Redis URL of the tasks.

    A worker finishes its current task after SIGTERM, within the grace period. The pool is solo, not prefork: a prefork
    parent may miss its child's result during shutdown. It then waits for half a minute and the task runs again, or,
    if the worker is killed meanwhile, stays invisible for an hour.
    """
    words = ("worker", "--pool=solo", "--without-gossip", "--without-mingle", "--loglevel=INFO")
    container = {
        "name": "worker",
        "image": "python",
        "command": [*command_lines.celery("deploy.demo.pool.tasks", *words)],
        "env": [{"name": "POOL_BROKER", "value": broker}],
    }
    labels = {"app": NAME}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 30, "containers": [container]},
            },
        },
    }


def scaled_object(broker: str, tasks: int, most: int) -> Object:
    """Returns a ScaledObject with one worker per number of unfinished tasks, and none shortly after the last task."""
    quick = {"stabilizationWindowSeconds": 2, "policies": [{"type": "Pods", "value": most, "periodSeconds": 1}]}
    metadata = {"broker": broker, "queues": QUEUE, "tasksPerJob": str(tasks)}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"name": NAME},
            "pollingInterval": 1,
            "cooldownPeriod": 3,
            "minReplicaCount": 0,
            "maxReplicaCount": most,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": quick}}},
            "triggers": [{"type": "celery", "metadata": metadata}],
        },
    }
