"""The generator of deploy/rbac.yaml: each process's account, role and binding, and the roles of credentials.

``python -m deploy.manifests.rbac > deploy/rbac.yaml``. Every process has its own service account: the informers' only
reads, the workers' sees no Secret, the beat's has no token. The scalers' reads Secrets in Penstock's own namespace;
Secrets elsewhere and tokens of service accounts are roles that an administrator binds, or that the options of this
command bind. The gateway's asks whose a token is, and reads Secrets only where an option says so.

With ``--namespaces a,b`` everything is a Role in these namespaces: such an installation needs no right to
write ClusterRoles, and PENSTOCK_NAMESPACES=a,b and PENSTOCK_CLUSTER_SCOPED=false in its processes.

Two roles are for people: users that are bound to the cluster's `view` or `edit` may see, or change, Penstock's objects.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deploy.manifests import process_rules
from deploy.manifests.process_rules import WITHOUT_TOKEN
from deploy.manifests.roles import EVERYWHERE, NAMESPACE, ProcessRules, account, binding, bound, role, text
from workers.api import names
from workers.api.kinds import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    EVENT_JOB,
    SCALE_POLICY,
    SCALED_JOB,
    SCALED_OBJECT,
    SCHEDULED_JOB,
    TRIGGER_AUTHENTICATION,
    Object,
)

HEADER = "# Made by `python -m deploy.manifests.rbac`; a test keeps it in step with the controllers.\n"

_SCALER, _GATEWAY = "penstock-scaler", "penstock-gateway"
#: Roles of the scalers' and the gateway's credentials, which are bound by namespace.
SECRETS, TOKENS, PUSHERS = f"{_SCALER}-secrets", f"{_SCALER}-tokens", f"{_GATEWAY}-secrets"
_SECRETS_HELP = "namespace whose Secrets triggers may use, * for all; may be repeated"
_PUSHERS_HELP = "namespace whose Secrets prove who pushes to its objects, * for all; may be repeated"
_TOKENS_HELP = "NAMESPACE/ACCOUNT, NAMESPACE or *: service accounts whose tokens triggers may use; may be repeated"
_NAMESPACES_HELP = "namespaces that Penstock serves, comma separated: Roles there, and no ClusterRole"
_STANDALONE_HELP = "for `penstock standalone` instead of the processes watch, worker, scaler and beat"

#: The kinds that people write.
_WRITTEN = (
    *(EVENT_JOB, SCALED_JOB, SCALED_OBJECT, SCHEDULED_JOB, SCALE_POLICY),
    *(TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION),
)
#: The verbs of people: of the cluster's role view, and those that edit has beyond them.
_LOOK, _CHANGE = ("get", "list", "watch"), ("create", "delete", "deletecollection", "patch", "update")


@dataclass(frozen=True, slots=True)
class Grants:
    """Rights beyond the default. tokens: namespaces, or accounts as ``namespace/name``.

    secrets, pushers: namespaces whose Secrets the scalers, or the gateway, may read.
    """

    secrets: tuple[str, ...] = ()
    pushers: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """The processes of an installation, and where they work.

    own: Penstock's own namespace. namespaces: those that it serves, by Roles; empty: all of them, by ClusterRoles.
    processes: of `process_rules.PROCESSES`; the webhook comes with deploy/volcano.yaml.
    """

    own: str = NAMESPACE
    namespaces: tuple[str, ...] = ()
    processes: tuple[str, ...] = ("watch", "worker", "scaler", "beat", "gateway")


NOTHING = Grants()
DEFAULT = Placement()
#: The processes of an installation with `penstock standalone`.
STANDALONE = ("standalone", "gateway")


def documents(granted: Grants = NOTHING, placement: Placement = DEFAULT) -> Iterator[Object]:
    """Yields per process a service account, its roles and their bindings, and the roles of credentials.

    For all namespaces also Penstock's own namespace and the roles for people, which are objects of the cluster.
    """
    if not placement.namespaces:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": placement.own}}
    for process in placement.processes:
        yield account(f"penstock-{process}", placement.own, token=process not in WITHOUT_TOKEN)
        yield from roles_of(f"penstock-{process}", process_rules.rules_of(process), f"penstock-{process}", placement)
    yield from _credentials(granted, placement)
    if not placement.namespaces:
        yield from people()


def roles_of(name: str, rules: ProcessRules, account: str, placement: Placement = DEFAULT) -> Iterator[Object]:
    """Yields the roles with these rules and their bindings to an account.

    For single namespaces the rules of kinds without namespaces are left out: no Role can grant them.
    """
    if not placement.namespaces and (everywhere := rules.everywhere):
        yield role("ClusterRole", {"name": name}, everywhere)
        yield binding("ClusterRole", {"name": name}, account, placement.own)
    for namespace in placement.namespaces:
        if rules.namespaced:
            metadata = {"name": name, "namespace": namespace}
            yield role("Role", metadata, rules.namespaced)
            yield binding("Role", metadata, account, placement.own)
    if rules.own:
        # Penstock's own namespace may be one of those that it serves, with a Role of the first name.
        metadata = {"name": f"{name}-own" if placement.namespaces else name, "namespace": placement.own}
        yield role("Role", metadata, rules.own)
        yield binding("Role", metadata, account, placement.own)


def people() -> Iterator[Object]:
    """Yields the ClusterRoles that the cluster's roles view, edit and admin take up."""
    for name, verbs in (("view", _LOOK), ("edit", _CHANGE)):
        labels = {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}
        rules = ProcessRules.of((kind, "", verbs) for kind in _WRITTEN).everywhere
        yield role("ClusterRole", {"name": f"penstock-{name}", "labels": labels}, rules)


def _credentials(granted: Grants, placement: Placement) -> Iterator[Object]:
    """Yields the roles with which one acts as others, and their bindings."""
    measures = next((f"penstock-{each}" for each in ("scaler", "standalone") if each in placement.processes), "")
    receives = _GATEWAY if "gateway" in placement.processes else ""
    # ClusterTriggerAuthentications refer to Secrets of this namespace; without a ClusterRole there are none.
    own = () if placement.namespaces else (placement.own,)
    wanted = (
        (SECRETS, process_rules.secrets(), (*own, *granted.secrets), measures),
        (PUSHERS, process_rules.secrets(), granted.pushers, receives),
        (TOKENS, process_rules.tokens(), tuple(each for each in granted.tokens if "/" not in each), measures),
    )
    for name, rules, namespaces, subject in wanted:
        if not subject:
            continue
        if not placement.namespaces:
            yield role("ClusterRole", {"name": name}, rules.everywhere)
            for namespace in dict.fromkeys(namespaces):
                yield bound(name, namespace, subject, placement.own)
            continue
        if served := tuple(dict.fromkeys(placement.namespaces if EVERYWHERE in namespaces else namespaces)):
            yield from roles_of(name, rules, subject, Placement(placement.own, served))
    for place in granted.tokens:
        namespace, slash, name = place.partition("/")
        if slash and measures:
            yield from _token(namespace, name, measures, placement.own)


def _token(namespace: str, account: str, subject: str, own: str) -> Iterator[Object]:
    """Yields the role for tokens of one service account, and its binding."""
    metadata = {"name": f"{TOKENS}-{account}", "namespace": namespace}
    made = role("Role", metadata, process_rules.tokens().namespaced)
    # The request names the account, so that the right can be limited to it.
    yield {**made, "rules": [{**rule, "resourceNames": [account]} for rule in made["rules"]]}
    yield binding("Role", metadata, subject, own)


def options(arguments: Sequence[str]) -> tuple[Grants, Placement]:
    """Returns what command line options ask for. Exits with a message if they are malformed."""
    parser = argparse.ArgumentParser(
        "python -m deploy.manifests.rbac", description="Prints the manifests of the rights."
    )
    parser.add_argument(
        "--secrets", action="append", default=[], metavar="NAMESPACE", type=namespace_option, help=_SECRETS_HELP
    )
    parser.add_argument(
        "--pushers", action="append", default=[], metavar="NAMESPACE", type=namespace_option, help=_PUSHERS_HELP
    )
    parser.add_argument(
        "--tokens", action="append", default=[], metavar="WHOSE", type=accounts_option, help=_TOKENS_HELP
    )
    add_placement(parser)
    given = parser.parse_args(arguments)
    return Grants(tuple(given.secrets), tuple(given.pushers), tuple(given.tokens)), placement_of(given)


def add_placement(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a `Placement`."""
    parser.add_argument("--namespaces", default=(), metavar="NAMES", type=namespace_names, help=_NAMESPACES_HELP)
    parser.add_argument(
        "--own",
        default=NAMESPACE,
        metavar="NAMESPACE",
        type=namespace_name,
        help="Penstock's own namespace [default: penstock]",
    )
    parser.add_argument("--standalone", action="store_true", help=_STANDALONE_HELP)


def placement_of(given: argparse.Namespace) -> Placement:
    """Returns the placement that parsed options ask for."""
    return Placement(given.own, given.namespaces, STANDALONE if given.standalone else DEFAULT.processes)


def namespace_option(text: str) -> str:
    """Returns the value of an option that names a namespace or all. Raises argparse.ArgumentTypeError."""
    return text if text == EVERYWHERE else namespace_name(text)


def namespace_name(text: str) -> str:
    """Returns the value of an option that names a namespace. Raises argparse.ArgumentTypeError."""
    if names.dns_label(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no namespace, and not {EVERYWHERE}")
    return text


def namespace_names(text: str) -> tuple[str, ...]:
    """Returns the namespaces of an option, comma separated. Raises argparse.ArgumentTypeError."""
    return tuple(dict.fromkeys(namespace_name(part.strip()) for part in text.split(",")))


def accounts_option(text: str) -> str:
    """Returns the value of an option that names an account, a namespace or all. Raises argparse.ArgumentTypeError."""
    namespace, slash, account = text.partition("/")
    if slash and names.dns_subdomain(account):
        raise argparse.ArgumentTypeError(f"{account!r} is no name of a service account")
    return namespace_option(namespace) + slash + account


def render(granted: Grants = NOTHING, placement: Placement = DEFAULT) -> str:
    """Returns the whole file."""
    return HEADER + text(documents(granted, placement))


if __name__ == "__main__":
    sys.stdout.write(render(*options(sys.argv[1:])))
