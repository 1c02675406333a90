"""The versions of a group, in the order of discovery: clients take the first one."""

from deploy.local.apiserver.discovery import api_resources
from tests.support.tables import for_each


@for_each(
    (["v1", "v2"], ["v2", "v1"]),
    (["v1alpha1", "v1"], ["v1", "v1alpha1"]),
    (["v1alpha2", "v1beta1", "v10", "v2", "v1beta2"], ["v10", "v2", "v1beta2", "v1beta1", "v1alpha2"]),
    (["foo", "v1beta1", "bar10", "v0"], ["v1beta1", "bar10", "foo", "v0"]),
)
def test_the_most_settled_and_newest_version_comes_first(versions: list[str], ordered: list[str]) -> None:
    definition = {
        "metadata": {"name": "frogs.ex.com"},
        "spec": {
            "group": "ex.com",
            "names": {"kind": "Frog", "plural": "frogs"},
            "scope": "Namespaced",
            "versions": [{"name": name, "served": True, "storage": not at} for at, name in enumerate(versions)],
        },
    }
    registry = api_resources.ResourceRegistry()
    for resource in api_resources.custom(definition):
        registry.add(resource)
    assert list(registry.served()["ex.com"]) == ordered
