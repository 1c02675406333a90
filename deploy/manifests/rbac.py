"""The generator of deploy/rbac.yaml: each process's rights, from the needs of controllers and triggers.

``python -m deploy.manifests.rbac > deploy/rbac.yaml``. Every process has its own service account: the informers' only
reads, the workers' sees no Secret. The scalers' reads Secrets in Penstock's own namespace; Secrets elsewhere and tokens
of service accounts are roles that an administrator binds, or that the options of this command bind. The gateway's asks
whose a token is, and reads Secrets only where an option says so.

Two roles are for people: users that are bound to the cluster's `view` or `edit` may see, or change, Penstock's objects.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from deploy.processes.watch import followed
from workers.api import names
from workers.api.kinds import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINTS,
    EVENT,
    EVENT_JOB,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    LEASE,
    POD,
    POD_METRICS,
    REPLICA_SET,
    SCALE_POLICY,
    SCALED_JOB,
    SCALED_OBJECT,
    SCHEDULED_JOB,
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

_SCALER, _GATEWAY = "penstock-scaler", "penstock-gateway"
#: ClusterRoles of the scalers' and the gateway's credentials, which are bound by namespace.
SECRETS, TOKENS, PUSHERS = f"{_SCALER}-secrets", f"{_SCALER}-tokens", f"{_GATEWAY}-secrets"
#: Stands for all namespaces in an option.
EVERYWHERE = "*"
_SECRETS_HELP = "namespace whose Secrets triggers may use, * for all; may be repeated"
_PUSHERS_HELP = "namespace whose Secrets prove who pushes to its objects, * for all; may be repeated"
_TOKENS_HELP = "NAMESPACE/ACCOUNT, NAMESPACE or *: service accounts whose tokens triggers may use; may be repeated"


@dataclass(frozen=True, slots=True)
class Grants:
    """Rights beyond the default. tokens: namespaces, or accounts as ``namespace/name``.

    secrets, pushers: namespaces whose Secrets the scalers, or the gateway, may read.
    """

    secrets: tuple[str, ...] = ()
    pushers: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()


NOTHING = Grants()

#: Allowed verbs by group and resource.
Rules = Mapping[tuple[str, str], Iterable[str]]

_SEE = ("get", "list", "watch")
#: The verbs for creating, patching and deleting objects.
MAKE = ("create", "delete", "get", "patch")

#: The usual targets of ScaledObjects. A target of another kind needs its own rule if triggers use its variables.
_WORKLOADS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET)

_TOKEN_REVIEW = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
#: The kinds that people write.
_WRITTEN = (
    *(EVENT_JOB, SCALED_JOB, SCALED_OBJECT, SCHEDULED_JOB, SCALE_POLICY),
    *(TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION),
)
#: The verbs of people: of the cluster's role view, and those that edit has beyond them.
_LOOK, _CHANGE = _SEE, ("create", "delete", "deletecollection", "patch", "update")


def controllers() -> Mapping[str, Controller]:
    """Returns the controllers that an installation beside the cluster's own controllers may enable."""
    return registry.controllers("managed", cronjobs=True, policies=True)


def watching(known: Mapping[str, Controller]) -> Rules:
    """Returns the informers' rules: read every followed kind."""
    return allowing(*((kind, "", _SEE) for kind in followed(known)))


def acting(known: Mapping[str, Controller]) -> Rules:
    """Returns the workers' rules: execute plans."""
    wanted: list[tuple[Kind, str, Iterable[str]]] = [(EVENT, "", ("create", "get", "patch"))]
    for controller in known.values():
        wanted.append((controller.kind, "", ("get", "patch")))
        # With OwnerReferencesPermissionEnforcement, a child with blockOwnerDeletion requires this right.
        wanted.append((controller.kind, "finalizers", ("update",)))
        if controller.kind.status:
            wanted.append((controller.kind, "status", ("get", "patch")))
        wanted += [(child, "", MAKE) for child in (*controller.children, *controller.adopts)]
    for kind in (TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION):
        # Their statuses list their users.
        wanted += [(kind, "", ("get",)), (kind, "status", ("get", "patch"))]
    wanted += [
        # Jobs are deleted after their time to live; pods are created for the Jobs that Penstock controls.
        (JOB, "", MAKE),
        (POD, "", (*MAKE, "list")),
        # For a ScaledObject's target: its replicas, their readiness and their resource usage.
        (HORIZONTAL_POD_AUTOSCALER, "", ("delete", "get", "list")),
        (POD_METRICS, "", ("list",)),
    ]
    return {**allowing(*wanted), ("*", "*/scale"): ("get", "patch")}


def measuring() -> Rules:
    """Returns the scalers' rules: read authentications, the objects they reference, targets' templates and sources."""
    return allowing(
        (TRIGGER_AUTHENTICATION, "", ("get",)),
        (CLUSTER_TRIGGER_AUTHENTICATION, "", ("get",)),
        (CONFIG_MAP, "", ("get",)),
        (ENDPOINTS, "", ("get",)),
        (POD, "", ("list",)),
        *((kind, "", ("get",)) for kind in _WORKLOADS),
    )


def receiving() -> Rules:
    """Returns the gateway's rules.

    Whose a token is; the authentications of push triggers on other servers; for the page, what the store lacks. What
    visitors change there they change with their own rights.
    """
    return allowing(
        (_TOKEN_REVIEW, "", ("create",)),
        (TRIGGER_AUTHENTICATION, "", ("get",)),
        (CLUSTER_TRIGGER_AUTHENTICATION, "", ("get",)),
        (CONFIG_MAP, "", ("get",)),
        (EVENT, "", ("list",)),
        (POD, "", ("get",)),
        (POD, "log", ("get",)),
    )


def people() -> Iterator[Object]:
    """Yields the ClusterRoles that the cluster's roles view, edit and admin take up."""
    for name, verbs in (("view", _LOOK), ("edit", _CHANGE)):
        labels = {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}
        rules = allowing(*((kind, "", verbs) for kind in _WRITTEN))
        yield role("ClusterRole", {"name": f"penstock-{name}", "labels": labels}, rules)


def credentials() -> Mapping[str, Rules]:
    """Returns further rules of scalers and gateway by role: with these one acts as others, so each namespace is a
    decision.
    """
    return {
        SECRETS: allowing((SECRET, "", ("get",))),
        PUSHERS: allowing((SECRET, "", ("get",))),
        TOKENS: allowing((SERVICE_ACCOUNT, "token", ("create",))),
    }


def leading() -> Rules:
    """Returns the rules of leader election, for Penstock's own namespace."""
    return allowing((LEASE, "", ("create", "get", "update")))


def allowing(*wanted: tuple[Kind, str, Iterable[str]]) -> Rules:
    """Returns rules from kinds, subresources ("": the objects themselves) and verbs."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for kind, subresource, verbs in wanted:
        found[kind.group, f"{kind.plural}/{subresource}" if subresource else kind.plural].update(verbs)
    return {what: sorted(verbs) for what, verbs in sorted(found.items())}


def documents(granted: Grants) -> Iterator[Object]:
    """Yields the namespace, per process a service account, a role and its binding, and the roles of credentials."""
    known = controllers()
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    processes = {"watch": watching(known), "worker": acting(known), "scaler": measuring(), "gateway": receiving()}
    for process, rules in processes.items():
        name = f"penstock-{process}"
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
        yield role("ClusterRole", {"name": name}, rules)
        yield binding("ClusterRole", {"name": name}, name)
    metadata = {"name": "penstock-watch", "namespace": NAMESPACE}
    yield role("Role", metadata, leading())
    yield binding("Role", metadata, "penstock-watch")
    for name, rules in credentials().items():
        yield role("ClusterRole", {"name": name}, rules)
    yield from people()
    # ClusterTriggerAuthentications refer to Secrets of this namespace.
    for namespace in (NAMESPACE, *granted.secrets):
        yield from bound(SECRETS, namespace, _SCALER)
    for namespace in granted.pushers:
        yield from bound(PUSHERS, namespace, _GATEWAY)
    for place in granted.tokens:
        namespace, _, account = place.partition("/")
        yield from _token(namespace, account) if account else bound(TOKENS, namespace, _SCALER)


def bound(name: str, namespace: str, account: str) -> Iterator[Object]:
    """Yields the binding of a ClusterRole to an account, in one namespace or, for `*`, in all."""
    if namespace == EVERYWHERE:
        yield binding("ClusterRole", {"name": name}, account)
    else:
        yield {**binding("ClusterRole", {"name": name, "namespace": namespace}, account), "kind": "RoleBinding"}


def _token(namespace: str, account: str) -> Iterator[Object]:
    """Yields the role for tokens of one service account, and its binding."""
    metadata = {"name": f"{TOKENS}-{account}", "namespace": namespace}
    made = role("Role", metadata, credentials()[TOKENS])
    # The request names the account, so that the right can be limited to it.
    yield {**made, "rules": [{**rule, "resourceNames": [account]} for rule in made["rules"]]}
    yield binding("Role", metadata, _SCALER)


def role(kind: str, metadata: Object, rules: Rules) -> Object:
    """Returns a Role or ClusterRole."""
    together: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), verbs in rules.items():
        together[group, tuple(verbs)].append(resource)
    listed = [
        {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
        for (group, verbs), resources in together.items()
    ]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": listed}


def binding(kind: str, metadata: Object, account: str) -> Object:
    """Returns the binding of a Role or ClusterRole to a service account of Penstock."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }


def text(documents: Iterable[Object]) -> str:
    """Returns documents as one YAML stream."""
    return "".join(
        "---\n" + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)
        for document in documents
    )


def options(arguments: Sequence[str]) -> Grants:
    """Returns the rights that command line options ask for. Exits with a message if they are malformed."""
    parser = argparse.ArgumentParser(
        "python -m deploy.manifests.rbac", description="Prints the manifests of the rights."
    )
    parser.add_argument(
        "--secrets", action="append", default=[], metavar="NAMESPACE", type=namespace_option, help=_SECRETS_HELP
    )
    parser.add_argument(
        "--pushers", action="append", default=[], metavar="NAMESPACE", type=namespace_option, help=_PUSHERS_HELP
    )
    parser.add_argument("--tokens", action="append", default=[], metavar="WHOSE", type=_accounts, help=_TOKENS_HELP)
    given = parser.parse_args(arguments)
    return Grants(tuple(given.secrets), tuple(given.pushers), tuple(given.tokens))


def namespace_option(text: str) -> str:
    """Returns the value of an option that names a namespace or all. Raises argparse.ArgumentTypeError."""
    if text != EVERYWHERE and names.dns_label(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no namespace, and not {EVERYWHERE}")
    return text


def _accounts(text: str) -> str:
    namespace, slash, account = text.partition("/")
    if slash and names.dns_subdomain(account):
        raise argparse.ArgumentTypeError(f"{account!r} is no name of a service account")
    return namespace_option(namespace) + slash + account


def render(granted: Grants = NOTHING) -> str:
    """Returns the whole file."""
    return HEADER + text(documents(granted))


if __name__ == "__main__":
    sys.stdout.write(render(options(sys.argv[1:])))
