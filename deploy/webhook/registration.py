"""The webhook configurations: the requests under review, the webhook's address, and the failure policy."""

import base64
from dataclasses import dataclass

from workers.admission.admission_options import AdmissionOptions
from workers.admission.rules import RULES, KindRules
from workers.api.kinds import POD, Kind, Object, Ref
from workers.api.references import GANG_GATE

VALIDATING = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
MUTATING = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
MUTATE, VALIDATE = "/mutate", "/validate"
#: Seconds that the API server waits for an answer.
TIMEOUT = 10
#: The first minor version of Kubernetes 1 with matchConditions.
MATCH_CONDITIONS = 28


@dataclass(frozen=True, slots=True)
class Place:
    """The webhook's address.

    url: the webhook's URL, empty for the Service of this name and namespace. match_conditions: the API server supports
    matchConditions, which limit reviews of pods to those of Penstock's schedulers.
    """

    namespace: str
    service: str
    url: str = ""
    match_conditions: bool = True

    def client(self, path: str, bundle: str) -> Object:
        """Returns the clientConfig of a webhook."""
        trusted = {"caBundle": base64.b64encode(bundle.encode()).decode()}
        if self.url:
            return {"url": self.url.rstrip("/") + path, **trusted}
        service = {"namespace": self.namespace, "name": self.service, "path": path, "port": 443}
        return {"service": service, **trusted}

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the certificate must cover, besides the host of the URL."""
        host = f"{self.service}.{self.namespace}.svc"
        return (host, f"{host}.cluster.local")


def wanted(place: Place, options: AdmissionOptions, bundle: str) -> dict[Ref, Object]:
    """Returns both configurations."""
    validating = [_webhook(rules, place, options, bundle, mutating=False) for rules in RULES.values()]
    mutating = [_webhook(rules, place, options, bundle, mutating=True) for rules in RULES.values() if rules.fills_in]
    return dict(_configuration(kind, place, hooks) for kind, hooks in ((MUTATING, mutating), (VALIDATING, validating)))


def _configuration(kind: Kind, place: Place, webhooks: list[Object]) -> tuple[Ref, Object]:
    # Two installations in one cluster must not overwrite each other's configurations.
    name = f"penstock-{place.namespace}-{place.service}"
    body = {
        **kind.type_meta,
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/name": "penstock", "app.kubernetes.io/component": "webhook"},
        },
        "webhooks": webhooks,
    }
    return Ref(kind, "", name), body


def _webhook(rules: KindRules, place: Place, options: AdmissionOptions, bundle: str, *, mutating: bool) -> Object:
    kind = rules.kind
    deleted = ["DELETE"] if rules.keeps else []
    operations = ["CREATE"] if mutating or kind == POD else ["CREATE", "UPDATE", *deleted]
    verb = "mutate" if mutating else "validate"
    group = kind.group.replace(".", "-") or "core"
    return {
        "name": f"{verb}-{kind.plural}-{group}.penstock.dev",
        "clientConfig": place.client(MUTATE if mutating else VALIDATE, bundle),
        "rules": [
            {
                "apiGroups": [kind.group],
                "apiVersions": [kind.version],
                "operations": operations,
                "resources": [kind.plural],
                "scope": "Namespaced" if kind.namespaced else "Cluster",
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": TIMEOUT,
        "failurePolicy": "Fail" if rules.vital else "Ignore",
        **(_of_pods(place, options) if kind == POD else {}),
        **({"reinvocationPolicy": "IfNeeded"} if mutating else {}),
    }


def _of_pods(place: Place, options: AdmissionOptions) -> Object:
    """Returns the selection of the pods under review: never the cluster's own or the webhook's own pods.

    Without matchConditions every other pod is reviewed, so the failure policy must be Ignore: with Fail no pod could
    start while the webhook is down.
    """
    label = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", place.namespace]}
    selected: Object = {"namespaceSelector": {"matchExpressions": [label]}}
    if not place.match_conditions:
        return {**selected, "failurePolicy": "Ignore"}
    names = ", ".join(f"'{name}'" for name in options.schedulers)
    ours = f"has(object.spec.schedulerName) && object.spec.schedulerName in [{names}]"
    gated = f"has(object.spec.schedulingGates) && object.spec.schedulingGates.exists(gate, gate.name == '{GANG_GATE}')"
    return {**selected, "matchConditions": [{"name": "ours", "expression": f"({ours}) || ({gated})"}]}
