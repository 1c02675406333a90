"""ResourceQuotas: a gang starts only if the quotas accept all its pods."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import vectors
from workers.controllers.volcano.podgroup.group import INQUEUE, Group
from workers.controllers.volcano.podgroup.members import Member
from workers.controllers.volcano.podgroup.vectors import Vector


@dataclass(slots=True)
class Quota:
    """One quota. used: includes the pods of admitted groups that do not exist yet."""

    namespace: str
    name: str
    hard: Vector
    used: dict[str, int] = field(default_factory=dict)


class NamespaceQuotas:
    """The quotas of all namespaces. Scoped quotas are left to the API server.

    pods: of all namespaces; they give the usage where a quota's status does not.
    """

    def __init__(self, bodies: Iterable[Object], groups: Iterable[Group], pods: Iterable[Member]) -> None:
        self._of: dict[str, list[Quota]] = {}
        there = _Counted(pods)
        for body in bodies:
            quota = _observe(body, there)
            if quota is not None:
                self._of.setdefault(quota.namespace, []).append(quota)
        for group in groups:
            if group.phase == INQUEUE:
                self.promise(group)

    def refused(self, group: Group) -> str | None:
        """Returns the reason why the group's pods would be refused, or None."""
        for quota in self._of.get(group.ref.namespace, ()):
            for name, value in _missing(group, quota):
                hard, used = quota.hard[name], quota.used.get(name, 0)
                if value + used > hard:
                    asked, there, limit = (vectors.text(name, each) for each in (value, used, hard))
                    return f"quota {quota.name} allows {limit} of {name}: {there} are used, {asked} more are needed"
        return None

    def promise(self, group: Group) -> None:
        """Counts the group's coming pods."""
        for quota in self._of.get(group.ref.namespace, ()):
            for name, value in _missing(group, quota):
                quota.used[name] = quota.used.get(name, 0) + value


def _missing(group: Group, quota: Quota) -> Iterator[tuple[str, int]]:
    """Returns the amounts of a group's coming pods by the quota's names."""
    return ((name, value) for name, value in group.demand.quota if name in quota.hard)


class _Counted:
    """The usage of a namespace's pods, computed on demand."""

    def __init__(self, pods: Iterable[Member]) -> None:
        self._pods = pods
        self._known: dict[str, Vector] = {}

    def within(self, namespace: str) -> Vector:
        """Returns the usage of a namespace by the quota's names."""
        if namespace not in self._known:
            own = (each for each in self._pods if each.pod["metadata"]["namespace"] == namespace)
            self._known[namespace] = vectors.total(each.counted for each in own)
        return self._known[namespace]


def _observe(body: Object, there: _Counted) -> Quota | None:
    """Returns the quota, None for a scoped or malformed one. Usage that the status lacks is counted here."""
    spec, status, metadata = body.get("spec") or {}, body.get("status") or {}, body["metadata"]
    if spec.get("scopes") or spec.get("scopeSelector"):
        return None
    try:
        hard = vectors.read(spec.get("hard"))
    except ValueError:
        return None
    used = vectors.readable(status.get("used"))
    if unknown := hard.keys() - used.keys():
        seen = there.within(metadata["namespace"])
        used |= {name: seen.get(name, 0) for name in unknown}
    return Quota(metadata["namespace"], metadata["name"], hard, used)
