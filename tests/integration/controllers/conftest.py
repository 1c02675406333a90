"""A client of the cluster at which a module's whole Penstock works."""

from collections.abc import AsyncIterator

import pytest

from tests.support.house import House
from workers.client.rest import Cluster


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    """A client of the cluster of `running`."""
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster
