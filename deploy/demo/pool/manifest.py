"""The pool's manifests: a Deployment of Celery workers, and the ScaledObject that sizes it by its own queue."""

from deploy.demo.pool.work import QUEUE
from deploy.processes import command_lines
from workers.api.kinds import Object

NAME = "pool"
NAMESPACE = "default"


def deployment(broker: str) -> Object:
    """No worker to begin with. broker: the Redis URL that tasks come from.

    A worker that is told to end finishes the task in its hands first, within the grace period. It is one process: one
    that has a child do the work (prefork) may miss the child's answer when it is told to end. Then it waits for half a
    minute, and the task runs again, or, if the worker is killed meanwhile, is not seen for an hour.
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
    """One worker for so many tasks that are not done, at most so many; none a few seconds after the last task."""
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
