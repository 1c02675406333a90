"""Which kinds an installation without rights in the cluster reconciles, and what it refuses at its start."""

from typing import Any

import pytest

from scalers.auth.lookups import Lookups
from tests.support.tables import cases
from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, Object, Ref
from workers.controllers import registry
from workers.errors import UserError
from workers.settings import Settings


def test_kinds_without_namespaces_are_left_alone() -> None:
    everything = registry.configured(Settings())
    single = registry.configured(Settings(namespaces=("a",), cluster_scoped=False))
    assert set(everything) - set(single) == {CLUSTER_TRIGGER_AUTHENTICATION.id}


@cases(
    ("no namespaces", {"namespaces": ()}, "PENSTOCK_NAMESPACES must name"),
    ("Queues", {"volcano": True}, "PENSTOCK_VOLCANO: Queues have no namespace"),
    ("ScalePolicies", {"policies": True}, "PENSTOCK_POLICIES: ScalePolicies have no namespace"),
)
def test_settings_that_need_the_cluster_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        registry.configured(Settings(**{"namespaces": ("a",), "cluster_scoped": False, **settings}))


async def test_an_authentication_of_the_cluster_is_not_asked_for() -> None:
    async def get(ref: Ref) -> Object:
        raise AssertionError(ref)

    with pytest.raises(UserError, match="PENSTOCK_CLUSTER_SCOPED=false"):
        await Lookups(get, cluster_scoped=False).find(Ref(CLUSTER_TRIGGER_AUTHENTICATION, "", "wide"))
