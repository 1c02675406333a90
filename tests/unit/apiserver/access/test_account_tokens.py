"""Tokens of service accounts: whose they are, for whom they are meant, and when they end."""

import base64

import orjson

from deploy.local.apiserver.access.account_tokens import API_AUDIENCE, AccountTokens
from tests.support.tables import cases

SECRET, NOW = "the token of the home", 1_800_000_000
UIDS = {("team", "builder"): "uid-1"}
FOREIGN = AccountTokens("another home's", lambda *_: "uid-1")
TOKENS = AccountTokens(SECRET, lambda namespace, name: UIDS.get((namespace, name)))


def issued(name: str = "builder", uid: str = "uid-1", audiences: tuple[str, ...] = (API_AUDIENCE, "penstock")) -> str:
    return TOKENS.issue("team", name, uid, audiences, NOW, NOW + 600)


def test_a_token_says_whose_it_is() -> None:
    found = TOKENS.read(issued(), ["penstock", "other"], NOW)
    assert found is not None
    assert found.audiences == ("penstock",)
    assert found.user.body() == {
        "username": "system:serviceaccount:team:builder",
        "uid": "uid-1",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"],
        "extra": found.user.body()["extra"],
    }


def changed(token: str, **claims: object) -> str:
    head, body, signature = token.split(".")
    read = orjson.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    encoded = base64.urlsafe_b64encode(orjson.dumps({**read, **claims})).rstrip(b"=").decode()
    return f"{head}.{encoded}.{signature}"


UNSIGNED = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")


@cases(
    ("before its time", issued(), NOW - 1),
    ("at its end", issued(), NOW + 600),
    ("of another account's uid", issued(uid="uid-2"), NOW),
    ("of an account that is not there", issued("reader"), NOW),
    ("for another audience", issued(audiences=("vault",)), NOW),
    ("of another home", FOREIGN.issue("team", "builder", "uid-1", ["penstock"], NOW, NOW + 9), NOW),
    ("with other claims", changed(issued(), sub="system:admin"), NOW),
    ("with a longer life", changed(issued(), exp=NOW * 2), NOW),
    ("without a signature", issued().rpartition(".")[0] + ".", NOW),
    ("unsigned", f"{UNSIGNED}.{issued().split('.')[1]}.", NOW),
    ("no token", "x", NOW),
    ("empty", "", NOW),
    ("two dots", "..", NOW),
    ("not ASCII", "ä.ö.ü", NOW),
    ("a surrogate", "\udce4.a.b", NOW),
    ("too long", issued() + "a" * 20_000, NOW),
)
def test_other_tokens_are_refused(token: str, now: int) -> None:
    assert TOKENS.read(token, ["penstock"], now) is None
