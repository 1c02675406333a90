"""Secrets of HashiCorp Vault servers, over their HTTP API."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from pydantic import SecretStr
from yarl import URL

from penstock._trust import client_context
from scalers.auth.lookups import LookupView
from scalers.auth.secret_text import Hidden
from workers.api.keda.triggerauthentication import CertificateRequest, Vault, VaultCredential, VaultSecret
from workers.client import environment_proxies, transport
from workers.errors import PenstockError, UserError

if TYPE_CHECKING:
    # Imported with the first request: most scalers have no vault.
    import aiohttp

#: The file of this pod's own service account token.
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

#: Share of its lifetime for which a token or certificate is used.
SHARE = 0.5

#: Fewest seconds for which an issued certificate is used.
LEAST_USE = 30.0

#: Bytes of an answer that are read.
LARGEST = 4 << 20


class VaultError(PenstockError):
    """A Vault server refused or could not be reached. status: the HTTP code, 0 when there was no answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status

    @property
    def transient(self) -> bool:
        """True if a later request may succeed."""
        return self.status in (0, 429) or self.status >= 500


@dataclass(frozen=True, slots=True)
class _Issue:
    """One request to Vault: two parameters of one certificate share its answer."""

    path: str
    request: CertificateRequest | None


class Vaults:
    """A client of Vault servers.

    servers: addresses that may receive this process's own tokens, the one in `token_file` and its service account's:
    otherwise the author of a TriggerAuthentication could have them sent anywhere. authority: a file of certificates to
    trust instead of the system's. timeout: seconds of one answer. clock: seconds since 1970.
    """

    def __init__(
        self,
        *,
        servers: tuple[str, ...] = (),
        token_file: Path | None = None,
        authority: Path | None = None,
        account: Path = ACCOUNT,
        timeout: float = 3.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._servers = frozenset(server.rstrip("/") for server in servers)
        self._token_file = token_file
        self._authority = authority
        self._account = account
        self._timeout = timeout
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Closes every connection."""
        if self._session:
            await self._session.close()

    async def read(self, vault: Vault, namespace: str, view: LookupView) -> Hidden:
        """Returns the parameters that this block of an authentication supplies.

        namespace: of its credential's service account. Raises UserError for a missing or malformed field, VaultError
        for a server that refuses; neither quotes a secret.
        """
        if "@" in vault.address:
            # Errors quote the address.
            raise UserError("address must hold no credentials")
        login = _Login(self, vault, namespace, view)
        answers: dict[_Issue, Mapping[str, Any]] = {}
        found = {}
        for secret in vault.secrets:
            issue = _Issue(secret.path, (secret.pki_data or CertificateRequest()) if secret.type == "pki" else None)
            if issue not in answers:
                answers[issue] = await login.ask(issue)
            found[secret.parameter] = _value(secret, answers[issue])
        return Hidden(found)

    def token(self, vault: Vault) -> SecretStr | None:
        """Returns this process's own token, if it has one and this server may receive it. Blocks on the disk."""
        if self._token_file is None or not self._trusts(vault):
            return None
        return SecretStr(_content(self._token_file))

    def account(self, vault: Vault, credential: VaultCredential) -> SecretStr:
        """Returns the token of this pod's own service account, if this server may receive it. Blocks on the disk."""
        if credential.service_account not in (None, "", str(self._account)):
            raise UserError(
                f"credential.serviceAccount: only {self._account} is read; serviceAccountName names another account"
            )
        if not self._trusts(vault):
            raise UserError(
                f"credential: {vault.address} may not be shown this process's own account (PENSTOCK_VAULT_SERVERS);"
                " serviceAccountName names another"
            )
        return SecretStr(_content(self._account))

    def half_life(self, answer: Mapping[str, Any]) -> float:
        """Returns the seconds for which an issued certificate is used; few if Vault names no expiration."""
        expiration = answer["data"].get("expiration")
        left = float(expiration) - self._clock() if isinstance(expiration, int) else 0.0
        return max(LEAST_USE, SHARE * left)

    def _trusts(self, vault: Vault) -> bool:
        return vault.address.rstrip("/") in self._servers

    async def call(self, vault: Vault, method: str, path: str, *, token: SecretStr | None, body: Any = None) -> Any:
        """Returns the answer to one request. Raises VaultError."""
        import aiohttp

        headers = {"X-Vault-Request": "true", "Content-Type": "application/json"}
        if token:
            headers["X-Vault-Token"] = token.get_secret_value()
        if vault.namespace:
            headers["X-Vault-Namespace"] = vault.namespace
        url = f"{vault.address.rstrip('/')}/v1/{quote(path.strip('/'))}"
        where = f"{method} {url}"
        data = None if body is None else orjson.dumps(body)
        try:
            async with asyncio.timeout(self._timeout):
                session = self._connected()
                # No redirects: they would send the token to another server.
                async with session.request(
                    method,
                    URL(url, encoded=True),
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                    proxy=environment_proxies.current(url),
                ) as response:
                    answer = await _read(where, response)
        except TimeoutError:
            raise VaultError(f"{where}: no answer within {self._timeout:g} s") from None
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise VaultError(f"{where}: {error or type(error).__name__}") from error
        return _decoded(where, response.status, answer)

    def _connected(self) -> "aiohttp.ClientSession":
        if self._session is None:
            context = client_context(cafile=str(self._authority) if self._authority else None)
            self._session = transport.session(context, limit=16)
        return self._session


@dataclass(frozen=True, slots=True)
class _Login:
    """The requests of one identity to one server. Answers are cached by identity, never across two."""

    vaults: Vaults
    vault: Vault
    namespace: str
    view: LookupView

    async def ask(self, issue: _Issue) -> Mapping[str, Any]:
        """Returns the data of one path."""
        token = await self._token(self.view)
        try:
            return await self._ask(issue, token)
        except VaultError as error:
            if error.status != 403 or self.vault.authentication != "kubernetes":
                raise
        # The login may have been revoked before its end.
        fresh = self.view.lookups.view(self.view.lookups.now())
        return await self._ask(issue, await self._token(fresh))

    async def _ask(self, issue: _Issue, token: SecretStr) -> Mapping[str, Any]:
        async def ask() -> Mapping[str, Any]:
            method, body = ("GET", None) if issue.request is None else ("POST", _request(issue.request))
            answer = await self.vaults.call(self.vault, method, issue.path, token=token, body=body)
            if not isinstance(answer, dict) or not isinstance(answer.get("data"), dict):
                raise UserError(f"{issue.path}: the answer holds no data")
            return answer

        key = ("vault", self.vault.address, self.vault.namespace, token, issue)
        if issue.request is None:
            answer = await self.view.remembered(key, ask)
        else:
            # Every answer is a new certificate: it is used for half its lifetime, and not replaced at every failure.
            answer = await self.view.remembered(key, ask, self.vaults.half_life, slack=LEAST_USE)
        data: Mapping[str, Any] = answer["data"]
        return data

    async def _token(self, view: LookupView) -> SecretStr:
        if self.vault.authentication == "kubernetes":
            return await self._logged_in(view)
        own = await asyncio.to_thread(self.vaults.token, self.vault)
        token = own or (self.vault.credential and self.vault.credential.token)
        if not token:
            raise UserError("credential.token is required with authentication token")
        return token

    async def _logged_in(self, view: LookupView) -> SecretStr:
        vault, credential = self.vault, self.vault.credential or VaultCredential()
        for field, text in (("role", vault.role), ("mount", vault.mount)):
            if not text:
                raise UserError(f"{field} is required with authentication kubernetes")

        async def log_in() -> tuple[SecretStr, float]:
            jwt = await self._jwt(credential, view)
            body = {"jwt": jwt.get_secret_value(), "role": vault.role}
            answer = await self.vaults.call(vault, "POST", f"auth/{vault.mount}/login", token=None, body=body)
            try:
                return SecretStr(answer["auth"]["client_token"]), SHARE * float(answer["auth"]["lease_duration"])
            except (KeyError, TypeError):
                raise VaultError(f"{vault.address}: the answer to the login holds no token") from None

        account = (self.namespace, credential.service_account_name) if credential.service_account_name else None
        key = ("login", vault.address, vault.namespace, vault.mount, vault.role, account)
        token, _ = await view.remembered(key, log_in, lambda login: login[1])
        return token

    async def _jwt(self, credential: VaultCredential, view: LookupView) -> SecretStr:
        if not (name := credential.service_account_name):
            return await asyncio.to_thread(self.vaults.account, self.vault, credential)
        if jwt := await view.token(self.namespace, name):
            return SecretStr(jwt)
        raise UserError(f"credential.serviceAccountName: there is no ServiceAccount {self.namespace}/{name}")


def _content(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None


async def _read(where: str, response: "aiohttp.ClientResponse") -> bytes:
    answer = bytearray()
    async for chunk in response.content.iter_any():
        answer += chunk
        if len(answer) > LARGEST:
            raise VaultError(f"{where}: the answer is larger than {LARGEST >> 20} MiB")
    return bytes(answer)


def _decoded(where: str, status: int, answer: bytes) -> Any:
    """Returns the JSON of an answer. Raises VaultError with Vault's own words, which hold no secret."""
    try:
        decoded = orjson.loads(answer or b"{}")
    except orjson.JSONDecodeError:
        decoded = None
    if status >= 300 or decoded is None:
        words = decoded.get("errors") if isinstance(decoded, dict) else None
        said = (
            ", ".join(str(word).strip() for word in words) if isinstance(words, list) and words else "no reason given"
        )
        raise VaultError(f"{where}: {status} {said}"[:500], status=status)
    return decoded


def _request(request: CertificateRequest) -> dict[str, str]:
    """Returns a certificate request in Vault's own spelling."""
    return {name: text for name, text in request.model_dump(by_alias=False).items() if text}


def _value(secret: VaultSecret, data: Mapping[str, Any]) -> str:
    """Returns the text of one key."""
    nested = data.get("data")
    if secret.type == "secretV2" or (secret.type == "" and isinstance(nested, dict)):
        if not isinstance(nested, dict):
            raise UserError(f"{secret.path}: is no secret of a key-value store of version 2")
        data = nested
    if secret.key not in data:
        raise UserError(f"{secret.path}: has no key {secret.key}")
    value = data[secret.key]
    if secret.type == "pki" and isinstance(value, list):
        # A chain of authorities.
        return "\n".join(map(str, value))
    if not isinstance(value, str):
        raise UserError(f"{secret.path}: key {secret.key} is not a text")
    return value
