"""`penstock standalone` works on a real API server with exactly its role."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait

import pytest

from deploy.manifests import rbac, volcano
from tests.integration.controllers.role_scenario import KINDS
from tests.support import audit
from tests.support.role_rig import GRANTS, STANDALONE, Running, role_rig

pytestmark = [pytest.mark.real_apiserver, pytest.mark.timeout(600)]

PLACEMENT = rbac.Placement(processes=rbac.STANDALONE)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One process, gateway and webhook, each with its account."""
    roles = [*rbac.documents(GRANTS, PLACEMENT), *volcano.documents(("default",), PLACEMENT)]
    with role_rig(tmp_path_factory.mktemp("standalone"), roles, processes=(*STANDALONE, "kubelet")) as found:
        yield found


@pytest.mark.parametrize("kind", [kind.__name__ for kind in KINDS])
def test_a_kind_is_reconciled(kind: str, scenario: Mapping[str, "Future[None]"]) -> None:
    scenario[kind].result()


def test_no_request_is_refused(running: Running, scenario: Mapping[str, "Future[None]"]) -> None:
    wait(scenario.values())
    assert audit.refused(running.home) == {}
    assert not [name for name, log in running.logs.items() if "blockOwnerDeletion" in log.read_text()]
