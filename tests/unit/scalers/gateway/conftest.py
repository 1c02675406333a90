"""The broker of the gateway's tests: one in memory, then a real one."""

import pytest


@pytest.fixture(params=["fake", "real"])
def client(request):
    """A client of each broker in turn."""
    return request.getfixturevalue(f"{request.param}_redis")
