"""AdmissionReviews (admission.k8s.io/v1): the parser of requests and the answers. Pure."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from deploy.webhook import json_patch
from scalers.scaler_registry import REGISTRY
from workers.admission.admission_options import AdmissionOptions
from workers.admission.findings import Finding, joined
from workers.admission.lookup import Lookup
from workers.admission.rules import RULES, KindRules, Needs
from workers.admission.warnings import warnings
from workers.api.kinds import Object

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"


class NotAReview(ValueError):  # noqa: N818 - named by its meaning
    """The request body is no valid AdmissionReview."""


@dataclass(frozen=True, slots=True)
class Review:
    """One request. old: the stored object, None for a creation. body: the new object, None for a deletion.

    unknown_fields: what the client wants done about them, as `fieldValidation` has it.
    """

    uid: str
    operation: str
    rules: KindRules | None
    subresource: str
    body: Object | None
    old: Object | None
    unknown_fields: str = "Warn"

    @property
    def mutating_needs(self) -> Needs:
        """The objects and kinds that `mutation` needs."""
        return self.rules.looks(self.body) if self._fills_in and self.rules and self.body else ()

    @property
    def validating_needs(self) -> Needs:
        """The objects and kinds that `validation` needs."""
        if self.rules is None or self.subresource:
            return ()
        return self.rules.removes if self.operation == "DELETE" else self.rules.judges

    @property
    def templates(self) -> Sequence[tuple[str, Object]]:
        """The pod templates to validate, with their field paths."""
        changed = self.body and (self.old is None or self.body.get("spec") != self.old.get("spec"))
        if self.rules is None or self.subresource or not changed or self.body is None:
            return ()
        return tuple(self.rules.templates(self.body))

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        body = self.body or self.old or {"metadata": {}}
        return str(body["metadata"].get("namespace") or "default")

    @property
    def _fills_in(self) -> bool:
        return self.operation == "CREATE" and not self.subresource

    def mutation(self, lookup: Lookup, options: AdmissionOptions) -> Object:
        """Returns the mutating webhook's answer: allowed, with a patch of the defaults if any are missing."""
        if self.rules is None or self.body is None or not self._fills_in:
            return self._answer(allowed=True)
        changes = json_patch.patch(self.body, self.rules.defaulted(self.body, lookup, options))
        if not changes:
            return self._answer(allowed=True)
        encoded = base64.b64encode(orjson.dumps(changes)).decode()
        return self._answer(allowed=True, patchType="JSONPatch", patch=encoded)

    def validation(
        self,
        lookup: Lookup,
        options: AdmissionOptions,
        in_templates: Iterable[Finding] = (),
        unknown: Sequence[str] = (),
    ) -> Object:
        """Returns the validating webhook's answer.

        in_templates: the API server's findings on the pod templates. unknown: the paths of their unknown fields.
        """
        if self.rules is None or self.subresource:
            return self._answer(allowed=True)
        if self.operation == "DELETE":
            return self._refusal(list(self.rules.removal(self.old, lookup)), 403) if self.old else self._refusal([], 0)
        if self.body is None:
            return self._answer(allowed=True)
        found = list(self.rules.problems(self.body, self.old, lookup, options))
        if self.unknown_fields == "Strict":
            found += [Finding(path, "unknown field") for path in unknown]
        fields = {finding.field for finding in found}
        if not self.rules.lenient:
            found += [each for each in in_templates if each.field not in fields]
        told = unknown if self.unknown_fields == "Warn" else ()
        if not found and (said := [*self._warnings(self.body), *(f'unknown field "{path}"' for path in told)]):
            return self._answer(allowed=True, warnings=said)
        return self._refusal(found, 422)

    def _warnings(self, body: Object) -> list[str]:
        """Returns the warnings about an accepted object; none again for a spec that stays the same."""
        if self.old is not None and self.old.get("spec") == body.get("spec"):
            return []
        return warnings(body, REGISTRY.unknown)

    def _refusal(self, found: Sequence[Finding], code: int) -> Object:
        if not found:
            return self._answer(allowed=True)
        reasons = {403: ("Forbidden", "FieldValueForbidden"), 422: ("Invalid", "FieldValueInvalid")}
        reason, cause = reasons[code]
        causes = [{"reason": cause, "message": finding.message, "field": finding.field} for finding in found]
        body = self.body or self.old or {"metadata": {}}
        kind = self.rules.kind if self.rules else None
        details = {"name": body["metadata"].get("name") or "", "causes": causes}
        details |= {"group": kind.group, "kind": kind.kind} if kind else {}
        status = {"code": code, "reason": reason, "message": joined(found), "details": details}
        return self._answer(allowed=False, status=status)

    def _answer(self, **response: Any) -> Object:
        return {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": self.uid, **response}}


def read(document: Any) -> Review:
    """Returns the review in a request body. Raises NotAReview."""
    try:
        if document["kind"] != KIND or document["apiVersion"] != API_VERSION:
            raise NotAReview(f"{document['apiVersion']} {document['kind']} is not {API_VERSION} {KIND}")
        request = document["request"]
        resource = request["resource"]
        name = f"{resource['resource']}.{resource['group']}" if resource["group"] else resource["resource"]
        rules = RULES.get(name)
        known = rules if rules and rules.kind.version == resource["version"] else None
        body, old = (_whole(request.get(part), request.get("namespace")) for part in ("object", "oldObject"))
        # API servers before Kubernetes 1.25 know no such option.
        wanted = (request.get("options") or {}).get("fieldValidation") or "Warn"
        return Review(request["uid"], request["operation"], known, request.get("subResource") or "", body, old, wanted)
    except (KeyError, TypeError, AttributeError) as error:
        raise NotAReview(f"not an {KIND}: {error!r}") from error


def _whole(body: Object | None, namespace: str | None) -> Object | None:
    """Returns the object with its namespace, which older API servers leave out of it."""
    if body is None:
        return None
    return {**body, "metadata": {**({"namespace": namespace} if namespace else {}), **(body.get("metadata") or {})}}
