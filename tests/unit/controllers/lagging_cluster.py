"""One object and its Jobs in a cluster whose watch lags and whose workers die, with time as the test has it.

The API server's side is the truth; decisions see the store, which observes the plan's own writes at once and
all others when the watch delivers them.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import ClassVar

from workers.api import times
from workers.api.kinds import Kind, Object, Ref
from workers.decision.plan import Step
from workers.decision.snapshot import CachedObject

#: Reconciles after which nothing is left to do at a moment.
PATIENCE = 60


class Stopped(Exception):  # noqa: N818 - what happened, not what broke
    """A plan went no further: its worker died, or the API server refused a step."""


class LaggingCluster(ABC):
    """The API server with one object and its Jobs, the mirror, and this key's place in the queue.

    child: the kind of the Jobs. told: Events by reason. A subclass says how a decision is made and carried out.
    """

    #: A plan that was stopped is decided afresh so much later.
    BACKOFF: ClassVar[timedelta]

    def __init__(self, ref: Ref, child: Kind, now: datetime, spec: Mapping[str, object]) -> None:
        self.ref = ref
        self.child = child
        self.now = now
        self._numbers = count(10)
        metadata = {"name": ref.name, "namespace": ref.namespace, "uid": f"uid-{ref.name}", "generation": 1}
        self.body: Object = self._newer(
            {
                "apiVersion": ref.kind.api_version,
                "kind": ref.kind.kind,
                "metadata": {**metadata, "creationTimestamp": times.render(now)},
                "spec": spec,
            }
        )
        self.jobs: dict[str, Object] = {}
        self.shown = self.body
        self.mirror: dict[str, CachedObject] = {}
        self.unseen: set[str] = set()
        self.lagging = False
        self.marked = True
        self.back: datetime | None = None
        self.told: Counter[str] = Counter()

    @property
    def status(self) -> Object:
        return self.body.get("status") or {}

    # Actions of users

    def edit(self, **spec: object) -> None:
        """The author changes the spec; None takes a field out."""
        new = {key: value for key, value in {**self.body["spec"], **spec}.items() if value is not None}
        metadata = {**self.body["metadata"], "generation": self.body["metadata"]["generation"] + 1}
        self.body = self._newer({**self.body, "metadata": metadata, "spec": new})
        self._watch()

    def remove(self, name: str) -> None:
        """A Job is deleted."""
        del self.jobs[name]
        self._watch(name)

    def _watch(self, *names: str) -> None:
        self.unseen.update(names)
        if not self.lagging:
            self.catch_up()

    def catch_up(self) -> None:
        """The watch brings all there is."""
        self.lagging = False
        self.marked = True
        self.shown = self.body
        for name in list(self.unseen):
            self._see(name)

    def _see(self, name: str) -> None:
        self.unseen.discard(name)
        ref = Ref(self.child, self.ref.namespace, name)
        self.mirror[name] = CachedObject(ref, self.jobs.get(name), int(self.now.timestamp() * 1e6))

    # Actions of the controller

    @abstractmethod
    def reconcile(self) -> None:
        """Decide once, and carry it out."""

    def settle(self) -> None:
        """Until nothing is left to do at this moment."""
        for _ in range(PATIENCE):
            if not self.marked and (self.back is None or self.back > self.now):
                return
            self.reconcile()
        raise AssertionError("it never comes to rest")

    def _newer(self, body: Object) -> Object:
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(next(self._numbers))}}

    def _born(self, body: Object) -> Object:
        """A Job as the API server keeps it."""
        metadata = {"uid": f"uid-{next(self._numbers)}", "creationTimestamp": times.render(self.now)}
        return self._newer({**body, "metadata": {**body["metadata"], **metadata}})


class Carrying(ABC):
    """Carries a plan out as `workers.reconcile.act` does. left: writes before the worker dies, None for never.

    landed: the mirror has learned of the last of them.
    """

    def __init__(self, cluster: LaggingCluster, left: int | None, *, landed: bool = True) -> None:
        self._base = cluster
        self.left = left
        self.landed = landed
        self.version = cluster.shown["metadata"]["resourceVersion"]

    def come_back(self, at: datetime) -> None:
        """The key is looked at again then; the earliest of several instants counts."""
        self._base.back = min(self._base.back, at) if self._base.back else at

    def write(self, step: Step) -> None:
        """One write, unless the worker is dead by now."""
        if self.left == 0:
            raise Stopped
        self.do(step)
        self.left = None if self.left is None else self.left - 1

    @abstractmethod
    def do(self, step: Step) -> None:
        """Applies a write as the API server does."""

    def change(self, body: Object) -> None:
        """Write the object, if it is still the one that is known."""
        cluster = self._base
        if cluster.body["metadata"]["resourceVersion"] != self.version:
            raise Stopped
        cluster.body = cluster._newer(body)
        self.version = cluster.body["metadata"]["resourceVersion"]
        if self._lands():
            cluster.shown = cluster.body

    def land(self, name: str) -> None:
        """A Job was written; the mirror learns of it, if it does."""
        if self._lands():
            self._base._see(name)
        else:
            self._base.unseen.add(name)

    def _lands(self) -> bool:
        return self.landed or self.left != 1
