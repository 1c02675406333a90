"""The settings of pushes over HTTP to an EventJob or to a ScaledJob with a `push` trigger, as a typed model."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from workers.api.model import Items, Model, Text

Durability = Literal["memory", "fsync"]
SignatureScheme = Literal["github", "stripe", "slack", "standard-webhooks"]


class SecretKeySelector(Model):
    """One entry of a Secret in the object's namespace."""

    name: Text
    """Name of a Secret in the object's namespace."""
    key: Text
    """The entry of the Secret."""


class Signature(Model):
    """Signed requests, as a well-known sender signs them."""

    scheme: SignatureScheme
    """Whose way of signing the sender uses."""
    secret: SecretKeySelector
    """The shared secret. While it is replaced, a second entry of `auth` holds the new one."""
    tolerance_seconds: Annotated[int, Field(ge=1, le=3600)] = 300
    """Oldest timestamp of a request; github signs none, its deliveries are told apart by their ids."""


class ServiceAccountPusher(Model):
    """A token of a Kubernetes service account, asked about with a TokenReview."""

    name: Text
    """Name of the service account."""
    namespace: Text | None = None
    """Default the object's."""
    audience: Text = "penstock"
    """The token must be meant for it."""


class ClientCertificate(Model):
    """A client certificate that the gateway's CA signed. Exactly one of the names."""

    common_name: Text | None = None
    """The common name of its subject."""
    dns_name: Text | None = None
    """One of its alternative names of type DNS."""
    uri: Text | None = None
    """One of its alternative names of type URI."""

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if sum(name is not None for name in (self.common_name, self.dns_name, self.uri)) != 1:
            raise ValueError("exactly one of commonName, dnsName and uri is needed")
        return self


class Credential(Model):
    """One way to prove who pushes. Exactly one of the fields."""

    bearer: SecretKeySelector | None = None
    """The token in `Authorization: Bearer`."""
    signature: Signature | None = None
    """A signature over the body, with a secret that both sides know."""
    service_account: ServiceAccountPusher | None = None
    """A token of this service account of the cluster."""
    client_certificate: ClientCertificate | None = None
    """A certificate with this name, from an authority that the gateway trusts."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = (self.bearer, self.signature, self.service_account, self.client_certificate)
        if sum(way is not None for way in ways) != 1:
            raise ValueError("exactly one of bearer, signature, serviceAccount and clientCertificate is needed")
        return self


class PushSettings(Model):
    """Pushes over HTTP. Without `auth` and without `anonymous` every push is refused."""

    anonymous: bool = False
    """Anybody who reaches the gateway may push."""
    auth: Items[Credential] = ()
    """Ways to prove who pushes; one of them is enough."""
    type: Text = "dev.penstock.push"
    """The type of events made of bodies that are none (JSON, forms)."""
    source: Text | None = None
    """The source of such events; default `/events/<namespace>/<name>`."""
    max_bytes: Annotated[int, Field(ge=1, le=1 << 20)] = 1 << 18
    """Largest body of one event."""
    durability: Durability = "memory"
    """memory: answered once the broker has the event. fsync: once it is in the broker's append-only file."""
    replicas: Annotated[int, Field(ge=0, le=16)] = 0
    """Replicas of the broker that must have the event before it is answered."""
    webhook_origins: Items[Text] = ()
    """Senders that the handshake of CloudEvents' web hooks allows, by their origin (`example.com`); `*` allows all."""

    @model_validator(mode="after")
    def _says_who(self) -> Self:
        if self.anonymous and self.auth:
            raise ValueError("anonymous and auth exclude each other")
        return self
