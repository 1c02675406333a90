"""The values of one push over HTTP: the object that it is for, and the request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from workers.api.eventing.push_settings import PushSettings
from workers.api.kinds import Kind, Ref


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The bounds of a channel.

    events: most events that may be not done. window: milliseconds in which an event of the same source and id is a
    duplicate. remembered: most events that are remembered for that, the newest.
    """

    events: int = 10_000
    window: int = 3_600_000
    remembered: int = 100_000


@dataclass(frozen=True, slots=True)
class PushTarget:
    """An object that takes pushes over HTTP.

    kind: EventJob or ScaledJob. settings: its `spec.push`. channel: the intake stream's key in the broker. limits: of
    the channel.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    settings: PushSettings
    channel: str
    limits: ChannelLimits = ChannelLimits()

    @property
    def ref(self) -> Ref:
        """The object's address."""
        return Ref(self.kind, self.namespace, self.name)

    @property
    def source(self) -> str:
        """The source of events that are made of bodies which are none."""
        return self.settings.source or f"/events/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PushRequest:
    """One request, read completely.

    headers: by lower-case name, repeated ones joined with ", ". body: as it came. certificate: the client's
    in DER, which the server's TLS has verified; None without one. received: when its head was complete, with a time
    zone.
    """

    method: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    certificate: bytes | None
    received: datetime
