"""`keda.sh/v1alpha1` TriggerAuthentication and ClusterTriggerAuthentication as typed models of KEDA 2.20.

An authentication refers to secrets, but a Vault token may stand in it: its text is a `SecretStr`, and the store keeps
only metadata and status of these kinds.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, WithJsonSchema

from workers.api import model
from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, TRIGGER_AUTHENTICATION, Kind, Object
from workers.api.model import Items, Model, Text

#: A secret text. The schema says plain string: a CustomResourceDefinition knows no write-only fields.
Secret = Annotated[SecretStr, WithJsonSchema({"type": "string"})]

#: The settings of a cloud vendor's service: accepted, but a trigger that needs them fails.
Vendor = dict[str, Any]

#: The only supported grant. A structural schema has enumerations and no constants.
_CLIENT_CREDENTIALS = {"type": "string", "enum": ["clientCredentials"]}

#: KEDA 2.20 knows a text, its documentation a list; a structural schema cannot say that a field is either.
_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}

Provider = Literal["none", "azure-workload", "gcp", "aws", "aws-eks"]


class Variable(Model):
    """A parameter from an environment variable of the workload's container."""

    parameter: Text
    """The trigger's parameter that gets the text."""
    name: Text
    """Of the variable."""
    container_name: str | None = None
    """Default: the container that the object's other variables come from."""


class SecretEntry(Model):
    """A parameter from one key of a ConfigMap or Secret."""

    parameter: Text
    """The trigger's parameter that gets the text."""
    name: Text
    """Of the ConfigMap or Secret."""
    key: Text
    """The entry."""


class FileEntry(Model):
    """A parameter from a file."""

    parameter: Text
    """The trigger's parameter that gets the text."""
    path: Text
    """Of the file, below the folder of such files."""


class VaultCredential(Model):
    """The credential of a Vault login."""

    token: Secret | None = None
    """authentication token: the token, unless the process has one of its own."""
    service_account: str | None = None
    """authentication kubernetes: the file that holds a service account's token."""
    service_account_name: str | None = None
    """authentication kubernetes: the service account to request a token for."""


class CertificateRequest(Model):
    """The request of a certificate that Vault issues."""

    common_name: str | None = None
    """The common name to ask for."""
    alt_names: str | None = None
    """Alternative names, separated by commas."""
    ip_sans: str | None = None
    """Alternative IP addresses, separated by commas."""
    uri_sans: str | None = None
    """Alternative URIs, separated by commas."""
    other_sans: str | None = None
    """Alternative names of other types, separated by commas."""
    ttl: str | None = None
    """Time to live to ask for."""
    format: str | None = None
    """Format of the answer."""


class VaultSecret(Model):
    """A parameter from one key of a Vault secret."""

    parameter: Text
    """The trigger's parameter that gets the text."""
    path: Text
    """Path of the secret in Vault."""
    key: Text
    """Key of the secret's data."""
    type: Literal["", "secretV2", "secret", "pki"] = ""
    """Version of the key-value store, or pki to issue a certificate; empty: detected from the response."""
    pki_data: CertificateRequest | None = None
    """The certificate to ask for, of type pki."""


class Vault(Model):
    """A HashiCorp Vault server."""

    address: Text
    """Its URL."""
    authentication: Literal["token", "kubernetes"]
    """How to log in: token or kubernetes."""
    secrets: Items[VaultSecret]
    """The secrets to read."""
    namespace: str | None = None
    """Vault's own namespace."""
    role: str | None = None
    """authentication kubernetes: the role to log in as."""
    mount: str | None = None
    """authentication kubernetes: the mount path of that method."""
    credential: VaultCredential | None = None
    """The token, or the service account's."""


class BoundToken(Model):
    """A parameter that is a fresh token of a service account."""

    parameter: Text
    """The trigger's parameter that gets the text."""
    service_account_name: Text
    """The service account whose token is requested."""


class SecretKey(Model):
    """One key of a Secret."""

    name: Text
    """Name of the Secret."""
    key: Text
    """The entry of the Secret."""


class SecretKeySource(Model):
    """The source of a value."""

    secret_key_ref: SecretKey
    """The entry of a Secret."""


class ClientSecret(Model):
    """The client's secret, by reference."""

    value_from: SecretKeySource
    """Where the secret comes from."""


class OAuth2(Model):
    """A client that requests tokens from a token server."""

    type: Annotated[Literal["clientCredentials"], WithJsonSchema(_CLIENT_CREDENTIALS)] = "clientCredentials"
    """The grant."""
    client_id: Text
    """The client's id."""
    client_secret: ClientSecret
    """The client's secret."""
    token_url: Text
    """Where tokens are requested."""
    scopes: Items[str] = ()
    """Scopes to ask for."""
    token_url_params: dict[str, str] = Field(default_factory=dict)
    """Further parameters of the token request."""


class PodIdentity(Model):
    """The identity of a cloud vendor."""

    provider: Provider
    """none, or the cloud whose identity is used."""
    identity_id: str | None = None
    """The cloud's identity."""
    identity_tenant_id: str | None = None
    """The identity's tenant."""
    identity_authority_host: str | None = None
    """The authority that issues its tokens."""
    role_arn: str | None = None
    """The role to assume."""
    external_id: Annotated[str | None, Field(alias="externalID")] = None
    """The external id of the role's trust."""
    identity_owner: Literal["keda", "workload"] | None = None
    """keda or workload."""


class AuthenticationSpec(Model):
    """Sources of a trigger's parameters. If two supply the same one, the later in KEDA's order wins."""

    env: Items[Variable] = ()
    """Variables of the workload's container."""
    file_path: Annotated[str | Items[FileEntry] | None, WithJsonSchema(_ANYTHING)] = None
    """Cluster kind only: a JSON file of parameters, instead of all other sources; or files, each with its parameter."""
    config_map_target_ref: Items[SecretEntry] = ()
    """Keys of ConfigMaps."""
    secret_target_ref: Items[SecretEntry] = ()
    """Keys of Secrets."""
    hashi_corp_vault: Vault | None = None
    """Secrets of a Vault server."""
    azure_key_vault: Vendor | None = None
    """Not supported."""
    gcp_secret_manager: Vendor | None = None
    """Not supported."""
    aws_secret_manager: Vendor | None = None
    """Not supported."""
    bound_service_account_token: Items[BoundToken] = ()
    """Fresh tokens of service accounts."""
    oauth2: Annotated[OAuth2 | None, Field(alias="oauth2")] = None
    """Client credentials."""
    pod_identity: PodIdentity | None = None
    """Only the provider none is supported."""


class AuthenticationStatus(Model):
    """The users of the authentication."""

    scaledobjects: str | None = None
    """Comma separated names."""
    scaledjobs: str | None = None
    """Comma separated names."""


class Authentication(Model):
    """A TriggerAuthentication or ClusterTriggerAuthentication."""

    spec: AuthenticationSpec


def unsupported(spec: AuthenticationSpec) -> Iterator[tuple[str, str]]:
    """Yields field and reason of every source that KEDA has and Penstock does not support."""
    vendors = {
        "azureKeyVault": spec.azure_key_vault,
        "gcpSecretManager": spec.gcp_secret_manager,
        "awsSecretManager": spec.aws_secret_manager,
    }
    yield from ((f"spec.{name}", "is not supported") for name, given in vendors.items() if given is not None)
    if spec.pod_identity and spec.pod_identity.provider != "none":
        yield "spec.podIdentity.provider", f"{spec.pod_identity.provider} is not supported, only none is"


def kind_of(reference_kind: str | None) -> Kind | None:
    """Returns the kind that an authenticationRef names, by default TriggerAuthentication; None for any other text."""
    known = {kind.kind: kind for kind in (TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION)}
    return known.get(reference_kind or TRIGGER_AUTHENTICATION.kind)


def parse(kind: Kind, body: Object) -> Authentication:
    """Returns the typed form. Raises UserError that names every malformed field."""
    return model.parse(Authentication, kind, body)
