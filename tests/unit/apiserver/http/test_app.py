"""The ASGI application: what is answered while something else takes long, and before a token is shown."""

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fakeredis
import pytest

from deploy.local.apiserver import app as app_module
from deploy.local.apiserver.access.access_control import AccessControl
from deploy.local.apiserver.app import ApiApp
from deploy.local.apiserver.codec import yaml_documents
from deploy.local.apiserver.context import utcnow
from deploy.local.apiserver.discovery.api_resources import ResourceRegistry
from deploy.local.apiserver.http.request import Response
from deploy.local.apiserver.storage.object_store import ObjectStore, ObjectStoreKeys
from tests.support.tables import for_each


@pytest.fixture
def app() -> ApiApp:
    """An application without objects."""
    access = AccessControl(ObjectStore(fakeredis.FakeAsyncRedis(), ObjectStoreKeys()), "secret")
    context: Any = SimpleNamespace(registry=ResourceRegistry(), access=access, now=utcnow)
    return ApiApp(context)


async def ask(app: ApiApp, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str]]:
    """The code and the headers of an answer."""
    sent: list[Any] = []
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": given}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@for_each(0, 1, app_module.PART, app_module.PART + 1, 2 * app_module.PART)
async def test_a_large_answer_is_sent_in_parts(size: int) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    body = bytes(size)
    await app_module._send(send, Response(200, body))
    head, *parts = sent
    assert (b"content-length", str(size).encode()) in head["headers"]
    assert b"".join(part["body"] for part in parts) == body
    assert all(len(part["body"]) <= app_module.PART for part in parts)
    assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [False]


@for_each("read", "write")
async def test_yaml_is_read_and_written_beside_the_event_loop(
    method: str, app: ApiApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, begun = threading.Event(), threading.Event()
    real: Callable[[bytes], Any] = getattr(yaml_documents, method)

    def slow(body: bytes) -> Any:
        begun.set()
        assert answered.wait(30), "no other request was answered meanwhile"
        return real(body)

    monkeypatch.setattr(yaml_documents, method, slow)
    if method == "write":
        monkeypatch.setattr(app, "_answer", lambda _request: asyncio.sleep(0, Response(200, b"{}", yaml=True)))
    headers = {"authorization": "Bearer secret", "content_type": "application/yaml"}
    large = asyncio.create_task(ask(app, "POST", "/", b"a: 1", **headers))
    while not begun.is_set():
        await asyncio.sleep(0)
    assert (await ask(ApiApp(app._ctx), "GET", "/livez"))[0] == 200
    answered.set()
    code, sent = await large
    assert (code, sent["content-type"]) == (200, "application/yaml" if method == "write" else "application/json")
