"""The generator of deploy/volcano.yaml: rights for Volcano's kinds beyond deploy/rbac.yaml, and the webhook's objects.

``python -m deploy.manifests.volcano > deploy/volcano.yaml``. The rights follow from the needs of controllers and
admission; the webhook's account may read the objects of its rules, and write its certificate and its configurations.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from deploy.manifests.rbac import MAKE, NAMESPACE, Rules, allowing, binding, bound, namespace_option, role, text
from deploy.processes.watch import followed
from deploy.webhook.registration import MUTATING, VALIDATING
from deploy.webhook.review_lookups import POD_TEMPLATE
from workers.admission.rules import RULES
from workers.api.kinds import (
    COMMAND,
    EVENT,
    JOB_FLOW,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    QUEUE,
    SECRET,
    VC_JOB,
    Kind,
    Object,
)
from workers.api.kinds import (
    NAMESPACE as NAMESPACES,
)
from workers.controllers import registry
from workers.decision.controller import Controller
from workers.settings import Settings

HEADER = "# Made by `python -m deploy.manifests.volcano`; a test keeps it in step with the controllers.\n"

#: ClusterRole of plugin ssh, which is bound by namespace: with it a worker reads every Secret there.
SSH = "penstock-worker-ssh"
#: The webhook's port in its pod.
_PORT = 8443
_LABELS = {"app.kubernetes.io/name": "penstock", "app.kubernetes.io/component": "webhook"}


def controllers() -> Mapping[str, Controller]:
    """Returns the controllers of Volcano's kinds."""
    others = registry.controllers("managed", cronjobs=False)
    known = registry.controllers("managed", cronjobs=False, volcano=True)
    return {id: each for id, each in known.items() if id not in others}


def watching() -> Rules:
    """Returns the informers' rules; their process also creates the default queues."""
    seen = ((kind, "", ("get", "list", "watch")) for kind in followed(controllers()))
    return allowing(*seen, (QUEUE, "", ("create",)))


def acting() -> Rules:
    """Returns the workers' rules: execute plans."""
    wanted: list[tuple[Kind, str, Iterable[str]]] = [(EVENT, "", ("create", "get", "patch"))]
    for controller in controllers().values():
        wanted += [(controller.kind, "", ("get", "patch")), (controller.kind, "finalizers", ("update",))]
        if controller.kind.status:
            wanted.append((controller.kind, "status", ("get", "patch")))
        wanted += [(child, "", MAKE) for child in (*controller.children, *controller.adopts)]
    made = (VC_JOB, JOB_FLOW, POD, POD_GROUP)
    return allowing(
        *wanted,
        *((kind, "", MAKE) for kind in made),
        (COMMAND, "", ("create", "delete", "get")),
        (PERSISTENT_VOLUME_CLAIM, "", ("create", "get")),
    )


def key_pairs() -> Rules:
    """Returns the workers' rules for plugin ssh, which keeps the key pair of a Job in a Secret."""
    return allowing((SECRET, "", ("create", "delete", "get")))


def judging() -> Rules:
    """Returns the webhook's rules: read the objects of admission rules, and register itself."""
    needed = {kind for rules in RULES.values() for kind in (*rules.judges, *rules.removes) if isinstance(kind, Kind)}
    return allowing(
        *((kind, "", ("list",)) for kind in needed),
        (NAMESPACES, "", ("get",)),
        # Dry runs only, in which the API server validates pod templates.
        (POD_TEMPLATE, "", ("create",)),
        *((kind, "", ("create", "get", "update")) for kind in (MUTATING, VALIDATING)),
    )


def documents(ssh: Iterable[str] = ()) -> Iterator[Object]:
    """Yields further rights for the accounts of deploy/rbac.yaml, and the webhook's account, rights and Service.

    ssh: namespaces whose Jobs may have plugin ssh; `*` for all.
    """
    for process, rules in (("watch", watching()), ("worker", acting())):
        metadata = {"name": f"penstock-{process}-volcano"}
        yield role("ClusterRole", metadata, rules)
        yield binding("ClusterRole", metadata, f"penstock-{process}")
    yield role("ClusterRole", {"name": SSH}, key_pairs())
    for namespace in ssh:
        yield from bound(SSH, namespace, "penstock-worker")
    name = str(Settings.model_fields["webhook_service"].default)
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
    yield role("ClusterRole", {"name": name}, judging())
    yield binding("ClusterRole", {"name": name}, name)
    own = {"name": name, "namespace": NAMESPACE}
    yield role("Role", own, allowing((SECRET, "", ("create", "get", "update"))))
    yield binding("Role", own, name)
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**own, "labels": dict(_LABELS)},
        "spec": {"selector": dict(_LABELS), "ports": [{"name": "https", "port": 443, "targetPort": _PORT}]},
    }


def render(ssh: Iterable[str] = ()) -> str:
    """Returns the whole file. ssh: as for `documents`."""
    return HEADER + text(documents(ssh))


def main(arguments: Sequence[str]) -> None:
    """Prints the file. Exits with a message if an option is malformed."""
    parser = argparse.ArgumentParser("python -m deploy.manifests.volcano", description="Prints the manifests.")
    described = "namespace whose Jobs may have plugin ssh, * for all; may be repeated"
    parser.add_argument(
        "--ssh", action="append", default=[], metavar="NAMESPACE", type=namespace_option, help=described
    )
    sys.stdout.write(render(parser.parse_args(arguments).ssh))


if __name__ == "__main__":
    main(sys.argv[1:])
