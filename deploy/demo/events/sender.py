"""A sender of webhooks as GitHub is one: signed requests, each repeated until it is answered."""

import asyncio
import hashlib
import hmac
import time
import uuid
from dataclasses import dataclass, field

import aiohttp
import orjson

#: Seconds between two attempts of one delivery, and attempts of one.
PAUSE, MOST = 0.2, 300


@dataclass(slots=True)
class SentWebhook:
    """One webhook. accepted: when it was (seconds since the epoch). tries: requests that were sent for it.

    answers: what the gateway said after it had been accepted, to the same webhook sent again.
    """

    number: int
    repository: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    accepted: float | None = None
    tries: int = 0
    answers: list[bool] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        """The body, of which the signature is made."""
        return orjson.dumps({"number": self.number, "repository": {"full_name": self.repository}})


class WebhookSender:
    """Sends webhooks to one URL. secret: of their signatures."""

    def __init__(self, session: aiohttp.ClientSession, url: str, secret: str) -> None:
        self._session = session
        self._url = url
        self._secret = secret.encode()

    async def send(self, webhook: SentWebhook) -> bool:
        """Sends it until it is accepted. Returns True if the gateway had it already. Raises TimeoutError."""
        for _ in range(MOST):
            webhook.tries += 1
            try:
                async with self._session.post(self._url, data=webhook.body, headers=self._headers(webhook)) as answer:
                    if answer.status == 202:
                        webhook.accepted = webhook.accepted or time.time()
                        return bool(orjson.loads(await answer.read())["duplicate"])
                    if answer.status not in (408, 429, 503):
                        raise ValueError(f"the gateway answers {answer.status}: {(await answer.text())[:300]}")
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(PAUSE)
        raise TimeoutError(f"webhook {webhook.number} was not accepted in {MOST} attempts")

    def _headers(self, webhook: SentWebhook) -> dict[str, str]:
        signature = hmac.new(self._secret, webhook.body, hashlib.sha256).hexdigest()
        return {
            "Content-Type": "application/json",
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": webhook.id,
            "X-Hub-Signature-256": f"sha256={signature}",
        }
