"""Volcano's kinds on the fake cluster, and helpers of the tests of vcctl's verbs."""

from tests.unit.cli.fake import FakeCluster
from workers.api.kinds import COMMAND, JOB_FLOW, JOB_TEMPLATE, POD_GROUP, PRIORITY_CLASS, QUEUE, Kind, Object

#: Besides Jobs, which every fake cluster has.
KINDS = (QUEUE, POD_GROUP, COMMAND, JOB_FLOW, JOB_TEMPLATE, PRIORITY_CLASS)
CREATED = "2026-03-01T10:00:00Z"


def objects(cluster: FakeCluster, kind: Kind) -> list[Object]:
    """Returns the cluster's objects of a kind."""
    spelt = (kind.api_version, kind.kind)
    return [body for body in cluster.objects.values() if (body["apiVersion"], body["kind"]) == spelt]


def words(text: str) -> list[list[str]]:
    """Returns the words of each line."""
    return [line.split() for line in text.splitlines()]
