"""Resolves authenticationRefs: the parameters in a TriggerAuthentication or ClusterTriggerAuthentication."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

from scalers.auth import mounted_files, template_environment
from scalers.auth.lookups import LookupView
from scalers.auth.secret_text import Hidden
from scalers.auth.vault import VaultError, Vaults
from workers.api.keda import triggerauthentication
from workers.api.keda.triggerauthentication import AuthenticationSpec, OAuth2, SecretEntry, Variable, Vault
from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, CONFIG_MAP, SECRET, Kind, Object, Ref
from workers.errors import ClusterError, PenstockError, Unavailable, UserError

T = TypeVar("T")


class Unreachable(PenstockError):  # noqa: N818 - as workers.errors.Unavailable
    """An object that an authentication names cannot be read now; the texts read before may still be valid."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload that has the triggers. container: the source of its variables; empty means the first."""

    namespace: str
    template: Object = field(default_factory=dict)
    container: str = ""

    @classmethod
    def of(cls, ref: Ref, body: Object) -> "Workload":
        """Returns the workload of a ScaledJob."""
        spec = body.get("spec") or {}
        template = (spec.get("jobTargetRef") or {}).get("template") or {}
        return cls(ref.namespace, template, spec.get("envSourceContainerName") or "")


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Resolves authenticationRefs.

    own_namespace: of the ConfigMaps, Secrets and service accounts of ClusterTriggerAuthentications. vaults: for
    hashiCorpVault. folder: filePath is relative to it. missing_is_empty: a missing object, key or variable supplies an
    empty text, as in KEDA.
    """

    own_namespace: str = "default"
    vaults: Vaults = field(default_factory=Vaults)
    folder: Path | None = None
    missing_is_empty: bool = False

    async def parameters(self, reference: Object, workload: Workload, view: LookupView) -> Hidden:
        """Returns the parameters that an authenticationRef supplies, in KEDA's order: of two of one name the later
        wins, and a file replaces everything else.

        Raises UserError naming the authentication and every field that is wrong, and Unreachable. A missing text is an
        error: measuring without a credential that is required would be a silent mistake.
        """
        ref = _referenced(reference, workload.namespace)
        cluster = ref.kind == CLUSTER_TRIGGER_AUTHENTICATION
        resolution = _Resolution(self, ref, self.own_namespace if cluster else workload.namespace, workload, view)
        try:
            spec = await view.remembered((ref, "spec"), lambda: _read(ref, view))
            if spec is None and self.missing_is_empty:
                return Hidden()
            if spec is None:
                raise UserError(f"authenticationRef: {ref} does not exist")
            return await resolution.of(spec)
        except Unavailable as error:
            raise Unreachable(f"{ref}: {error}") from error
        except ClusterError as error:
            raise UserError(f"{ref}: {error}") from error


async def _read(ref: Ref, view: LookupView) -> AuthenticationSpec | None:
    body = await view.lookups.find(ref)
    return None if body is None else triggerauthentication.parse(ref.kind, body).spec


def _referenced(reference: Object, namespace: str) -> Ref:
    kind = triggerauthentication.kind_of(reference.get("kind"))
    if kind is None:
        raise UserError(
            "authenticationRef.kind: must be TriggerAuthentication or ClusterTriggerAuthentication,"
            f" not {reference.get('kind')}"
        )
    return Ref(kind, namespace if kind.namespaced else "", str(reference.get("name") or ""))


@dataclass(frozen=True, slots=True)
class _Resolution:
    """The resolution of one authentication.

    namespace: of its ConfigMaps, Secrets and service accounts. problems: of its sources so far, each with its field.
    """

    authenticator: Authenticator
    ref: Ref
    namespace: str
    workload: Workload
    view: LookupView
    problems: list[str] = field(default_factory=list)

    async def of(self, spec: AuthenticationSpec) -> Hidden:
        found = await self._all(spec)
        if self.problems:
            raise UserError(f"{self.ref}: {'; '.join(self.problems)}")
        return found

    async def _all(self, spec: AuthenticationSpec) -> Hidden:
        if refused := "; ".join(f"{path}: {text}" for path, text in triggerauthentication.unsupported(spec)):
            raise UserError(f"{self.ref}: {refused}")
        if spec.file_path and self.ref.kind != CLUSTER_TRIGGER_AUTHENTICATION:
            self._refuse("filePath", "is for a ClusterTriggerAuthentication only")
            return Hidden()
        if spec.file_path and isinstance(spec.file_path, str):
            return await self._mounted("filePath", mounted_files.read, spec.file_path) or Hidden()
        found = dict(await self._variables(spec.env))
        listed = () if isinstance(spec.file_path, str) else spec.file_path or ()
        for index, entry in enumerate(listed):
            found[entry.parameter] = await self._mounted(f"filePath[{index}]", mounted_files.text, entry.path) or ""
        found |= await self._entries("configMapTargetRef", CONFIG_MAP, spec.config_map_target_ref)
        found |= await self._entries("secretTargetRef", SECRET, spec.secret_target_ref)
        if spec.hashi_corp_vault:
            found |= await self._secrets(spec.hashi_corp_vault)
        for index, bound in enumerate(spec.bound_service_account_token):
            token = await self.view.token(self.namespace, bound.service_account_name)
            if token is None:
                account = f"ServiceAccount {self.namespace}/{bound.service_account_name}"
                token = self._missing(f"boundServiceAccountToken[{index}]", f"{account} does not exist")
            found[bound.parameter] = token
        if spec.oauth2:
            found |= await self._client(spec.oauth2)
        return Hidden(found)

    async def _mounted(self, field: str, read: Callable[[Path | None, str], T], path: str) -> T | None:
        try:
            return await asyncio.to_thread(read, self.authenticator.folder, path)
        except UserError as error:
            self._refuse(field, str(error))
            return None

    async def _secrets(self, vault: Vault) -> Hidden:
        try:
            return Hidden(await self.authenticator.vaults.read(vault, self.namespace, self.view))
        except VaultError as error:
            if error.transient:
                raise Unreachable(f"{self.ref}: spec.hashiCorpVault: {error}") from error
            self._refuse("hashiCorpVault", str(error))
        except UserError as error:
            self._refuse("hashiCorpVault", str(error))
        return Hidden()

    async def _variables(self, variables: Sequence[Variable]) -> Hidden:
        found: dict[str, str] = {}
        environments: dict[str, dict[str, str]] = {}
        for index, variable in enumerate(variables):
            container = variable.container_name or self.workload.container
            if container not in environments:
                try:
                    environments[container] = await template_environment.resolve(
                        self.workload.template, container, self.workload.namespace, self.view.entries
                    )
                except UserError as error:
                    found[variable.parameter] = self._missing(f"env[{index}]", str(error))
                    continue
            text = environments[container].get(variable.name)
            if text is None and variable.name in template_environment.optional(self.workload.template, container):
                text = ""
            elif text is None:
                text = self._missing(
                    f"env[{index}]", f"the container does not set {variable.name}, or only once it runs"
                )
            found[variable.parameter] = text
        return Hidden(found)

    async def _entries(self, field: str, kind: Kind, entries: Sequence[SecretEntry]) -> Hidden:
        return Hidden(
            {
                entry.parameter: await self._entry(
                    f"{field}[{index}]", Ref(kind, self.namespace, entry.name), entry.key
                )
                for index, entry in enumerate(entries)
            }
        )

    async def _entry(self, field: str, ref: Ref, key: str) -> str:
        try:
            entries = await self.view.entries(ref)
        except UserError as error:
            self._refuse(field, str(error))
            return ""
        if entries is None:
            return self._missing(field, f"{ref} does not exist")
        return entries[key] if key in entries else self._missing(field, f"{ref} has no key {key}")

    async def _client(self, oauth2: OAuth2) -> Hidden:
        secret = oauth2.client_secret.value_from.secret_key_ref
        where = "oauth2.clientSecret.valueFrom.secretKeyRef"
        return Hidden(
            {
                "clientID": oauth2.client_id,
                "clientSecret": await self._entry(where, Ref(SECRET, self.namespace, secret.name), secret.key),
                "oauthTokenURI": oauth2.token_url,
                "scopes": ",".join(oauth2.scopes),
                "endpointParams": urlencode(oauth2.token_url_params),
            }
        )

    def _missing(self, field: str, message: str) -> str:
        """Returns the text of something that does not exist; it is a problem unless that text may be empty."""
        if not self.authenticator.missing_is_empty:
            self._refuse(field, message)
        return ""

    def _refuse(self, field: str, message: str) -> None:
        self.problems.append(f"spec.{field}: {message}")
