"""The rules of each process, from the needs of controllers, triggers and the page. docs/access.md gives the reasons.

A test on a real API server compares them with the requests of running processes: a rule that no request needs fails
it, like a request that no rule allows.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from deploy.manifests.roles import ProcessRules, Wanted
from deploy.webhook.registration import MUTATING, VALIDATING
from deploy.webhook.review_lookups import POD_TEMPLATE
from workers.admission.rules import RULES
from workers.api.kinds import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    COMMAND,
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINTS,
    EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    LEASE,
    NAMESPACE,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    POD_METRICS,
    QUEUE,
    REPLICA_SET,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    TRIGGER_AUTHENTICATION,
    Kind,
)
from workers.controllers import registry
from workers.decision.controller import Controller
from workers.decision.followed_kinds import followed

#: The processes in the order of the manifests. standalone does the work of the first four in one process.
PROCESSES = ("watch", "worker", "scaler", "beat", "gateway", "webhook", "standalone")
#: The processes without a token: they never speak to the API server.
WITHOUT_TOKEN = frozenset({"beat"})

_LIST_AND_WATCH = ("list", "watch")
#: The verbs for creating, patching and deleting objects; `get` follows a conflict.
MAKE = ("create", "delete", "get", "patch")

#: The usual targets of ScaledObjects. A target of another kind needs its own rule if triggers use its variables.
_WORKLOADS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET)
_TOKEN_REVIEW = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
#: Any kind with a scale subresource: a ScaledObject may name one that its user defined.
_SCALABLE = Kind("*", "", "", "*")
#: Kinds whose objects plans create, delete or give a status, and never patch otherwise.
_NEVER_PATCHED = frozenset({COMMAND, JOB_FLOW, JOB_TEMPLATE, SERVICE, NETWORK_POLICY})
#: The kind that has a controller and a status, which is the kubelet's.
_STATUS_OF_OTHERS = frozenset({POD})
NOTHING = ProcessRules()


def controllers() -> Mapping[str, Controller]:
    """Returns the controllers that an installation beside the cluster's own controllers may enable."""
    return registry.controllers("managed", cronjobs=True, policies=True)


def volcano_controllers() -> Mapping[str, Controller]:
    """Returns the controllers of Volcano's kinds."""
    others = registry.controllers("managed", cronjobs=False)
    known = registry.controllers("managed", cronjobs=False, volcano=True)
    return {id: each for id, each in known.items() if id not in others}


def rules_of(process: str, *, volcano: bool = False) -> ProcessRules:
    """Returns the rules of a process. volcano: with those for Volcano's kinds.

    Raises KeyError for a process that is none of `PROCESSES`.
    """
    rules = _RULES[process]
    return rules | volcano_rules_of(process) if volcano else rules


def volcano_rules_of(process: str) -> ProcessRules:
    """Returns the rules for Volcano's kinds that a process needs beyond `rules_of` without them."""
    return _VOLCANO.get(process, NOTHING).beyond(_RULES[process])


def secrets() -> ProcessRules:
    """Returns the rules of triggers, or of the gateway, that read Secrets: each namespace is a decision."""
    return ProcessRules.of([(SECRET, "", ("get",))])


def tokens() -> ProcessRules:
    """Returns the scalers' rules for tokens of service accounts: with these a process acts as another account."""
    return ProcessRules.of([(SERVICE_ACCOUNT, "token", ("create",))])


def key_pairs() -> ProcessRules:
    """Returns the workers' rules for plugin ssh, which keeps the key pair of a Job in a Secret."""
    return ProcessRules.of([(SECRET, "", ("create", "delete", "get"))])


def _watching() -> ProcessRules:
    """Returns the informers' rules: read every followed kind, and elect the leader of each."""
    followed_kinds = ((kind, "", _LIST_AND_WATCH) for kind in followed(controllers()))
    return ProcessRules.of(followed_kinds, own=[(LEASE, "", ("create", "get", "update"))])


def _volcano_watching() -> ProcessRules:
    """Returns the informers' rules for Volcano's kinds; their process also creates the default queues."""
    seen = ((kind, "", _LIST_AND_WATCH) for kind in followed(volcano_controllers()))
    return ProcessRules.of([*seen, (QUEUE, "", ("create", "get"))])


def _of_controllers(known: Mapping[str, Controller]) -> Iterator[Wanted]:
    """Yields what plans of these controllers do to the objects that they reconcile, create and adopt."""
    for controller in known.values():
        yield controller.kind, "", _changing(controller.kind, ("get", "patch"))
        if controller.children:
            # With OwnerReferencesPermissionEnforcement, a child with blockOwnerDeletion requires this right.
            yield controller.kind, "finalizers", ("update",)
        if controller.kind.status and controller.kind not in _STATUS_OF_OTHERS:
            yield controller.kind, "status", ("patch",)
        for child in (*controller.children, *controller.adopts):
            yield child, "", _changing(child, MAKE)


def _changing(kind: Kind, verbs: Iterable[str]) -> tuple[str, ...]:
    return tuple(verb for verb in verbs if verb != "patch" or kind not in _NEVER_PATCHED)


def _acting() -> ProcessRules:
    """Returns the workers' rules: execute plans."""
    return ProcessRules.of(
        (
            *_of_controllers(controllers()),
            (EVENT, "", ("create", "get", "patch")),
            # Their statuses list their users.
            *((kind, "status", ("patch",)) for kind in (TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION)),
            # Pods are created for the Jobs that Penstock controls, and counted for ScaledObjects.
            (POD, "", (*MAKE, "list")),
            (JOB, "", MAKE),
            (_SCALABLE, "scale", ("get", "patch")),
            # For a ScaledObject's target: rivals, and the resource usage of its pods.
            (HORIZONTAL_POD_AUTOSCALER, "", ("delete", "get", "list")),
            (POD_METRICS, "", ("list",)),
        )
    )


def _volcano_acting() -> ProcessRules:
    """Returns the workers' rules for Volcano's kinds."""
    return ProcessRules.of(
        (
            *_of_controllers(volcano_controllers()),
            (POD_GROUP, "", MAKE),
            (COMMAND, "", ("create", "delete", "get")),
            (PERSISTENT_VOLUME_CLAIM, "", ("create", "get")),
        )
    )


def _measuring() -> ProcessRules:
    """Returns the scalers' rules: read authentications, the objects they refer to, targets' templates and sources."""
    return ProcessRules.of(
        (
            (TRIGGER_AUTHENTICATION, "", ("get",)),
            (CLUSTER_TRIGGER_AUTHENTICATION, "", ("get",)),
            (CONFIG_MAP, "", ("get",)),
            (ENDPOINTS, "", ("get",)),
            (POD, "", ("list",)),
            *((kind, "", ("get",)) for kind in _WORKLOADS),
        )
    )


def _receiving() -> ProcessRules:
    """Returns the gateway's rules.

    Whose a token is; the authentications of push triggers on other servers; for the page, what the store lacks. What
    visitors change there they change with their own rights.
    """
    return ProcessRules.of(
        (
            (_TOKEN_REVIEW, "", ("create",)),
            (TRIGGER_AUTHENTICATION, "", ("get",)),
            (CLUSTER_TRIGGER_AUTHENTICATION, "", ("get",)),
            (CONFIG_MAP, "", ("get",)),
            (EVENT, "", ("list",)),
            (POD, "", ("get",)),
            (POD, "log", ("get",)),
        )
    )


def _judging() -> ProcessRules:
    """Returns the webhook's rules: read the objects of admission rules, and register itself."""
    needed = {kind for rules in RULES.values() for kind in (*rules.judges, *rules.removes) if isinstance(kind, Kind)}
    return ProcessRules.of(
        (
            *((kind, "", ("list",)) for kind in needed),
            (NAMESPACE, "", ("get",)),
            # Dry runs only, in which the API server validates pod templates.
            (POD_TEMPLATE, "", ("create",)),
            *((kind, "", ("create", "get", "update")) for kind in (MUTATING, VALIDATING)),
        ),
        own=[(SECRET, "", ("create", "get", "update"))],
    )


_BASE = {"watch": _watching(), "worker": _acting(), "scaler": _measuring()}
_RULES: Mapping[str, ProcessRules] = MappingProxyType(
    {
        **_BASE,
        "beat": NOTHING,
        "gateway": _receiving(),
        "webhook": _judging(),
        "standalone": _BASE["watch"] | _BASE["worker"] | _BASE["scaler"],
    }
)
_VOLCANO_BASE = {"watch": _volcano_watching(), "worker": _volcano_acting()}
_VOLCANO: Mapping[str, ProcessRules] = MappingProxyType(
    {**_VOLCANO_BASE, "standalone": _VOLCANO_BASE["watch"] | _VOLCANO_BASE["worker"]}
)
