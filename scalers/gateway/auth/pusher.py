"""The outcome of authentication: the pusher of a request, or the refusal of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from penstock.errors import PenstockError

Method = Literal["anonymous", "bearer", "signature", "serviceAccount", "clientCertificate"]


@dataclass(frozen=True, slots=True)
class SignedDelivery:
    """Attributes of the event in a signed request, as far as the sender's signature vouches for them.

    id: the sender's id of the delivery, which its repetitions share. type, source, subject, time: None if the sender
    names none; `push.type` and `push.source` apply then.
    """

    id: str
    type: str | None = None
    source: str | None = None
    subject: str | None = None
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class SignatureProof:
    """A signature that was checked. digest: of it. seconds: how long a request that repeats it could be let in."""

    digest: str
    seconds: int


@dataclass(frozen=True, slots=True)
class Pusher:
    """A request's sender that has been authenticated.

    name: for logs: a Secret's entry, a service account or a certificate's name, never a secret. delivery: of a signed
    request. The signature does not cover headers such as `ce-id` and `Idempotency-Key`: the event's attributes come
    from the delivery, or from the body if that is a structured CloudEvent. proof: of a signed request. challenge: the
    text that answers Slack's url_verification; such a request is no event.
    """

    method: Method
    name: str = ""
    delivery: SignedDelivery | None = None
    proof: SignatureProof | None = None
    challenge: str | None = None


class Unauthenticated(PenstockError):  # noqa: N818 - the HTTP status' name
    """No proof of who sends the request, or none that the target takes. The response is 401.

    The text is for the gateway's log: the response says the same for every reason, so that a client cannot tell
    a target that exists from one that does not. challenge: the value of WWW-Authenticate.
    """

    def __init__(self, reason: str, challenge: str = 'Bearer realm="penstock"') -> None:
        super().__init__(reason)
        self.challenge = challenge
