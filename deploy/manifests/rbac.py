"""What each process may do in a cluster, made from what controllers and triggers need.

``python -m deploy.manifests.rbac > deploy/rbac.yaml``. One account per process: those who watch change
nothing, those who measure read Secrets, those who act do not.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import yaml

from deploy.processes.watch import followed
from workers.api.kinds import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINTS,
    EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    LEASE,
    POD,
    POD_METRICS,
    REPLICA_SET,
    SECRET,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    TRIGGER_AUTHENTICATION,
    Kind,
    Object,
)
from workers.controllers import registry
from workers.decision.controller import Controller

HEADER = "# Made by `python -m deploy.manifests.rbac`; a test keeps it in step with the controllers.\n"

NAMESPACE = "penstock"

#: What a rule allows, by group and resource.
Rules = Mapping[tuple[str, str], Iterable[str]]

_SEE = ("get", "list", "watch")
#: What making, changing and deleting objects takes.
MAKE = ("create", "delete", "get", "patch")

#: What a ScaledObject's target usually is; a target of another kind whose variables matter needs a rule of its own.
_WORKLOADS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET)


def controllers() -> Mapping[str, Controller]:
    """Those that an installation beside a cluster's own controllers may have switched on."""
    return registry.controllers("managed", cronjobs=True, policies=True)


def watching(known: Mapping[str, Controller]) -> Rules:
    """What informers need: to see every kind that is followed."""
    return allowing(*((kind, "", _SEE) for kind in followed(known)))


def acting(known: Mapping[str, Controller]) -> Rules:
    """What carrying plans out needs."""
    wanted: list[tuple[Kind, str, Iterable[str]]] = [(EVENT, "", ("create", "get", "patch"))]
    for controller in known.values():
        wanted.append((controller.kind, "", ("get", "patch")))
        # Where OwnerReferencesPermissionEnforcement is on, a child that blocks its owner's deletion needs this.
        wanted.append((controller.kind, "finalizers", ("update",)))
        if controller.kind.status:
            wanted.append((controller.kind, "status", ("get", "patch")))
        wanted += [(child, "", MAKE) for child in (*controller.children, *controller.adopts)]
    for kind in (TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION):
        # Their statuses say who uses them.
        wanted += [(kind, "", ("get",)), (kind, "status", ("get", "patch"))]
    wanted += [
        # Those whose time is up are deleted; pods of those that are ours are made.
        (JOB, "", MAKE),
        (POD, "", (*MAKE, "list")),
        # Of a ScaledObject's target: how many replicas there are, ready, and what they consume.
        (HORIZONTAL_POD_AUTOSCALER, "", ("delete", "get", "list")),
        (POD_METRICS, "", ("list",)),
    ]
    return {**allowing(*wanted), ("*", "*/scale"): ("get", "patch")}


def measuring() -> Rules:
    """What triggers name: authentications and what those name, templates of targets, and what is measured."""
    return allowing(
        (TRIGGER_AUTHENTICATION, "", ("get",)),
        (CLUSTER_TRIGGER_AUTHENTICATION, "", ("get",)),
        (CONFIG_MAP, "", ("get",)),
        (SECRET, "", ("get",)),
        (SERVICE_ACCOUNT, "token", ("create",)),
        (ENDPOINTS, "", ("get",)),
        (POD, "", ("list",)),
        *((kind, "", ("get",)) for kind in _WORKLOADS),
    )


def leading() -> Rules:
    """What taking turns needs, in Penstock's own namespace."""
    return allowing((LEASE, "", ("create", "get", "update")))


def allowing(*wanted: tuple[Kind, str, Iterable[str]]) -> Rules:
    """Rules from kinds, subresources ("": the objects themselves) and verbs."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for kind, subresource, verbs in wanted:
        found[kind.group, f"{kind.plural}/{subresource}" if subresource else kind.plural].update(verbs)
    return {what: sorted(verbs) for what, verbs in sorted(found.items())}


def documents() -> Iterator[Object]:
    """The namespace, and per process an account, a role and its binding."""
    known = controllers()
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for process, rules in (("watch", watching(known)), ("worker", acting(known)), ("scaler", measuring())):
        name = f"penstock-{process}"
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
        yield role("ClusterRole", {"name": name}, rules)
        yield binding("ClusterRole", {"name": name}, name)
    metadata = {"name": "penstock-watch", "namespace": NAMESPACE}
    yield role("Role", metadata, leading())
    yield binding("Role", metadata, "penstock-watch")


def role(kind: str, metadata: Object, rules: Rules) -> Object:
    """A Role or ClusterRole."""
    together: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), verbs in rules.items():
        together[group, tuple(verbs)].append(resource)
    listed = [
        {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
        for (group, verbs), resources in together.items()
    ]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": listed}


def binding(kind: str, metadata: Object, account: str) -> Object:
    """What gives a Role or ClusterRole to one of our accounts."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }


def text(documents: Iterable[Object]) -> str:
    """Documents as one YAML stream."""
    return "".join(
        "---\n" + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)
        for document in documents
    )


def render() -> str:
    """The whole file."""
    return HEADER + text(documents())


if __name__ == "__main__":
    sys.stdout.write(render())
