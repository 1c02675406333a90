"""Bytes in place of requests to the embedded API server: no answer is an error of the server."""

import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.apiserver.client import JSON_PATCH, MERGE, STRATEGIC, config_map, job, pod
from tests.support.embedded import Embedded, embedded_apiserver
from tests.unit.apiserver.odd import ODD, mutated, places

FEW = settings(max_examples=(settings.default.max_examples if settings.default else 100) // 2)
#: Seconds for an answer: a server may wait for the rest of a body that does not come.
PATIENCE = 5.0
MAPS, JOBS, PODS = "/api/v1/namespaces/default/configmaps", "/apis/batch/v1/namespaces/default/jobs", "/api/v1/pods"
PATHS = st.sampled_from(
    (
        *(
            "/",
            "/api",
            "/apis",
            "/openapi/v2",
            "/openapi/v3",
            "/version",
            MAPS,
            f"{MAPS}/one",
            JOBS,
            f"{JOBS}/one",
            PODS,
        ),
        *(
            f"{JOBS}/one/status",
            f"{MAPS}/one/status",
            "//",
            "/api/v1/namespaces/%00/pods",
            "/apis/%ff",
            "/api/v1/../x",
            "*",
        ),
        *(
            f"{MAPS}?limit=1&continue=eyJ9",
            f"{MAPS}?watch=1&timeoutSeconds=0",
            f"{MAPS}?labelSelector=%ff",
            f"{MAPS}?%",
        ),
        *(f"{MAPS}?timeoutSeconds=-1", f"{MAPS}?resourceVersion=%2B1", f"{MAPS}?limit=9999999999999999999999"),
    )
)
TYPES = st.sampled_from(
    (
        *("application/json", MERGE, STRATEGIC, JSON_PATCH, "application/apply-patch+yaml", "application/yaml"),
        *("application/vnd.kubernetes.protobuf", "text/plain", "application/json; charset=\xff", ";", ""),
    )
)
DOCUMENTS = st.sampled_from((config_map(), job(), pod()))
JSON = DOCUMENTS.flatmap(
    lambda body: st.lists(st.tuples(st.sampled_from(list(places(body))), st.sampled_from(ODD)), max_size=2).map(
        lambda changes: json.dumps(mutated(body, changes)).encode()
    )
)
YAML = st.sampled_from(
    (
        *(
            b"a: &a [*a]",
            b"a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]",
            b"---\n---\n",
            b"!!python/object:os.system {}",
            b"\t: x",
        ),
        *(b"? [a, b]\n: c", b"a: 0x" + b"f" * 300, b"a: 2026-01-01", b"<<: 1", b"%YAML 9\n---\na", b"a: !!binary x"),
    )
)
PATCHES = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(("add", "remove", "copy", "move", "test", "x")),
            "path": st.sampled_from(("", "/", "/a/-1", "/~2")),
        },
        optional={"from": st.sampled_from(("/metadata", "", "x")), "value": st.sampled_from(ODD)},
    ),
    max_size=3,
).map(lambda steps: json.dumps(steps).encode())
DEEP = st.sampled_from((b"[", b'{"a":')).map(lambda piece: piece * 20_000)
BODIES = (
    JSON | YAML | PATCHES | DEEP | st.binary(max_size=200) | st.binary(max_size=60).map(lambda rest: b"k8s\x00" + rest)
)
HEADERS = st.sampled_from(
    (
        *(b"", b"X: " + b"x" * 20_000, b"X" * 70_000 + b": 1", b": empty", b"No-Colon", b"X: \x00", b"X: \xff"),
        *(b"Transfer-Encoding: chunked", b"Content-Length: -1", b"Content-Length: 5\r\nContent-Length: 6"),
        *(
            b"Expect: 100-continue",
            b"Connection: Upgrade\r\nUpgrade: SPDY/3.1",
            b"Impersonate-User: \xff",
            b"Accept: ;;,",
        ),
        *(b"Accept: application/json;as=Table;v=v9;g=x", b"Content-Encoding: gzip", b"\r\n".join([b"A: b"] * 2000)),
    )
)
METHODS = st.sampled_from((b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"X", b"get", b"\xff"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded_apiserver(tmp_path_factory.mktemp("fuzzed")) as running:
        yield running


class Line:
    """Sends raw bytes to the server, each time over a connection of its own."""

    def __init__(self, server: Embedded) -> None:
        self._context = ssl.create_default_context(cadata=server.authority)
        self._address = urlsplit(server.url)
        self.token = server.token

    def send(self, data: bytes) -> bytes:
        """Returns the beginning of the answer, empty if the connection was cut or nothing came."""
        address = str(self._address.hostname), int(self._address.port or 0)
        with (
            socket.create_connection(address, timeout=PATIENCE) as plain,
            self._context.wrap_socket(plain, server_hostname=address[0]) as line,
        ):
            try:
                line.sendall(data)
                return line.recv(200)
            except (ConnectionError, ssl.SSLError, TimeoutError):
                return b""


def request(method: bytes, path: str, header: bytes, type_: str, body: bytes, token: str) -> bytes:
    known = [
        f"Authorization: Bearer {token}".encode(),
        b"Content-Type: " + type_.encode("latin-1"),
        b"Connection: close",
    ]
    # One that says its own length of the body may be waited for.
    if b"ontent-Length" not in header and b"chunked" not in header:
        known.append(b"Content-Length: %d" % len(body))
    head = [method + b" " + path.encode() + b" HTTP/1.1", b"Host: x", *known, *([header] if header else [])]
    return b"\r\n".join(head) + b"\r\n\r\n" + body + b"0\r\n\r\n"


def test_no_bytes_make_an_error_of_the_server(server: Embedded) -> None:
    line, kubeconfig = Line(server), Path(server.kubeconfig)

    @FEW
    @given(METHODS, PATHS, HEADERS, TYPES, BODIES)
    def answered(method: bytes, path: str, header: bytes, type_: str, body: bytes) -> None:
        answer = line.send(request(method, path, header, type_, body, line.token))
        status = answer.partition(b" ")[2][:3]
        assert not answer or (status.isdigit() and status < b"500") or status == b"501", (
            answer,
            method,
            path,
            header,
            body,
        )

    answered()
    assert kubeconfig.exists()
    alive = line.send(request(b"GET", "/readyz", b"", "", b"", line.token))
    assert b" 200 " in alive, alive
    assert "Traceback" not in server.output, server.output[-3000:]


@FEW
@given(garbage=st.binary(min_size=1, max_size=300))
def test_what_is_no_request_is_refused(server: Embedded, garbage: bytes) -> None:
    answer = Line(server).send(garbage + b"\r\n\r\n")
    assert not answer or b" 4" in answer[:13] or b" 2" in answer[:13], answer
    assert "Traceback" not in server.output
