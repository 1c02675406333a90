"""Credentials of kubeconfigs on real sockets: plugins, files that are replaced, proxies, other users.

The API server is a stand-in with TLS that takes one token or one certificate at a time.
"""

import base64
import json
import logging
import os
import ssl
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from deploy.certificate_authority import CLIENT, Authority
from tests.support.conditions import eventually
from tests.support.forward_proxy import forward_proxy
from tests.support.tables import cases
from workers.api.kinds import JOB, Ref
from workers.client import credentials, exec_plugin, kubeconfig, tls_files
from workers.client.kubeconfig import load
from workers.client.rest import Cluster
from workers.errors import Forbidden, Unavailable, UserError

NOW = datetime.now(UTC)
REF = Ref(JOB, "default", "a")
V1 = "client.authentication.k8s.io/v1"


def authority(name: str) -> Authority:
    return Authority(name, NOW - timedelta(hours=1), NOW + timedelta(days=2))


@dataclass
class Stand:
    """A stand-in. token, user: of which requests are taken; the other is not asked for if it is empty."""

    folder: Path
    authority: Authority = field(default_factory=lambda: authority("servers"))
    clients: Authority = field(default_factory=lambda: authority("clients"))
    token: str = "good"
    user: str = ""
    port: int = 0
    seen: list[web.Request] = field(default_factory=list)
    context: ssl.SSLContext = field(default_factory=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    async def handle(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert") or {}
        names = {text for part in shown.get("subject", ()) for name, text in part if name == "commonName"}
        fits = request.headers.get("Authorization") == f"Bearer {self.token}" if self.token else self.user in names
        return web.json_response({} if fits else {"message": "Unauthorized"}, status=200 if fits else 401)

    def certificate(self, name: str = "127.0.0.1") -> None:
        """New connections get a new certificate of the authority."""
        made = self.authority.sign("server", [name])
        path = self.write("server.pem", made.certificate + made.key)
        self.context.load_cert_chain(path)
        self.write("ca.crt", self.authority.certificate)

    def client(self, name: str) -> None:
        """Writes a client's certificate of this name."""
        made = self.clients.sign(name, purpose=CLIENT)
        self.write("client.crt", made.certificate)
        self.write("client.key", made.key)

    def write(self, name: str, text: str) -> Path:
        """Replaces a file as a kubelet does: in one step."""
        path, new = self.folder / name, self.folder / f".{name}"
        new.write_text(text)
        new.replace(path)
        return path

    def config(self, user: dict[str, Any], **cluster: Any) -> Path:
        """Writes a kubeconfig of this server."""
        entry = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": "ca.crt", **cluster}
        entry = {name: value for name, value in entry.items() if value is not None}
        content = {
            "clusters": [{"name": "it", "cluster": entry}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "here", "context": {"cluster": "it", "user": "me"}}],
            "current-context": "here",
        }
        return self.write("kubeconfig", yaml.safe_dump(content))

    def plugin(self, script: str, **more: Any) -> dict[str, Any]:
        """Returns a user whose plugin is this Python program."""
        path = self.write("plugin.py", PRELUDE + textwrap.dedent(script))
        return {"exec": {"apiVersion": V1, "command": sys.executable, "args": [str(path)], **MODE, **more}}

    def runs(self) -> int:
        """How often the plugin ran."""
        path = self.folder / "runs"
        return len(path.read_text()) if path.exists() else 0


MODE = {"interactiveMode": "Never"}
#: A plugin answers with the token in the file `issued`.
PRELUDE = """
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
with (here / "runs").open("a") as runs: runs.write(".")
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
def answer(**status):
    print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""
ISSUED = "answer(token=(here / 'issued').read_text())"


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    stand = Stand(tmp_path)
    stand.certificate()
    stand.context.load_verify_locations(cadata=stand.clients.certificate)
    stand.context.verify_mode = ssl.CERT_OPTIONAL
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stand.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=stand.context)
    await site.start()
    stand.port = runner.addresses[0][1]
    yield stand
    await runner.cleanup()


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=path, timeout=20) as cluster:
        yield cluster


# Exec plugins


@pytest.mark.parametrize("version", exec_plugin.VERSIONS)
async def test_a_plugin_runs_once_for_many_requests(stand: Stand, version: str) -> None:
    stand.write("issued", "good")
    async with connected(stand.config(stand.plugin(ISSUED, apiVersion=version))) as cluster:
        for _ in range(3):
            await cluster.get(REF)
    assert stand.runs() == 1


async def test_a_refused_token_is_renewed_at_once(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "RERUN", 0.0)
    stand.write("issued", "good")
    async with connected(stand.config(stand.plugin(ISSUED))) as cluster:
        await cluster.get(REF)
        stand.token = "newer"
        stand.write("issued", "newer")
        await cluster.create(JOB, {"metadata": {"namespace": "default", "name": "a"}})
        assert stand.runs() == 2
        stand.token = "nobody's"
        with pytest.raises(Forbidden):
            await cluster.get(REF)


async def test_a_stream_renews_a_refused_token_too(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "RERUN", 0.0)
    stand.write("issued", "good")
    async with connected(stand.config(stand.plugin(ISSUED))) as cluster:
        stand.token = "newer"
        stand.write("issued", "newer")
        assert [line async for line in cluster.stream_lines("/log")] == [b"{}"]


async def test_a_plugin_runs_again_before_its_answer_expires(stand: Stand) -> None:
    ends = (NOW + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    script = f"answer(token=(here / 'issued').read_text(), expirationTimestamp='{ends}')"
    stand.write("issued", "good")
    access = await load(stand.config(stand.plugin(script)), None)
    held = access.credentials
    assert isinstance(held, credentials.PluginCredentials)
    moment = NOW + timedelta(minutes=30)
    held._now, held._tried = lambda: moment, float("-inf")
    assert await held.authorization() == "Bearer good"
    stand.write("issued", "newer")
    moment = NOW + timedelta(minutes=59, seconds=30)
    assert await held.authorization() == "Bearer newer"
    assert stand.runs() == 2


@cases(
    ("it fails", "sys.exit('log in first')", r"exec plugin .*python.*: it ended with 1: log in first"),
    ("it prints nothing", "", r"exec plugin .*: its answer is no ExecCredential"),
    ("it answers nothing", "answer()", r"its answer has neither a token nor a certificate with its key"),
    ("a certificate without its key", "answer(clientCertificateData='x')", "neither a token nor a certificate"),
    ("another version", "info['apiVersion'] = 'v7'; answer(token='x')", r"ExecCredential of v7, not of"),
)
async def test_a_plugin_that_gives_nothing_is_named(script: str, message: str, stand: Stand) -> None:
    with pytest.raises(UserError, match=message):
        await load(stand.config(stand.plugin(script)), None)


async def test_a_plugin_that_hangs_is_ended_with_its_children(stand: Stand) -> None:
    frozen = """
        if os.fork() == 0:
            (here / "child").write_text(str(os.getpid()))
            time.sleep(600)
        import signal
        os.kill(os.getpid(), signal.SIGSTOP)
    """
    user = stand.plugin(frozen)
    plugin = exec_plugin.ExecPlugin(
        user["exec"]["command"], V1, tuple(user["exec"]["args"]), interactive="Never", deadline=1.5
    )
    with pytest.raises(Unavailable, match=r"exec plugin .*: no answer within 1.5 s; it was ended"):
        await plugin.run()
    child = int((stand.folder / "child").read_text())
    await eventually(lambda: not _is_alive(child))


async def test_a_child_that_outlives_its_plugin_is_ended_too(stand: Stand) -> None:
    left = """
        if os.fork() == 0:
            (here / "child").write_text(str(os.getpid()))
            time.sleep(600)
    """
    user = stand.plugin(left)
    plugin = exec_plugin.ExecPlugin(
        user["exec"]["command"], V1, tuple(user["exec"]["args"]), interactive="Never", deadline=1.5
    )
    with pytest.raises(Unavailable, match=r"no answer within 1.5 s"):
        await plugin.run()
    child = int((stand.folder / "child").read_text())
    await eventually(lambda: not _is_alive(child))


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_plugin_that_is_not_there_says_how_it_is_installed(stand: Stand) -> None:
    user = {"exec": {"apiVersion": V1, "command": "no-such-login", "installHint": "install no-such-login", **MODE}}
    with pytest.raises(UserError, match=r"exec plugin no-such-login: it cannot be started: .*install no-such-login"):
        await load(stand.config(user), None)


@cases(
    ("another version", {"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "exec.apiVersion: .*v1alpha1"),
    ("no mode", {"interactiveMode": None}, "exec.interactiveMode: None"),
    ("no command", {"command": ""}, "exec.command"),
    ("a variable without a value", {"env": [{"name": "A"}]}, "exec.env"),
    ("a terminal that is not there", {"interactiveMode": "Always"}, "there is no terminal"),
)
async def test_a_wrong_plugin_entry_names_its_field(changed: dict[str, Any], message: str, stand: Stand) -> None:
    with pytest.raises(UserError, match=message):
        await load(stand.config(stand.plugin(ISSUED, **changed)), None)


async def test_a_plugin_is_told_about_the_cluster(stand: Stand) -> None:
    script = "assert info['spec']['cluster']['config'] == {'audience': 'here'}; answer(token='good')"
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "here"}}
    user = stand.plugin(script, provideClusterInfo=True, env=[{"name": "A", "value": "b"}])
    async with connected(stand.config(user, extensions=[extension])) as cluster:
        await cluster.get(REF)


async def test_a_plugins_certificate_is_shown_and_replaced(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "RERUN", 0.0)
    stand.token, stand.user = "", "first"
    stand.client("first")
    script = (
        "answer(clientCertificateData=(here/'client.crt').read_text(), clientKeyData=(here/'client.key').read_text())"
    )
    async with connected(stand.config(stand.plugin(script))) as cluster:
        await cluster.get(REF)
        stand.user = "second"
        stand.client("second")
        await cluster.get(REF)


# Files that are replaced


async def test_a_token_file_is_read_again_after_a_refusal(stand: Stand) -> None:
    stand.write("token", "good\n")
    async with connected(stand.config({"tokenFile": "token", "token": "stale"})) as cluster:
        await cluster.get(REF)
        stand.token = "newer"
        stand.write("token", "newer")
        await cluster.get(REF)


def test_a_token_file_is_read_once_a_minute(tmp_path: Path) -> None:
    path, moment = tmp_path / "token", [0.0]
    path.write_text("first")
    held = credentials.TokenFile(path, clock=lambda: moment[0])

    async def read() -> str:
        return await held.authorization()

    def now() -> str:
        import asyncio

        return asyncio.run(read())

    path.write_text("second")
    moment[0] = 59.0
    assert now() == "Bearer first"
    moment[0] = 60.0
    assert now() == "Bearer second"
    path.unlink()
    moment[0] = 200.0
    assert now() == "Bearer second"


async def test_a_pods_token_and_authority_are_read_anew(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", stand.folder)
    stand.write("token", "good")
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(stand.port)}
    environ["KUBECONFIG"] = str(stand.folder / "none")
    async with Cluster(await load(None, None, environ=environ), timeout=20, in_flight=4) as cluster:
        await cluster.get(REF)
        stand.token = "newer"
        stand.write("token", "newer")
        await cluster.get(REF)


async def test_a_renewed_client_certificate_is_shown_without_a_restart(stand: Stand) -> None:
    stand.token, stand.user = "", "first"
    stand.client("first")
    async with connected(stand.config({"client-certificate": "client.crt", "client-key": "client.key"})) as cluster:
        await cluster.get(REF)
        stand.user = "second"
        with pytest.raises(Forbidden):
            await cluster.get(REF)
        stand.client("second")
        await cluster.get(REF)


async def test_a_half_replaced_certificate_leaves_the_last_one_in_place(stand: Stand) -> None:
    stand.token, stand.user = "", "first"
    stand.client("first")
    access = await load(stand.config({"client-certificate": "client.crt", "client-key": "client.key"}), None)
    assert access.tls is not None
    before = access.tls.current()
    stand.write("client.key", stand.clients.sign("other", purpose=CLIENT).key)
    assert not access.tls.reread()
    assert access.tls.current() is before


async def test_the_authority_may_be_replaced(stand: Stand) -> None:
    async with connected(stand.config({"token": "good"})) as cluster:
        await cluster.get(REF)
        stand.authority = authority("next")
        stand.certificate()
        # As after a restart of the server: the next request needs a new connection.
        await cluster._calls.close()
        cluster._calls = cluster._opened_calls(4)
        await cluster.get(REF)


async def test_the_authority_is_read_once_a_minute(stand: Stand) -> None:
    moment = [0.0]
    contexts = tls_files.TlsContexts(tls_files.TlsSources(stand.folder / "ca.crt"), clock=lambda: moment[0])
    before = contexts.current()
    stand.write("ca.crt", authority("next").certificate)
    moment[0] = 59.0
    assert contexts.current() is before
    moment[0] = 60.0
    assert contexts.current() is not before


# The way to the server


async def test_the_cluster_entrys_proxy_is_used_before_the_environments(stand: Stand) -> None:
    async with forward_proxy(("127.0.0.1", stand.port)) as proxy:
        path = stand.config({"token": "good"}, **{"proxy-url": proxy.url.replace("//", "//me:secret@")})
        access = await load(path, None, environ={"HTTPS_PROXY": "http://127.0.0.1:1"})
        async with Cluster(access, timeout=20, in_flight=4) as cluster:
            await cluster.get(REF)
    assert proxy.targets == [f"127.0.0.1:{stand.port}"]
    assert proxy.credentials == ["Basic " + base64.b64encode(b"me:secret").decode()]


async def test_the_environments_proxy_is_used_for_another_host(stand: Stand) -> None:
    async with forward_proxy(("127.0.0.1", stand.port)) as proxy:
        server = {"server": "https://api.example.org:6443", "tls-server-name": "127.0.0.1"}
        path = stand.config({"token": "good"}, **server)
        async with Cluster(await load(path, None, environ={"HTTPS_PROXY": proxy.url}), timeout=20, in_flight=4) as one:
            await one.get(REF)
        access = await load(path, None, environ={"HTTPS_PROXY": proxy.url, "NO_PROXY": "example.org"})
        assert access.proxy == ""
    assert proxy.targets == ["api.example.org:6443"]


async def test_a_proxy_that_cannot_be_used_is_an_error_of_the_kubeconfig(stand: Stand) -> None:
    path = stand.config({"token": "good"}, **{"proxy-url": "socks5://me:secret@127.0.0.1:1080"})
    with pytest.raises(UserError, match=r"proxy 127.0.0.1: socks5:// is not supported") as caught:
        await load(path, None)
    assert "secret" not in str(caught.value)


async def test_the_servers_name_may_be_another_than_its_address(stand: Stand) -> None:
    stand.certificate("api.example.org")
    async with connected(stand.config({"token": "good"}, **{"tls-server-name": "api.example.org"})) as cluster:
        await cluster.get(REF)
    async with connected(stand.config({"token": "good"})) as cluster:
        with pytest.raises(Unavailable, match="certificate"):
            await cluster.get(REF)


async def test_a_server_that_is_not_verified_is_said_once(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    unverified = {"insecure-skip-tls-verify": True, "certificate-authority": None}
    with caplog.at_level(logging.WARNING):
        async with connected(stand.config({"token": "good"}, **unverified)) as cluster:
            await cluster.get(REF)
            await cluster.get(REF)
    assert [one.message for one in caplog.records].count(
        "the API server's certificate is not verified (insecure-skip-tls-verify)"
    ) == 1


# Users and files


async def test_a_user_may_act_as_another(stand: Stand) -> None:
    user = {
        "token": "good",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"scope": ["a"]},
    }
    path = stand.config(user)
    async with connected(path) as cluster:
        await cluster.get(REF)
    async with await Cluster.connect(kubeconfig=path, anonymous=True) as visitors:
        await visitors.request("GET", "/version", headers={"Authorization": "Bearer good"})
    acting, plain = (request.headers for request in stand.seen)
    assert acting["Impersonate-User"], acting["Impersonate-Uid"] == ("jane", "7")
    assert acting.getall("Impersonate-Group") == ["dev", "ops"]
    assert acting["Impersonate-Extra-scope"] == "a"
    assert not [name for name in plain if name.startswith("Impersonate")]


async def test_groups_of_nobody_are_an_error(stand: Stand) -> None:
    with pytest.raises(UserError, match=r"as-groups.* need as"):
        await load(stand.config({"token": "good", "as-groups": ["ops"]}), None)


async def test_visitors_never_travel_with_our_credentials(stand: Stand) -> None:
    stand.token, stand.user = "", "first"
    stand.client("first")
    path = stand.config({"client-certificate": "client.crt", "client-key": "client.key"})
    async with await Cluster.connect(kubeconfig=path, anonymous=True) as visitors:
        with pytest.raises(Forbidden):
            await visitors.get(REF)


async def test_the_first_of_several_files_decides(stand: Stand) -> None:
    first = stand.config({"token": "good"})
    second = stand.folder / "second"
    content = json.loads(json.dumps(yaml.safe_load(first.read_text())))
    content["users"] = [{"name": "me", "user": {"token": "another"}}, {"name": "you", "user": {"token": "yours"}}]
    content["contexts"].append({"name": "there", "context": {"cluster": "it", "user": "you"}})
    content["current-context"] = "there"
    second.write_text(yaml.safe_dump(content))
    environ = {"KUBECONFIG": os.pathsep.join((str(stand.folder / "missing"), str(first), str(second)))}

    async def authorization(context: str | None) -> str:
        return await (await load(None, context, environ=environ)).credentials.authorization()

    assert await authorization(None) == "Bearer good"
    assert await authorization("there") == "Bearer yours"
