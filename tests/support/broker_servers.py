"""Brokers as people run them: with TLS, behind sentinels, as a cluster, with an access list."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from types import MappingProxyType

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.conditions import eventually
from tests.support.valkeys import LONG, Server, server


@dataclass(frozen=True)
class Certificates:
    """Files of an authority, of a server's certificate for 127.0.0.1 and ``broker.example``, and of a client's."""

    ca: Path
    cert: Path
    key: Path


def certificates(folder: Path) -> Certificates:
    """Certificates of an authority of their own, good for a day, for server and clients."""
    folder.mkdir(parents=True, exist_ok=True)
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker.example")])
    now = datetime.now(UTC)

    def signed(name: x509.Name, public: ec.EllipticCurvePublicKey, extension: x509.ExtensionType) -> x509.Certificate:
        made = x509.CertificateBuilder(issuer, name, public, x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
        return made.add_extension(extension, critical=False).sign(ca_key, hashes.SHA256())

    names = x509.SubjectAlternativeName([x509.DNSName("broker.example")])
    files = Certificates(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
    authority = signed(issuer, ca_key.public_key(), x509.BasicConstraints(ca=True, path_length=None))
    files.ca.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.cert.write_bytes(signed(subject, key.public_key(), names).public_bytes(serialization.Encoding.PEM))
    pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files.key.write_bytes(key.private_bytes(pem, pkcs8, plain))
    return files


def options(files: Certificates, **more: str) -> str:
    """The options of a URL whose client shows its certificate and trusts the authority."""
    named = {"ssl_ca_certs": files.ca, "ssl_certfile": files.cert, "ssl_keyfile": files.key, **more}
    return "?" + "&".join(f"{name}={value}" for name, value in named.items())


@contextmanager
def tls_front(files: Certificates, server_port: int, named: Mapping[int, int] | None = None) -> Iterator[int]:
    """TLS before a server, which asks clients for a certificate; its port. The bundled server speaks none itself.

    named: ports that the server's answers name, and those that clients are told, of as many digits.
    """
    told = {str(port).encode(): str(front).encode() for port, front in (named or {}).items()}
    assert all(len(port) == len(front) for port, front in told.items())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files.ca))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(files.cert, files.key)
    started: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def copy(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, names: Mapping[bytes, bytes] = MappingProxyType({})
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                for port, front in names.items():
                    data = data.replace(port, front)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server_port)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer, told))

    async def serve() -> None:
        ended = asyncio.Event()
        front = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
        started.set_result((front.sockets[0].getsockname()[1], asyncio.get_running_loop(), ended))
        await ended.wait()
        front.close()

    # In a thread with a loop of its own, which cancels at its end what is under way.
    thread = Thread(target=lambda: asyncio.run(serve()), name="tls", daemon=True)
    thread.start()
    port, loop, ended = started.result(10)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


@dataclass
class Trio:
    """A master with a replica, and three sentinels."""

    master: Server
    replica: Server
    sentinels: list[Server]

    @property
    def url(self) -> str:
        """The broker's URL."""
        places = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        return f"sentinel://:hunter2@{places}/0?master=mymaster&sentinel_password=swordfish"


@asynccontextmanager
async def trio(folder: Path) -> AsyncIterator[Trio]:
    """Sentinels that replace the master half a second after it is gone."""
    async with AsyncExitStack() as stack:
        durable = ("--notify-keyspace-events", "KEA", "--repl-diskless-sync-delay", "0")
        master = await stack.enter_async_context(server(folder / "master", *durable, password="hunter2"))
        replica = await stack.enter_async_context(
            server(folder / "replica", *durable, "--replicaof", "127.0.0.1", str(master.port), password="hunter2")
        )
        sentinels = []
        for number in range(3):
            config = folder / f"sentinel{number}.conf"
            config.write_text(
                f"sentinel monitor mymaster 127.0.0.1 {master.port} 2\n"
                "sentinel auth-pass mymaster hunter2\n"
                "sentinel down-after-milliseconds mymaster 500\n"
                "sentinel failover-timeout mymaster 4000\n"
                "sentinel sentinel-pass swordfish\n"
                "requirepass swordfish\n"
            )
            each = server(folder / f"sentinel{number}", str(config), "--sentinel", login="swordfish")
            sentinels.append(await stack.enter_async_context(each))

        async def agreed() -> bool:
            for each in sentinels:
                [state] = (await each.client.sentinel_masters()).values()
                if state["num-slaves"] != 1 or state["num-other-sentinels"] != 2:
                    return False
            return (await replica.client.info("replication"))["master_link_status"] == "up"

        await eventually(agreed, LONG)
        yield Trio(master, replica, sentinels)
