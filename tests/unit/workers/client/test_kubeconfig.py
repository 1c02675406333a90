"""The way to an API server that kubeconfig files describe."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.tables import cases
from workers.client.kubeconfig import load
from workers.errors import UserError

CLUSTER = {"name": "a", "cluster": {"server": "http://127.0.0.1:1/"}}
CONTEXT = {"name": "a", "context": {"cluster": "a", "user": "a"}}


def written(path: Path, **changed: Any) -> Path:
    content = {"current-context": "a", "clusters": [CLUSTER], "contexts": [CONTEXT], "users": [], **changed}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def user(**fields: object) -> list[object]:
    return [{"name": "a", "user": fields}]


@cases(
    ("a token", {"token": "t"}, "Bearer t"),
    ("a password, by the official client", {"username": "me", "password": "p"}, "Basic bWU6cA=="),
    ("neither", {}, ""),
)
async def test_a_user_proves_itself(fields: dict[str, object], expected: str, tmp_path: Path) -> None:
    access = await load(written(tmp_path / "k", users=user(**fields)), None)
    assert (access.host, await access.credentials.authorization()) == ("http://127.0.0.1:1", expected)


async def test_of_equal_names_the_first_counts_and_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    first = written(tmp_path / "1" / "k", users=user(tokenFile="token"), **{"current-context": ""})
    second = written(
        tmp_path / "2" / "k",
        clusters=[{"name": "a", "cluster": {"server": "http://127.0.0.1:2"}}],
        users=user(token="of the second"),
    )
    for number in ("1", "2"):
        (tmp_path / number / "token").write_text(f"of {number}")
    (tmp_path / "empty").write_text("# nothing yet\n")
    access = await load(None, None, environ={"KUBECONFIG": f"{tmp_path}/none:{tmp_path}/empty:{first}:{second}"})
    assert access.host == "http://127.0.0.1:1"
    assert await access.credentials.authorization() == "Bearer of 1"


@cases(
    ("context", {"current-context": "b"}, "no.* called b in contexts"),
    ("cluster", {"clusters": []}, "no.* called a in clusters"),
    ("user", {}, "no.* called a in users"),
    ("no context", {"current-context": None}, "no context is named"),
    ("a context without a cluster", {"contexts": [{"name": "a", "context": {}}]}, "context a names no cluster"),
    (
        "an address without a scheme",
        {"clusters": [{"name": "a", "cluster": {"server": "10.0.0.1:6443"}}], "users": user()},
        "cluster a: server: 10.0.0.1:6443 does not begin with https:// or http://",
    ),
    ("a cluster without a server", {"clusters": [{"name": "a"}], "users": user()}, "cluster a has no server"),
)
async def test_what_a_file_lacks_is_named(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "k", **changed)
    with pytest.raises(UserError, match=f"kubeconfig {path}: .*{message}"):
        await load(path, None)


@cases(("a list", "[]", "is no mapping"), ("nothing", "", "no context is named"), ("no YAML", "{", "expected"))
async def test_a_file_that_is_no_kubeconfig_is_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "k").write_text(content)
    with pytest.raises(UserError, match=message):
        await load(tmp_path / "k", None)


async def test_a_provider_that_fails_is_an_error_of_the_kubeconfig(tmp_path: Path) -> None:
    expired = base64.urlsafe_b64encode(b'{"exp": 1}').decode().rstrip("=")
    provider = {"name": "oidc", "config": {"id-token": f"a.{expired}.b"}}
    with pytest.raises(UserError, match=r"kubeconfig .*/k: "):
        await load(written(tmp_path / "k", users=user(**{"auth-provider": provider})), None)
