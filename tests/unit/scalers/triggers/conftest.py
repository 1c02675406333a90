"""The cluster of most tests of triggers."""

import pytest

from tests.unit.scalers.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """It has an authentication `login` that supplies a password."""
    cluster = Cluster()
    cluster.authentication(secretTargetRef=[{"parameter": "password", "name": "login", "key": "pw"}])
    cluster.secret("login", pw="hunter2")
    return cluster
