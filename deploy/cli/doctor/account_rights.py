"""The rights that the examined account lacks, asked of the API server rule by rule (SelfSubjectAccessReview).

An account of Penstock is asked for its own process's rules, any other user for those of `penstock standalone`, which
has the work of all.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deploy.manifests import process_rules
from deploy.manifests.roles import Rules, without
from workers.client import missing_rights
from workers.client.missing_rights import MissingRight
from workers.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from workers.client.rest import Cluster
    from workers.settings import Settings

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
#: Requests at once.
_AT_ONCE = 16
#: Resources of APIs that a cluster need not have.
_OPTIONAL = frozenset({"metrics.k8s.io"})


@dataclass(frozen=True, slots=True)
class AccountRights:
    """role: the one whose rules were asked for. lacking: the rights that the account has not."""

    role: str
    lacking: tuple[MissingRight, ...]


async def examined(cluster: "Cluster", settings: "Settings") -> AccountRights:
    """Asks the API server for every rule. Raises ClusterError."""
    process, role = account_of(await _user(cluster))
    wanted = list(dict.fromkeys(needed(process, settings, role)))
    limit = asyncio.Semaphore(_AT_ONCE)

    async def lacks(right: MissingRight) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes = {"verb": right.verb, "group": right.group, "resource": resource, "namespace": right.namespace}
        named = {name: text for name, text in {**attributes, "subresource": subresource}.items() if text}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        async with limit:
            answer = await cluster.request("POST", _REVIEWS, body={**body, "spec": {"resourceAttributes": named}})
        return not answer["status"].get("allowed")

    answers = await asyncio.gather(*map(lacks, wanted))
    return AccountRights(role, tuple(right for right, lacking in zip(wanted, answers, strict=True) if lacking))


def account_of(user: str) -> tuple[str, str]:
    """Returns the process whose account this is, and its role: those of `standalone` for any other user. Pure."""
    role = missing_rights.role_of(user)
    process = role.rpartition("-")[2]
    return (process, role) if process in process_rules.PROCESSES else ("standalone", "penstock-standalone")


def needed(process: str, settings: "Settings", role: str) -> Iterator[MissingRight]:
    """Yields the rights that a process needs with these settings: in the namespaces that it serves, or in the cluster.

    Kinds that the settings leave alone are left out.
    """
    rules = process_rules.rules_of(process, volcano=settings.volcano)
    idle: Mapping[tuple[str, str], Any] = {} if settings.cronjobs else _of_group("batch", "cronjobs", rules.namespaced)
    for namespace in settings.namespaces or ("",):
        yield from _rights(without(rules.namespaced, idle), namespace, role)
    if settings.cluster_scoped:
        policies = {} if settings.policies else _of_group("penstock.dev", "scalepolicies", rules.cluster)
        yield from _rights(without(rules.cluster, policies), "", role)
    yield from _rights(rules.own, settings.own_namespace, role)


def _of_group(group: str, plural: str, rules: Rules) -> Rules:
    return {key: verbs for key, verbs in rules.items() if key[0] == group and key[1].partition("/")[0] == plural}


def _rights(rules: Rules, namespace: str, role: str) -> Iterator[MissingRight]:
    for (group, resource), verbs in rules.items():
        for verb in verbs:
            if group not in _OPTIONAL:
                yield MissingRight(verb, group, resource, namespace, role)


async def _user(cluster: "Cluster") -> str:
    """Returns the account's name, empty if the API server is older than 1.28 and does not tell it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await cluster.request("POST", _WHO, body=body)
    except (NotFound, Forbidden):
        return ""
    return str(answer["status"]["userInfo"]["username"])
