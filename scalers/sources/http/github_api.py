"""A client of GitHub's REST API: pages, conditional requests, the rate limit, an app's tokens."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from penstock.extras import needed
from penstock.scaler import SourceError
from scalers.sources.http.oauth import NEW
from scalers.sources.http.web import HttpAnswer, Session, WebSource
from workers.newest_entries import remember

#: The extra that brings the library for an app's signature.
EXTRA = "github"

_HEADERS = {"Accept": "application/vnd.github.v3+json", "X-GitHub-Api-Version": "2022-11-28"}

#: Answers and counts that are cached per account, and pages that one list may have.
_KEPT, _PAGES = 5000, 50

_OURS = "one of GitHub"

#: Seconds before its end at which an installation's token is replaced.
_EARLY = 60


class Limited(SourceError):  # noqa: N818 - what happened
    """The rate limit is exhausted."""


@dataclass(frozen=True, slots=True)
class GitHubApp:
    """An installation of a GitHub app. key: its private key, PEM; in no repr."""

    id: int
    installation: int
    key: str = field(repr=False)

    def assertion(self, now: float) -> str:
        """Returns the JWT that gets a token: valid for nine minutes, and since a minute ago, for clocks differ.

        now: seconds since the epoch. Raises MissingLibrary, and ValueError for a key that cannot sign.
        """
        jwt = needed("jwt", EXTRA)
        needed("cryptography", EXTRA)
        claims = {"iat": int(now) - 60, "exp": int(now) + 540, "iss": str(self.id)}
        try:
            return str(jwt.encode(claims, self.key, algorithm="RS256"))
        except (jwt.PyJWTError, ValueError, TypeError):
            raise ValueError("is not a private RSA key in PEM form") from None


@dataclass(frozen=True, slots=True)
class Account:
    """A user with a token, or an app."""

    token: str = field(default="", repr=False)
    app: GitHubApp | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. more: there is a next one. etag: identifies its version."""

    content: Any
    more: bool
    etag: str


@dataclass
class ResponseCache:
    """The cached answers of one account.

    pages: by request. counts: the last ones, by question. barred: instant (seconds since the epoch) until which the
    rate limit is exhausted. token, issued, expires: an app's token, and the instants at which it was issued and is
    replaced.
    """

    pages: OrderedDict[str, Page] = field(default_factory=OrderedDict)
    counts: OrderedDict[Hashable, float] = field(default_factory=OrderedDict)
    barred: float = 0.0
    token: str = ""
    issued: float = 0.0
    expires: float = 0.0
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def keep_page(self, key: str, page: Page) -> None:
        """Caches a page that has an etag."""
        if page.etag:
            remember(self.pages, key, page, _KEPT)

    def keep_count(self, question: Hashable, count: float) -> None:
        """Caches a count, for when the rate limit is exhausted."""
        remember(self.counts, question, count, _KEPT)

    def refused(self, token: str) -> None:
        """Forgets an app's token that the server refuses: it may have been revoked before its end."""
        if token == self.token and time.time() - self.issued >= NEW:
            self.expires = 0.0


class GitHub:
    """The client of one trigger. etags: makes conditional requests, which are free of the rate limit."""

    def __init__(self, source: WebSource, session: Session, account: Account, *, etags: bool) -> None:
        self._source = source
        self._session = session
        self._account = account
        self._etags = etags
        self.memory: ResponseCache = session.memories.setdefault(account, ResponseCache())

    async def all(self, path: str, inside: str = "", **query: str) -> list[Any] | None:
        """Returns every entry of a list, page after page; None if it does not exist. inside: the list's field.

        Raises Limited, or SourceError for any other refusal.
        """
        found: list[Any] = []
        for number in range(1, _PAGES + 1):
            page = await self._page(path, {**query, "per_page": "100", "page": str(number)})
            if page is None:
                return None
            entries = page.content.get(inside) if inside and isinstance(page.content, dict) else page.content
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                raise SourceError(f"{self._source.server}: the answer is not {_OURS}")
            found += entries
            if not page.more:
                return found
        raise SourceError(f"{self._source.server}: {path} has more than {_PAGES} pages")

    async def _page(self, path: str, query: Mapping[str, str]) -> Page | None:
        memory = self.memory
        if memory.barred > time.time():
            raise self._limited()
        key = f"{path}?{query}"
        known = memory.pages.get(key) if self._etags else None
        token = await self._token()
        headers = {**_HEADERS, "Authorization": f"Bearer {token}"}
        answer = await self._source.request(
            self._session, path, query, headers={**headers, "If-None-Match": known.etag} if known else headers
        )
        if answer.status == 401:
            memory.refused(token)
        if answer.status == 304 and known:
            return known
        if answer.status == 404:
            return None
        self._check(answer)
        with self._source.understanding(_OURS):
            content: Any = orjson.loads(answer.body)
        page = Page(content, 'rel="next"' in answer.headers.get("Link", ""), answer.headers.get("ETag", ""))
        if self._etags:
            memory.keep_page(key, page)
        return page

    async def _token(self) -> str:
        """Returns the account's token; an app gets a new one for its installation when the last one expires."""
        app, memory = self._account.app, self.memory
        if app is None:
            return self._account.token
        async with memory.asking:
            if memory.expires <= time.time():
                path = f"/app/installations/{app.installation}/access_tokens"
                headers = {**_HEADERS, "Authorization": f"Bearer {app.assertion(time.time())}"}
                answer = await self._source.request(self._session, path, method="POST", headers=headers)
                self._check(answer)
                with self._source.understanding(_OURS):
                    content: Any = orjson.loads(answer.body)
                    ends = datetime.fromisoformat(content["expires_at"]).timestamp()
                    memory.token, memory.issued, memory.expires = str(content["token"]), time.time(), ends - _EARLY
            return memory.token

    def _check(self, answer: HttpAnswer) -> None:
        """Raises Limited or SourceError for a refusal, and remembers the end of a rate limit."""
        if 200 <= answer.status < 300:
            return
        now, headers = time.time(), answer.headers
        if headers.get("X-RateLimit-Remaining") == "0":
            self.memory.barred = max(self.memory.barred, _number(headers.get("X-RateLimit-Reset", "")))
        if answer.status in (403, 429):
            self.memory.barred = max(self.memory.barred, now + _number(headers.get("Retry-After", "")))
        if self.memory.barred > now:
            raise self._limited()
        raise SourceError(f"{self._source.server} answered {answer.status}")

    def _limited(self) -> Limited:
        return Limited(f"{self._source.server}: the rate limit is exhausted, and nothing was counted before")


def _number(text: str) -> float:
    return float(text) if text.isdigit() else 0.0
