from collections.abc import Iterator

import pytest

from tests.support import helm


@pytest.fixture(scope="session")
def chart() -> Iterator[helm.Helm]:
    """Helm, for the whole run of this process."""
    with helm.running() as running:
        yield running
