"""Every setting of Penstock, typed, read once from flags and ``PENSTOCK_*`` variables and then passed down.

Nothing below the command line and the Celery app reads the environment.
"""

import os
import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from scheduler.broker import address
from scheduler.broker.address import BrokerAddress
from workers.api import names, quantities
from workers.api.keda_compat import Quirk


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


#: A tuple that a variable or flag spells as a comma separated list.
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]


#: An entry of a comma separated list: commas in quotation marks belong to it.
_ENTRY = re.compile(r"""(?:[^,'"]|'[^']*'|"[^"]*"|['"])+""")


def _split_entries(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in _ENTRY.findall(value) if part.strip())
    return value


def _commands(entries: tuple[str, ...]) -> tuple[str, ...]:
    for each in entries:
        image, _, command = each.partition("=")
        if not image.strip() or not set(shlex.split(command)) - {"|"}:
            raise ValueError(f"{each!r} must read IMAGE=COMMAND, for example nginx=nginx -g 'daemon off;'")
    return entries


def _broker(url: SecretStr) -> SecretStr:
    address.parse(url.get_secret_value())
    return url


def _password(file: Path) -> str:
    try:
        password = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"cannot be read: {reason}") from error
    if not password:
        raise ValueError("is empty")
    return password


def _named(value: Any, info: ValidationInfo) -> Any:
    """Returns the setting's default for an empty text, which names nothing, as in an empty KUBECONFIG."""
    return value or Settings.model_fields[info.field_name or ""].default


#: Part of the choice of a cluster, which an empty variable does not make. Files of secrets and certificates stay as
#: they are written: without them a process would be less strict than it was told to be.
Named = BeforeValidator(_named)


def _readable(file: Path | None) -> Path | None:
    if file is not None:
        _password(file)
    return file


def _with_password(url: SecretStr, info: ValidationInfo) -> SecretStr:
    """Returns the URL with the password of `broker_password_file`, which the model validates before it."""
    file = info.data.get("broker_password_file")
    if file is None:
        return url
    parts = urlsplit(url.get_secret_value())
    account, at, servers = parts.netloc.rpartition("@")
    user = account.partition(":")[0] if at else ""
    return SecretStr(parts._replace(netloc=f"{user}:{quote(_password(file), safe='')}@{servers}").geturl())


def _quantity(text: str) -> str:
    try:
        if not text or quantities.parse(text) > 0:
            return text
    except ValueError:
        pass
    raise ValueError("must be an amount above zero, such as 64, 500m or 256Gi")


def _labels(pairs: tuple[str, ...]) -> tuple[str, ...]:
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"must be KEY=VALUE, comma separated; {pair} is not")
        problems = (
            *names.qualified_name(key),
            *(each for part in value.split("/") for each in names.label_value(part)),
        )
        if problems:
            raise ValueError(f"{pair}: {problems[0]}")
    return pairs


#: How the variables of settings begin, in any case.
_VARIABLE = "penstock_"


def _from_environment() -> dict[str, str]:
    """Returns the settings that variables give, as they are spelt there; other variables count for nothing."""
    variables = {name.lower(): value for name, value in os.environ.items()}
    given = ((name, variables.get(_VARIABLE + name)) for name in Settings.model_fields)
    return {name: value for name, value in given if value is not None}


class Settings(BaseModel):
    """Settings of one process. Durations are seconds unless the name says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    def __init__(self, **given: Any) -> None:
        """Takes what is given; each other setting from its variable, else its default. Raises ValidationError."""
        super().__init__(**{**_from_environment(), **given})

    broker_password_file: Annotated[Path | None, AfterValidator(_readable)] = Field(
        None, description="file with the password of --broker, such as a mounted secret; it replaces one in the URL"
    )
    broker: Annotated[SecretStr, AfterValidator(_with_password), AfterValidator(_broker)] = Field(
        SecretStr("redis://127.0.0.1:6379/0"),
        description="URL of the Redis 6.2+ or Valkey server that holds the queue, redis://, rediss:// or sentinel://",
        validate_default=True,
    )
    broker_ca: Path | None = Field(None, description="file of the authorities to trust for that server's certificate")
    broker_cert: Path | None = Field(None, description="file of the certificate to show that server")
    broker_key: Path | None = Field(None, description="file of that certificate's key", validate_default=True)
    prefix: str = Field("penstock", pattern=r"^[A-Za-z0-9._-]+$", description="first part of every key in the broker")
    kubeconfig: Annotated[Path | None, Named] = Field(
        None, description="kubeconfig file; without one KUBECONFIG, then the pod's account"
    )
    context: Annotated[str | None, Named] = Field(
        None, description="context of the kubeconfig; without one its current context"
    )
    namespaces: Names = Field((), description="namespaces to watch, comma separated; empty means all")
    cluster_scoped: bool = Field(
        True,
        description="read kinds without namespaces (ClusterTriggerAuthentications), for which accounts need a "
        "ClusterRole; off, Roles in the watched namespaces are enough",
    )
    own_namespace: str = Field(
        "default", description="namespace of Penstock's own Leases, and of what ClusterTriggerAuthentications name"
    )
    selector: str = Field("", description="label selector: reconcile only matching objects (children always)")
    jobs: Literal["managed", "all"] = Field(
        "managed",
        description="which batch/v1 Jobs to run pods for: those whose spec.managedBy names us, or all of them",
    )

    cronjobs: bool = Field(
        False, description="run batch/v1 CronJobs too: only where the cluster's own CronJob controller is switched off"
    )
    workloads: bool = Field(
        False,
        description="run apps/v1 Deployments, ReplicaSets and StatefulSets too: only where nobody else does",
    )

    volcano: bool = Field(
        False,
        description="run Volcano's kinds: their definitions must be in the cluster, Volcano's own controllers must not",
    )
    scheduler_names: Names = Field(
        ("volcano",), description="pods of these schedulers are gathered in PodGroups, comma separated"
    )
    pod_scheduler: str = Field(
        "default-scheduler", description="the scheduler that places the pods of admitted gangs in their stead"
    )

    gang_overcommit: float = Field(
        1.0,
        ge=1,
        le=100,
        description="how many times what the nodes have may be promised to gangs",
        json_schema_extra={"metavar": "N"},
    )
    gang_patience: float = Field(
        300.0,
        ge=0,
        description="how long an admitted gang may stay without nodes for its pods before it backs out; 0 is for ever",
    )
    gang_overtaking: float = Field(
        600.0,
        ge=0,
        description="how long smaller gangs may go past one that waits for more room than they need; 0 is for ever",
    )
    gang_reclaim: bool = Field(
        False,
        description="gangs of reclaimable queues above their share back out for gangs of queues below theirs",
    )
    gang_topology: Names = Field(
        (), description="node labels that stand for the tiers of networkTopology, the nearest first, comma separated"
    )
    pod_addresses: bool = Field(
        False,
        description="pods of Volcano Jobs find each other by loopback addresses, not by names: on the embedded cluster",
    )

    policies: bool = Field(False, description="obey ScalePolicies; their definition must be in the cluster")

    keda_quirks: Annotated[tuple[Quirk, ...], BeforeValidator(_split)] = Field(
        (),
        description=f"KEDA's behaviour to keep where ours differs, comma separated: {', '.join(get_args(Quirk))}",
    )

    lease: float = Field(4.0, gt=0.1, description="how long a claimed key stays ours without renewal")
    leadership: int = Field(
        15,
        ge=1,
        description="how long a watch that is not heard of keeps others from taking its place",
        json_schema_extra={"metavar": "SECONDS"},
    )
    batch: int = Field(64, ge=1, le=1000, description="keys of one claim")
    work: float = Field(1.0, gt=0, description="how long one notification is worked for before the next one is sent")
    deadline: float = Field(60.0, gt=0, description="how long one reconcile may take")
    backoff_base: float = Field(0.25, gt=0, description="wait after the first failure in a row; doubles each time")
    backoff_cap: float = Field(120.0, gt=0, description="longest wait after failures")
    slots: int = Field(16, ge=1, description="notifications one worker process handles side by side")
    in_flight: int = Field(16, ge=1, description="API requests one plan keeps in flight")
    timeout: float = Field(15.0, gt=0, description="longest wait for one answer of the API server")
    stale: float = Field(10.0, gt=0, description="a watch silent for longer makes its kind unknown")
    polling: float = Field(30.0, gt=0, description="default pollingInterval of an object that names none")
    source_timeout: float = Field(3.0, gt=0, description="longest wait for one measured server")
    source_in_flight: int = Field(
        8,
        ge=2,
        le=16,
        description="questions one measured server is asked at a time; to a database that many connections",
    )
    max_triggers: int = Field(1000, ge=1, description="most triggers of one object; one that has more is not measured")
    wakeups: bool = Field(True, description="listen for keyspace notifications of measured Redis servers")
    restrict_secrets: bool = Field(False, description="read Secrets for triggers in Penstock's own namespace only")
    auth_folder: Path | None = Field(None, description="folder of the files that a filePath of authentications names")
    vault_servers: Names = Field(
        (), description="addresses of Vault servers that may see this process's own token or service account"
    )
    vault_token_file: Path | None = Field(None, description="file with a token for those Vault servers")
    vault_ca: Path | None = Field(None, description="file of the authorities to trust for Vault servers")
    webhook_listen: str = Field("0.0.0.0:8443", description="where API servers ask about Volcano's kinds")
    webhook_service: str = Field(
        "penstock-webhook", description="the Service by which they reach it, in Penstock's own namespace"
    )
    webhook_url: str = Field("", description="where they reach it instead of by a Service, https://HOST:PORT")
    webhook_drain: float = Field(
        0.0, ge=0, le=600, description="how long a stopping webhook says that it is not ready before it ends"
    )

    external_listen: str = Field("127.0.0.1:6000", description="where triggers are measured for an existing KEDA")
    external_triggers: Names = Field(
        (), description="types of triggers that are measured for it, comma separated; empty means all"
    )
    external_cert: Path | None = Field(None, description="file of the certificate to show it; none speaks in the clear")
    external_key: Path | None = Field(None, description="file of that certificate's key")
    external_clients: Path | None = Field(None, description="file of the authorities whose certificates clients show")
    gateway: str = Field(
        "127.0.0.1:8080",
        description=(
            "HOST:PORT for events over HTTP and the page; `penstock up` takes a free port of 127.0.0.1 unless this is "
            "set, and serves neither with off"
        ),
        json_schema_extra={"metavar": "HOST:PORT"},
    )
    gateway_requests: int = Field(
        1_000, ge=1, le=100_000, description="pushes that one gateway process has in flight; more are answered 503"
    )
    gateway_drain: float = Field(
        0.0, ge=0, le=600, description="how long a stopping gateway says that it is not ready before it ends"
    )
    tls_cert: Path | None = Field(None, description="file of the gateway's certificate; none speaks in the clear")
    tls_key: Path | None = Field(None, description="file of that certificate's key")
    client_ca: Path | None = Field(
        None, description="file of the authorities whose certificates senders of events may show"
    )
    page: Literal["read", "token", "off"] = Field(
        "read",
        description="the page in the browser: read without a login, read with a token (token), or none (off); actions "
        "always need their user's token",
    )
    page_hosts: Names = Field(
        (),
        description="names by which browsers reach the page, beside addresses and localhost, comma separated",
    )
    metrics_port: int = Field(0, ge=0, le=65535, description="port for /metrics; 0 serves none")
    metrics_address: str = Field(
        "0.0.0.0",
        description="address for /metrics, which asks for no credentials; unless set, `penstock up` takes 127.0.0.1",
    )
    health: str = Field(
        "",
        description="where every process answers /healthz and /readyz, which ask for no credentials; empty is nowhere",
        json_schema_extra={"metavar": "HOST:PORT"},
    )
    tracing: bool = Field(
        False,
        description="export traces of events by OTLP/HTTP, as the variables OTEL_* say; needs the extra tracing",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="lowest level that is logged")
    home: Annotated[Path, Named] = Field(
        Path(".penstock"), description="folder for the embedded broker, cluster, logs and kubeconfig"
    )
    pods: int = Field(
        0, ge=0, description="pods the embedded cluster runs at once; 0 means two per core, at least 4 per node"
    )
    images: Annotated[tuple[str, ...], BeforeValidator(_split_entries), AfterValidator(_commands)] = Field(
        (),
        description=(
            "local commands of images on the embedded cluster, for containers that name none: IMAGE=COMMAND, comma "
            "separated and quoted as in a shell; words after a bar are replaced by a container's arguments"
        ),
        json_schema_extra={"metavar": "IMAGE=COMMAND"},
    )
    isolation: Literal["auto", "none", "required"] = Field(
        "auto",
        description="mounts and process ids of their own for the embedded cluster's pods: where this machine allows it "
        "(auto), never (none), or else no pod runs (required)",
    )
    nodes: int = Field(1, ge=1, le=100, description="nodes of the embedded cluster, which all are this machine")
    cpus: Annotated[str, AfterValidator(_quantity)] = Field(
        "", description="cpu that each of these nodes offers; unless set, what the machine has"
    )
    memory: Annotated[str, AfterValidator(_quantity)] = Field(
        "", description="memory that each offers, such as 256Gi; unless set, what the machine has"
    )
    gpus: int = Field(0, ge=0, description="nvidia.com/gpu that each offers")
    node_labels: Annotated[Names, AfterValidator(_labels)] = Field(
        (), description="labels of these nodes, KEY=VALUE, comma separated; the values of KEY=A/B go to them in turn"
    )

    @field_validator("broker_key")
    @classmethod
    def _usable(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        """Refuses files that fit neither the URL nor each other."""
        broker = info.data.get("broker")
        if broker and (key or info.data.get("broker_ca") or info.data.get("broker_cert")):
            files = {"broker_ca": info.data.get("broker_ca"), "broker_cert": info.data.get("broker_cert")}
            try:
                address.parse(address.with_files(broker.get_secret_value(), {**files, "broker_key": key}))
            except ValueError as error:
                raise ValueError(f"with broker, broker_ca and broker_cert: {error}") from None
        return key

    @property
    def broker_url(self) -> str:
        """Returns the broker's URL with the files of its certificates as options. It holds the password."""
        return address.with_files(self.broker.get_secret_value(), {name: getattr(self, name) for name in address.FILES})

    @property
    def broker_address(self) -> BrokerAddress:
        """Returns the broker's address."""
        return address.parse(self.broker_url, prefix=self.prefix)
