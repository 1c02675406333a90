"""A simulated cluster with one Deployment or StatefulSet: its API server carries plans out, its kubelet runs pods."""

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from deploy.local.apiserver.patch.patches import merge_patch
from tests.unit.controllers.factories import NOW
from workers.api import times
from workers.api.kinds import (
    CONTROLLER_REVISION,
    DEPLOYMENT,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    Kind,
    Object,
    Ref,
    controller_of,
)
from workers.controllers.apps import CONTROLLERS
from workers.decision.plan import ComeBack, Create, Delete, Patch, PatchStatus, Plan, RecordEvent, Step, Together
from workers.decision.snapshot import CachedObject, Snapshot

CONTROLLER = {controller.kind.id: controller for controller in CONTROLLERS}


CHILDREN = {DEPLOYMENT: (REPLICA_SET,), REPLICA_SET: (POD,), STATEFUL_SET: (POD, CONTROLLER_REVISION)}


class RefusedError(Exception):
    """The API server refused a step: the plan stops."""


def rolling(surge: int | str, unavailable: int | str) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def template(image: str = "one", **labels: str) -> Object:
    return {
        "metadata": {"labels": {"app": "web", **labels}},
        "spec": {"containers": [{"name": "main", "image": image}], "restartPolicy": "Always"},
    }


def deployment(**spec: Any) -> Object:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "uid-web",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": times.render(NOW),
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            "strategy": strategy,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            **spec,
        },
    }


def stateful_set(**spec: Any) -> Object:
    given = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}, "serviceName": "web"}
    body = deployment()
    kept = {name: body["spec"][name] for name in ("replicas", "selector", "template", "revisionHistoryLimit")}
    return {**body, "kind": "StatefulSet", "spec": {**kept, **given, **spec}}


class AppsCluster:
    """The API server, with a store that is never behind, and the kubelet.

    healthy: whether a pod comes to serve. lag: seconds until it does, and until a deleted one has ended.
    """

    def __init__(
        self,
        root: Kind = DEPLOYMENT,
        *,
        healthy: Callable[[Object], bool] = lambda _pod: True,
        lag: int = 1,
        **spec: Any,
    ) -> None:
        self._root = Ref(root, "default", "web")
        self.objects: dict[str, Object] = {}
        self.gone: dict[str, str] = {}
        self.events: list[str] = []
        self.healthy = healthy
        self.lag = lag
        self.second = 0
        self.decisions = {name: controller.decide for name, controller in CONTROLLER.items()}
        self._numbers = itertools.count(100)
        self.watch: Callable[[], None] = lambda: None
        self.put(root, (deployment if root == DEPLOYMENT else stateful_set)(**spec))

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.second)

    @property
    def root(self) -> Object:
        """The Deployment or StatefulSet."""
        return self.objects[self._root.key]

    @property
    def status(self) -> Object:
        return self.root.get("status") or {}

    def of(self, kind: Kind) -> list[Object]:
        return [body for key, body in self.objects.items() if key.startswith(f"{kind.id}/")]

    def sizes(self) -> dict[str, int]:
        """Sizes of the ReplicaSets by the image of their template."""
        found = self.of(REPLICA_SET)
        return {one["spec"]["template"]["spec"]["containers"][0]["image"]: one["spec"]["replicas"] for one in found}

    def condition(self, type_: str) -> tuple[str, str]:
        found = [one for one in self.status.get("conditions", ()) if one["type"] == type_]
        return (found[0]["status"], found[0]["reason"]) if found else ("", "")

    def edit(self, **spec: Any) -> None:
        """As a user changes the spec."""
        self._change(self._root.kind, self.root, {"spec": spec})

    def put(self, kind: Kind, body: Object) -> None:
        metadata = {"uid": f"uid-{next(self._numbers)}", "generation": 1, **body["metadata"]}
        metadata |= {"resourceVersion": str(next(self._numbers)), "creationTimestamp": times.render(self.now)}
        ref = Ref(kind, "default", metadata["name"])
        self.objects[ref.key] = {**body, "metadata": metadata}

    # The controllers

    def plan(self, body: Object, kind: Kind) -> Plan:
        children, unowned = {}, {}
        for child in CHILDREN[kind]:
            every = self.of(child)
            mine = [one for one in every if (controller_of(one) or {}).get("uid") == body["metadata"]["uid"]]
            children[child.id] = tuple(_entry(child, one) for one in mine)
            unowned[child.id] = tuple(_entry(child, one) for one in every if controller_of(one) is None)
        relatives = {ref: self.objects.get(ref.key) for ref in CONTROLLER[kind.id].optional_relatives(body)}
        ref = Ref(kind, "default", body["metadata"]["name"])
        snapshot = Snapshot(ref, body, children=children, unowned=unowned, relatives=relatives)
        return self.decisions[kind.id](snapshot, self.now)

    def sync(self, kind: Kind) -> None:
        """Every object of the kind is decided on once."""
        for body in self.of(kind):
            self._owner = (kind, body["metadata"]["name"])
            try:
                for step in self.plan(body, kind).steps:
                    self._do(step)
            except RefusedError as refused:
                self.events.append(f"refused {refused}")

    def settle(self, rounds: int = 200) -> None:
        """Controllers, pods and time take turns until nothing changes for as long as anything may take."""
        quiet = 0
        for _ in range(rounds):
            before = dict(self.objects)
            for kind in CHILDREN:
                self.sync(kind)
                self.watch()
            self.play()
            self.watch()
            self.second += 1
            quiet = 0 if before != self.objects else quiet + 1
            if quiet > self.lag + 3:
                return
        raise AssertionError(f"does not come to rest: {self.sizes()} {self.status}")

    # The kubelet

    def play(self) -> None:
        for key, pod in list(self.objects.items()):
            if not key.startswith("pods/"):
                continue
            metadata = pod["metadata"]
            if begun := metadata.get("deletionTimestamp"):
                if self._since(begun) >= self.lag:
                    del self.objects[key]
                    self.collect(metadata["uid"])
            elif not pod.get("status") and self._since(metadata["creationTimestamp"]) >= self.lag:
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": times.render(self.now)}
                shown = {"phase": "Running", "conditions": [ready] if self.healthy(pod) else []}
                spec = {**pod["spec"], "nodeName": "local"}
                self.objects[key] = {**pod, "spec": spec, "status": shown}

    def available(self) -> int:
        return sum(
            bool((pod.get("status") or {}).get("conditions"))
            for pod in self.of(POD)
            if "deletionTimestamp" not in pod["metadata"]
        )

    def _since(self, instant: str) -> float:
        return (self.now - times.parse(instant)).total_seconds()

    # The API server

    def _do(self, step: Step) -> None:
        match step:
            case Together(steps=steps, then=then):
                for each in steps:
                    self._do(each)
                if then:
                    self.events.append(then.message.replace("{done}", str(len(steps))))
            case Create(kind=kind, body=body):
                if Ref(kind, "default", body["metadata"]["name"]).key in self.objects:
                    if step.any_owner:
                        return
                    raise RefusedError(f"{body['metadata']['name']} exists")
                self.put(kind, body)
            case Delete(ref=ref):
                self.delete(ref)
            case Patch(ref=ref, body=body, resource_version=version):
                current = self.objects[ref.key]
                if current["metadata"]["resourceVersion"] != version:
                    raise RefusedError(f"{ref} was changed")
                if ref.kind == CONTROLLER_REVISION and "&" in str(current["data"]):
                    # A kube-apiserver that patches an object spells & as \u0026, and so takes the data for others.
                    raise RefusedError(f"{ref}: data is immutable")
                self._change(ref.kind, current, body)
            case PatchStatus(status=status):
                kind, name = self._owner
                body = self.objects[Ref(kind, "default", name).key]
                self.objects[Ref(kind, "default", name).key] = {**body, "status": status}
            case RecordEvent(message=message):
                self.events.append(message)
            case ComeBack():
                pass
            case _:
                raise AssertionError(step)

    def collect(self, uid: str) -> None:
        """Removes the claims that only this object owns."""
        for claim in self.of(PERSISTENT_VOLUME_CLAIM):
            if [each["uid"] for each in claim["metadata"].get("ownerReferences") or ()] == [uid]:
                self.delete(Ref(PERSISTENT_VOLUME_CLAIM, "default", claim["metadata"]["name"]))

    def delete(self, ref: Ref) -> None:
        body = self.objects[ref.key]
        if ref.kind == POD:
            metadata = {**body["metadata"], "deletionTimestamp": times.render(self.now)}
            self.objects[ref.key] = {**body, "metadata": metadata}
        else:
            del self.objects[ref.key]

    def _change(self, kind: Kind, current: Object, patch: Object) -> None:
        changed = merge_patch(current, patch)
        metadata = {**changed["metadata"], "resourceVersion": str(next(self._numbers))}
        if changed.get("spec") != current.get("spec"):
            metadata["generation"] += 1
        self.objects[Ref(kind, "default", metadata["name"]).key] = {**changed, "metadata": metadata}


def _entry(kind: Kind, body: Object) -> CachedObject:
    return CachedObject(Ref(kind, "default", body["metadata"]["name"]), body, 0)
