"""Discovery: which groups, versions and resources there are, in the old form and in the aggregated one."""

from collections.abc import Iterator

from deploy.local.apiserver.discovery.api_resources import VERBS, ResourceRegistry, ServedResource
from deploy.local.apiserver.handlers import access_reviews
from deploy.local.apiserver.http.request import ApiRequest, Response, json_response
from workers.api.kinds import Kind, Object

#: The Kubernetes release whose API is spoken. Newer clients adapt to what discovery says.
VERSION = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.0+penstock",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "python",
    "platform": "linux/amd64",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _subresources(resource: ServedResource) -> Iterator[tuple[str, Object, tuple[str, ...]]]:
    """Name, response kind and verbs of each subresource."""
    kind = resource.kind
    own = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    if resource.status:
        yield "status", own, ("get", "patch", "update")
    if resource.scale:
        yield "scale", {"group": "autoscaling", "version": "v1", "kind": "Scale"}, ("get", "patch", "update")
    kinds = {
        "binding": {"group": "", "version": "v1", "kind": "Binding"},
        "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
        "finalize": own,
        "log": own,
        "token": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
        **{
            part: {"group": "", "version": "v1", "kind": kind}
            for part, kind in (
                ("attach", "PodAttachOptions"),
                ("exec", "PodExecOptions"),
                ("portforward", "PodPortForwardOptions"),
            )
        },
    }
    for name, verbs in resource.subresources.items():
        yield name, kinds[name], verbs


def _aggregated_resource(resource: ServedResource) -> Object:
    kind = resource.kind
    names = {"shortNames": list(resource.short), "categories": list(resource.categories)}
    parts = [
        {"subresource": name, "responseKind": answer, "verbs": list(verbs)}
        for name, answer, verbs in _subresources(resource)
    ]
    return {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(VERBS),
        **{name: listed for name, listed in names.items() if listed},
        **({"subresources": parts} if parts else {}),
    }


def _reviews(group: str) -> list[Kind]:
    return [review.kind for (found, _), review in access_reviews.REVIEWS.items() if found == group]


def _review_resources(group: str) -> list[Object]:
    return [
        {
            "resource": kind.plural,
            "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "singularResource": kind.kind.lower(),
            "verbs": ["create"],
        }
        for kind in _reviews(group)
    ]


def _tree(registry: ResourceRegistry) -> dict[str, dict[str, list[ServedResource]]]:
    tree = registry.served()
    for group, _ in access_reviews.REVIEWS:
        tree.setdefault(group, {}).setdefault(access_reviews.VERSION, [])
    return tree


def _aggregated(registry: ResourceRegistry, *, core: bool) -> Object:
    items: list[Object] = []
    for group, versions in _tree(registry).items():
        if (group == "") is not core:
            continue
        shown = []
        for version, resources in versions.items():
            rows = [_aggregated_resource(resource) for resource in resources]
            rows += _review_resources(group)
            shown.append({"version": version, "freshness": "Current", "resources": rows})
        meta: Object = {"creationTimestamp": None} | ({"name": group} if group else {})
        items.append({"metadata": meta, "versions": shown})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _group(name: str, versions: dict[str, list[ServedResource]]) -> Object:
    shown = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def _resources(registry: ResourceRegistry, group: str, version: str) -> Object | None:
    resources = _tree(registry).get(group, {}).get(version)
    if resources is None:
        return None
    rows: list[Object] = []
    for resource in resources:
        kind = resource.kind
        names = {"shortNames": list(resource.short), "categories": list(resource.categories)}
        common = {"namespaced": kind.namespaced, "kind": kind.kind}
        row: Object = {"name": kind.plural, "singularName": resource.singular, **common, "verbs": list(VERBS)}
        rows.append(row | {name: listed for name, listed in names.items() if listed})
        for name, answer, verbs in _subresources(resource):
            part: Object = {"name": f"{kind.plural}/{name}", "singularName": "", **common, "verbs": list(verbs)}
            part["kind"] = answer["kind"]
            if (answer["group"], answer["version"]) != (kind.group, kind.version):
                part |= {"group": answer["group"], "version": answer["version"]}
            rows.append(part)
    for kind in _reviews(group):
        review: Object = {"name": kind.plural, "singularName": kind.kind.lower(), "kind": kind.kind}
        rows.append({**review, "namespaced": kind.namespaced, "verbs": ["create"]})
    spelled = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": spelled, "resources": rows}


def answer(registry: ResourceRegistry, request: ApiRequest, parts: list[str]) -> Response | None:
    """The answer to ``/api``, ``/apis`` and what is below them down to a version; None when there is no such group."""
    found: Object | None = None
    match parts:
        case ["api"] | ["apis"] if "as=APIGroupDiscoveryList" in request.headers.get("accept", ""):
            shown = json_response(_aggregated(registry, core=parts == ["api"]))
            return Response(200, shown.body, AGGREGATED)
        case ["api"]:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}]
            return json_response({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in _tree(registry).items() if name]
            return json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        case ["api", version]:
            found = _resources(registry, "", version)
        case ["apis", group]:
            versions = _tree(registry).get(group) if group else None
            if versions:
                found = {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}
        case ["apis", group, version] if group:
            found = _resources(registry, group, version)
    return json_response(found) if found is not None else None
