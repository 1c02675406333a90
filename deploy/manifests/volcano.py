"""The generator of deploy/volcano.yaml: rights for Volcano's kinds beyond deploy/rbac.yaml, and the webhook's objects.

``python -m deploy.manifests.volcano > deploy/volcano.yaml``. The rights follow from the needs of controllers and
admission; the webhook's account may read the objects of its rules, and write its certificate and its configurations.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence

from deploy.manifests import process_rules, rbac
from deploy.manifests.roles import account, bound, role, text
from workers.api.kinds import Object
from workers.settings import Settings

HEADER = "# Made by `python -m deploy.manifests.volcano`; a test keeps it in step with the controllers.\n"

#: ClusterRole of plugin ssh, which is bound by namespace: with it a worker reads every Secret there.
SSH = "penstock-worker-ssh"
#: The webhook's port in its pod.
_PORT = 8443
_LABELS = {"app.kubernetes.io/name": "penstock", "app.kubernetes.io/component": "webhook"}


def documents(ssh: Iterable[str] = (), placement: rbac.Placement = rbac.DEFAULT) -> Iterator[Object]:
    """Yields further rights for the accounts of deploy/rbac.yaml, and the webhook's account, rights and Service.

    ssh: namespaces whose Jobs may have plugin ssh; `*` for all. placement: for all namespaces; Volcano's Queues have
    none.
    """
    for process in placement.processes:
        rules = process_rules.volcano_rules_of(process)
        yield from rbac.roles_of(f"penstock-{process}-volcano", rules, f"penstock-{process}", placement)
    if acts := next((f"penstock-{each}" for each in ("worker", "standalone") if each in placement.processes), ""):
        yield role("ClusterRole", {"name": SSH}, process_rules.key_pairs().everywhere)
        for namespace in ssh:
            yield bound(SSH, namespace, acts, placement.own)
    name = str(Settings.model_fields["webhook_service"].default)
    yield account(name, placement.own)
    yield from rbac.roles_of(name, process_rules.rules_of("webhook"), name, placement)
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": placement.own, "labels": dict(_LABELS)},
        "spec": {"selector": dict(_LABELS), "ports": [{"name": "https", "port": 443, "targetPort": _PORT}]},
    }


def render(ssh: Iterable[str] = (), placement: rbac.Placement = rbac.DEFAULT) -> str:
    """Returns the whole file. Arguments as for `documents`."""
    return HEADER + text(documents(ssh, placement))


def main(arguments: Sequence[str]) -> None:
    """Prints the file. Exits with a message if an option is malformed."""
    parser = argparse.ArgumentParser("python -m deploy.manifests.volcano", description="Prints the manifests.")
    described = "namespace whose Jobs may have plugin ssh, * for all; may be repeated"
    parser.add_argument(
        "--ssh", action="append", default=[], metavar="NAMESPACE", type=rbac.namespace_option, help=described
    )
    rbac.add_placement(parser)
    given = parser.parse_args(arguments)
    if given.namespaces:
        parser.error("--namespaces: Queues of Volcano belong to no namespace, so its kinds need ClusterRoles")
    sys.stdout.write(render(given.ssh, rbac.placement_of(given)))


if __name__ == "__main__":
    main(sys.argv[1:])
