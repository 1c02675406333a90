"""A cluster in memory, as triggers see it: objects, service accounts' tokens, and what was asked for."""

import base64
from dataclasses import dataclass, field
from typing import Any

from scalers.auth.lookups import Lookups
from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, CONFIG_MAP, SECRET, TRIGGER_AUTHENTICATION, Object, Ref
from workers.errors import NotFound, PenstockError


@dataclass
class Cluster:
    """objects: by ref. down: raised by every call while it is set. asked: refs and paths, in order. now: the clock."""

    objects: dict[Ref, Object] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)
    down: PenstockError | None = None
    asked: list[Ref | str] = field(default_factory=list)
    now: float = 1000.0

    def authentication(self, name: str = "login", namespace: str = "team", **spec: Any) -> None:
        """Put a TriggerAuthentication there; without a namespace one of the cluster."""
        kind = TRIGGER_AUTHENTICATION if namespace else CLUSTER_TRIGGER_AUTHENTICATION
        self.objects[Ref(kind, namespace, name)] = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}

    def secret(self, name: str, namespace: str = "team", **entries: str) -> None:
        """Put a Secret there."""
        data = {key: base64.b64encode(text.encode()).decode() for key, text in entries.items()}
        self.objects[Ref(SECRET, namespace, name)] = {"data": data}

    def config_map(self, name: str, namespace: str = "team", **entries: str) -> None:
        """Put a ConfigMap there."""
        self.objects[Ref(CONFIG_MAP, namespace, name)] = {"data": entries}

    async def get(self, ref: Ref) -> Object:
        self.asked.append(ref)
        if self.down:
            raise self.down
        if ref not in self.objects:
            raise NotFound(f"GET {ref}", status=404)
        return self.objects[ref]

    async def post(self, method: str, path: str, *, body: Any = None) -> Any:
        self.asked.append(path)
        if self.down:
            raise self.down
        account = path.removesuffix("/token").rpartition("/")[2]
        if account not in self.accounts:
            raise NotFound(f"{method} {path}", status=404)
        return {"status": {"token": self.accounts[account]}}

    def lookups(self, **options: Any) -> Lookups:
        """Lookups of this cluster on this clock."""
        return Lookups(self.get, self.post, clock=lambda: self.now, **options)
