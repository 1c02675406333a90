"""Exec plugins of kubeconfigs (client.authentication.k8s.io): a program that prints a token or a client certificate.

The official client runs them without a deadline, keeps their errors to itself, and never replaces a certificate.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from workers.api import times
from workers.errors import Unavailable, UserError

#: Seconds that a plugin may take; somebody may have to answer it at a terminal.
DEADLINE, AT_A_TERMINAL = 30.0, 300.0
#: The versions of the protocol.
VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
#: Characters of a plugin's complaint that are quoted, from its end.
QUOTED = 300


@dataclass(frozen=True, slots=True, repr=False)
class CertificateFromPlugin:
    """PEM texts of a certificate with its chain, and of its key."""

    certificate: str
    key: str


@dataclass(frozen=True, slots=True, repr=False)
class ExecCredential:
    """A plugin's answer. token: empty if it gave none. expires: None if it holds until the server refuses it."""

    token: str = ""
    certificate: CertificateFromPlugin | None = None
    expires: datetime | None = None


@dataclass(frozen=True, slots=True, repr=False)
class ExecPlugin:
    """A plugin as a kubeconfig describes it.

    command: a path is absolute. cluster: what it is told about the server, or None. hint: how it is installed.
    deadline: seconds, without a terminal.
    """

    command: str
    version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    interactive: Literal["Never", "IfAvailable", "Always"] = "IfAvailable"
    cluster: Mapping[str, Any] | None = None
    hint: str = ""
    deadline: float = DEADLINE

    @classmethod
    def of(cls, entry: Mapping[str, Any], folder: Path, cluster: Mapping[str, Any]) -> "ExecPlugin":
        """Returns the plugin of a user's `exec`. folder: of its kubeconfig. cluster: for `provideClusterInfo`.

        Raises UserError naming the field that is wrong.
        """
        command, version = entry.get("command"), entry.get("apiVersion")
        if not isinstance(command, str) or not command:
            raise UserError("exec.command: a program is needed")
        if version not in VERSIONS:
            raise UserError(f"exec.apiVersion: {version}: Penstock knows {' and '.join(VERSIONS)}")
        mode: Any = entry.get("interactiveMode") or ("IfAvailable" if version == VERSIONS[1] else None)
        if mode not in ("Never", "IfAvailable", "Always"):
            raise UserError(f"exec.interactiveMode: {mode}: must be Never, IfAvailable or Always")
        if os.sep in command:
            command = str(folder / Path(command).expanduser())
        try:
            env = {str(each["name"]): str(each["value"]) for each in entry.get("env") or ()}
            args = tuple(map(str, entry.get("args") or ()))
        except (KeyError, TypeError) as error:
            raise UserError(
                f"exec.env and exec.args: must be lists of names with values, and of texts: {error}"
            ) from error
        told = cluster if entry.get("provideClusterInfo") else None
        return cls(command, version, args, env, mode, told, str(entry.get("installHint") or ""))

    async def run(self) -> ExecCredential:
        """Runs the plugin. Raises UserError if it cannot be started, and Unavailable if it fails or takes too long."""
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if self.interactive == "Always" and not terminal:
            raise UserError(f"{self._name}: it asks its user (interactiveMode Always), and there is no terminal")
        asks = terminal and self.interactive != "Never"
        spec: dict[str, Any] = {"interactive": asks} | ({"cluster": dict(self.cluster)} if self.cluster else {})
        told = json.dumps({"apiVersion": self.version, "kind": "ExecCredential", "spec": spec})
        try:
            process = await asyncio.create_subprocess_exec(
                self.command,
                *self.args,
                env={**os.environ, **self.env, "KUBERNETES_EXEC_INFO": told},
                stdin=None if asks else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if asks else asyncio.subprocess.PIPE,
                # Its own children end with it; at a terminal it must stay in the foreground.
                start_new_session=not asks,
            )
        except (OSError, ValueError) as error:
            hint = f". {self.hint.strip()}" if self.hint else ""
            raise UserError(f"{self._name}: it cannot be started: {error}{hint}") from error
        output, complaint = await self._finished(process, AT_A_TERMINAL if asks else self.deadline, group=not asks)
        if process.returncode:
            said = (complaint or b"").decode(errors="replace").strip()[-QUOTED:]
            raise Unavailable(f"{self._name}: it ended with {process.returncode}{': ' if said else ''}{said}")
        return self._read(output)

    async def _finished(
        self, process: asyncio.subprocess.Process, deadline: float, *, group: bool
    ) -> tuple[bytes, Any]:
        try:
            async with asyncio.timeout(deadline):
                return await process.communicate()
        except TimeoutError:
            if group:
                # Its children too: one that holds the output open is waited for, even after the plugin has ended.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            raise Unavailable(f"{self._name}: no answer within {deadline:g} s; it was ended") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
                await process.wait()

    def _read(self, output: bytes) -> ExecCredential:
        """Returns the answer; an error never quotes it."""
        try:
            answer = json.loads(output)
            status = answer["status"]
            version, kind = answer["apiVersion"], answer["kind"]
            token, certificate, key = (
                str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
            )
            expires = status.get("expirationTimestamp")
            ends = times.parse(expires).astimezone(UTC) if expires else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(f"{self._name}: its answer is no ExecCredential: {type(error).__name__}") from error
        if (version, kind) != (self.version, "ExecCredential"):
            raise Unavailable(f"{self._name}: it answered with {kind} of {version}, not of {self.version}")
        if bool(certificate) != bool(key) or not (token or certificate):
            raise Unavailable(f"{self._name}: its answer has neither a token nor a certificate with its key")
        return ExecCredential(token, CertificateFromPlugin(certificate, key) if certificate else None, ends)

    @property
    def _name(self) -> str:
        return f"exec plugin {self.command}"
