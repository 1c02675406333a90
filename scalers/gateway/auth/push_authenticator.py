"""Authentication of one push: the target's credentials in order, until one of them proves who sends the request."""

import hashlib
import hmac
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

from scalers.auth.lookups import Lookups
from scalers.gateway.auth import certificate_names, sender_events, signatures, token_reviews
from scalers.gateway.auth.pusher import Pusher, SignatureProof, Unauthenticated
from scalers.gateway.auth.replay_guard import ReplayGuard
from scalers.gateway.auth.signatures import SHORTEST, SecretUnusable, SignatureRefused
from scalers.gateway.auth.token_reviews import TokenReviews
from scalers.gateway.push_request import PushRequest, PushTarget
from scalers.ttl_cache import EVER
from workers.api.bearer_tokens import bearer_token
from workers.api.kinds import SECRET, Ref
from workers.api.penstock_dev.push_settings import Credential, SecretKeySelector, Signature
from workers.errors import ClusterError, Unavailable, UserError
from workers.newest_entries import remember

log = logging.getLogger(__name__)

#: Age in seconds of a Secret's entry from which a mismatch has it read again: a rotated token counts at once, and
#: wrong tokens cause one read in this time per Secret.
STALE = 5.0
#: Seconds for which the id of a delivery without a timestamp is remembered with its signature.
REMEMBERED = 3600
#: Seconds between two equal warnings, and most warnings that are remembered for that.
WARNING_SECONDS, MOST_WARNINGS = 60.0, 1_000

_ANYBODY = Pusher("anonymous")


@dataclass(slots=True)
class _Attempt:
    """The check of one request. refusals: a text per credential that did not prove anything, for the log.

    unknown: a proof could not be checked, because what it takes cannot be read now.
    """

    target: PushTarget
    request: PushRequest
    refusals: list[str] = field(default_factory=list)
    unknown: Unavailable | None = None


class PushAuthenticator:
    """Tells who pushes. lookups: read Secrets, as those of scalers do. reviews, replays: see their classes."""

    def __init__(self, lookups: Lookups, reviews: TokenReviews, replays: ReplayGuard) -> None:
        self._lookups = lookups
        self._reviews = reviews
        self._replays = replays
        self._warned: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def identify(self, target: PushTarget | None, request: PushRequest) -> Pusher:
        """Returns the sender of the request. target: None if the path names none; it is refused like a wrong token.

        Raises Unauthenticated; workers.errors.Unavailable if the API server is needed and away: a request that could
        not be checked is never let through; redis.exceptions.RedisError if the broker is away.
        """
        if target is None:
            # As much work as one wrong token of a target whose Secret is in the cache.
            _same_token(bearer_token(request.headers), "-" * SHORTEST)
            raise Unauthenticated("there is no such target")
        if target.settings.anonymous:
            return _ANYBODY
        attempt = _Attempt(target, request)
        for index, credential in enumerate(target.settings.auth):
            where = f"push.auth[{index}]"
            try:
                pusher = await self._prove(attempt, credential)
            except SignatureRefused as error:
                attempt.refusals.append(f"{where}: {error}")
            except UserError as error:
                attempt.refusals.append(f"{where}: {error}")
                self._warn(target, f"spec.{where}: {error}")
            except ClusterError as error:
                # A refusal, too: the gateway's account lacks a right, and the sender may try again once it has it.
                attempt.unknown = Unavailable(f"{where}: {error}", retry_after=error.retry_after)
                self._warn(target, f"spec.{where} cannot be checked: {error}")
            else:
                if pusher is not None:
                    return pusher
                attempt.refusals.append(f"{where}: does not match")
        if attempt.unknown is not None:
            raise attempt.unknown
        raise Unauthenticated("; ".join(attempt.refusals) or "push has neither auth nor anonymous")

    async def _prove(self, attempt: _Attempt, credential: Credential) -> Pusher | None:
        """Returns the pusher that this credential proves; None if it proves none."""
        target, request = attempt.target, attempt.request
        if credential.bearer is not None:
            return await self._bearer(target, bearer_token(request.headers), credential.bearer)
        if credential.signature is not None:
            return await self._signature(target, request, credential.signature)
        if account := credential.service_account:
            user = token_reviews.account_user(account.namespace or target.namespace, account.name)
            seconds = request.received.timestamp()
            proved = await self._reviews.is_of(bearer_token(request.headers), user, account.audience, seconds)
            return Pusher("serviceAccount", user) if proved else None
        assert credential.client_certificate is not None  # The model has exactly one field.
        names = certificate_names.names_of(request.certificate) if request.certificate else None
        if names is None or not names.matches(credential.client_certificate, request.received):
            return None
        wanted = credential.client_certificate
        return Pusher("clientCertificate", wanted.common_name or wanted.dns_name or wanted.uri or "")

    async def _bearer(self, target: PushTarget, given: str, place: SecretKeySelector) -> Pusher | None:
        if not given:
            return None
        short = False
        async for text in self._texts(target, place):
            short = len(text.encode()) < SHORTEST
            if not short and _same_token(given, text):
                return Pusher("bearer", f"{place.name}/{place.key}")
        if short:
            raise UserError(f"{_where(target, place)} has fewer than {SHORTEST} bytes: a token is longer")
        return None

    async def _signature(self, target: PushTarget, request: PushRequest, wanted: Signature) -> Pusher:
        refused: SignatureRefused | UserError = SignatureRefused("there is no secret")
        async for secret in self._texts(target, wanted.secret):
            try:
                made = signatures.verify(
                    wanted.scheme,
                    secret,
                    request.headers,
                    request.body,
                    now=request.received,
                    tolerance=wanted.tolerance_seconds,
                )
            except SecretUnusable as error:
                refused = UserError(f"{_where(target, wanted.secret)} {error}")
                continue
            except SignatureRefused as error:
                refused = error
                continue
            return await self._signed(target, request, wanted, made)
        raise refused

    async def _signed(self, target: PushTarget, request: PushRequest, wanted: Signature, made: bytes) -> Pusher:
        """Returns the pusher of a signed request; a repetition has the delivery that its signature first came with."""
        scheme, name = wanted.scheme, f"{wanted.scheme} {wanted.secret.name}/{wanted.secret.key}"
        if text := sender_events.challenge(scheme, request.body):
            return Pusher("signature", name, challenge=text)
        delivery = sender_events.event_of_delivery(scheme, request.headers, request.body, made)
        # A timestamp may lie ahead of our clock by the tolerance, too.
        seconds = REMEMBERED if scheme == "github" else 2 * wanted.tolerance_seconds
        proof = SignatureProof(sender_events.digest(made), seconds)
        delivery = await self._replays.first_delivery(target.uid, proof.digest, delivery, seconds)
        return Pusher("signature", name, delivery, proof)

    async def _texts(self, target: PushTarget, place: SecretKeySelector) -> AsyncIterator[str]:
        """Yields the entry as it is in the cache; then, if a caller goes on, as it is now, if that differs.

        Raises UserError for an entry that does not exist now.
        """
        known = None
        with suppress(UserError):
            known = await self._text(target, place, EVER)
        if known is not None:
            yield known
        fresh = await self._text(target, place, self._lookups.now() - STALE)
        if fresh != known:
            yield fresh

    async def _text(self, target: PushTarget, place: SecretKeySelector, since: float) -> str:
        ref = Ref(SECRET, target.namespace, place.name)
        entries = await self._lookups.view(since).entries(ref)
        if entries is None:
            raise UserError(f"{ref} does not exist")
        if place.key not in entries:
            raise UserError(f"{ref} has no key {place.key}")
        # A file's last line ends in a line end, which no header can hold.
        return entries[place.key].rstrip("\r\n")

    def _warn(self, target: PushTarget, text: str) -> None:
        """Logs a problem of the configuration, not more than once in a while: any client can cause it."""
        now = self._lookups.now()
        last = self._warned.get((target.uid, text))
        if last is None or now - last > WARNING_SECONDS:
            remember(self._warned, (target.uid, text), now, MOST_WARNINGS)
            log.warning("pushes cannot be authenticated", extra={"object": str(target.ref), "reason": text})


def _same_token(given: str, expected: str) -> bool:
    # Digests have one length: the comparison tells nothing of the token's.
    digests = [hashlib.sha256(text.encode(errors="surrogateescape")).digest() for text in (given, expected)]
    return hmac.compare_digest(*digests)


def _where(target: PushTarget, place: SecretKeySelector) -> str:
    return f"{Ref(SECRET, target.namespace, place.name)}: {place.key}"
