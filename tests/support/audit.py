"""The audit log of a kube-apiserver: the requests of service accounts, and the roles that allowed them."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from workers.api.kinds import by_manifest

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # A watch is answered when it ends; it counts when it begins.
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Request", "userGroups": ["system:serviceaccounts:penstock"]}, {"level": "None"}],
}
_ALLOWED = re.compile(r' of (?:ClusterRole|Role) "([^"]+)" to ')


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """A verb on a resource with its subresource. role: the one that allowed it; of a refused request, the account."""

    role: str
    verb: str
    group: str
    resource: str


def flags(home: Path) -> tuple[str, ...]:
    """Returns the flags of a kube-apiserver that writes the log under `home`."""
    home.mkdir(parents=True, exist_ok=True)
    policy = home / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(_POLICY))
    return f"--audit-policy-file={policy}", f"--audit-log-path={log(home)}"


def log(home: Path) -> Path:
    """Returns the file of the log."""
    return home / "audit.log"


def events(home: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the events of the log up to now."""
    for line in log(home).read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def used(home: Path) -> dict[str, set[Right]]:
    """Returns the rights in use by account, without those that every account has.

    With OwnerReferencesPermissionEnforcement the API server also asks, without a request of its own, for `update` on
    the finalizers of an owner that a child blocks, and for `delete` on an object whose owners change.
    """
    found: dict[str, set[Right]] = {}
    for event in events(home):
        role = _ALLOWED.search(event.get("annotations", {}).get("authorization.k8s.io/reason", ""))
        if role is None or not role[1].startswith("penstock-"):
            continue
        asked = event["objectRef"]
        rights = found.setdefault(_account(event), set())
        rights.add(_right(role[1], event["verb"], asked))
        for verb, group, resource in _implied(event):
            rights.add(Right("", verb, group, resource))
    return found


def accounts(home: Path) -> set[str]:
    """Returns the accounts that sent a request."""
    return {_account(event) for event in events(home)}


def refused(home: Path) -> dict[str, set[Right]]:
    """Returns the rights that accounts lacked, by account. Refusals of admission are not among them."""
    found: dict[str, set[Right]] = {}
    for event in events(home):
        if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid":
            account = _account(event)
            found.setdefault(account, set()).add(_right(account, event["verb"], event.get("objectRef") or {}))
    return found


def _account(event: Mapping[str, Any]) -> str:
    return str(event["user"]["username"]).rpartition(":")[2]


def _right(role: str, verb: str, asked: Mapping[str, Any]) -> Right:
    resource = asked.get("resource", "")
    subresource = asked.get("subresource")
    return Right(role, verb, asked.get("apiGroup", ""), f"{resource}/{subresource}" if subresource else resource)


def _implied(event: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    sent = event.get("requestObject")
    metadata = (sent or {}).get("metadata") or {}
    if not isinstance(metadata, dict) or event["verb"] not in ("create", "patch"):
        return
    owners = metadata.get("ownerReferences") or ()
    for owner in owners:
        if owner.get("blockOwnerDeletion") and (kind := by_manifest(owner["apiVersion"], owner["kind"])):
            yield "update", kind.group, f"{kind.plural}/finalizers"
    if owners and event["verb"] == "patch":
        asked = event["objectRef"]
        yield "delete", asked.get("apiGroup", ""), asked["resource"]
