"""The values of one push over HTTP: the object that it is for, and the request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from workers.api.kinds import Kind, Ref
from workers.api.penstock_dev.push_settings import PushSettings

#: Headers as they came: names in lower case, and values.
RawHeaders = Sequence[tuple[bytes, bytes]]


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

    kind: EventJob or ScaledJob. settings: its `spec.push`. source: of events that are made of bodies which are none.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    settings: PushSettings
    source: str = field(init=False)

    def __post_init__(self) -> None:
        source = self.settings.source or f"/events/{self.namespace}/{self.name}"
        object.__setattr__(self, "source", source)

    @property
    def ref(self) -> Ref:
        """The object's address."""
        return Ref(self.kind, self.namespace, self.name)


@dataclass(eq=False)
class PushRequest:
    """One request, read completely.

    raw_headers: as they came, names in lower case. body: as it came. certificate: the client's in DER, which the
    server's TLS has verified; None without one. received: when its head was complete, with a time zone.
    """

    raw_headers: RawHeaders = field(repr=False)
    body: bytes = field(repr=False)
    certificate: bytes | None
    received: datetime

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers by lower-case name, repeated ones joined with ", "."""
        return by_name(self.raw_headers)


def by_name(headers: RawHeaders) -> dict[str, str]:
    """Returns headers by name; repeated ones are joined."""
    found: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found
