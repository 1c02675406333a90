"""The webhook as an ASGI application."""

import logging
from collections.abc import Awaitable, Callable

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from deploy.webhook import registration, review_lookups, reviews
from deploy.webhook.reviews import NotAReview, Review
from workers.admission.admission_options import AdmissionOptions
from workers.admission.lookup import Known
from workers.api.kinds import Object
from workers.client.rest import Cluster
from workers.errors import ClusterError

log = logging.getLogger(__name__)

#: Largest request body, bytes: two versions of the largest object that an API server stores, with a margin.
LIMIT = 16 * 1024 * 1024

Answer = Callable[[Review], Awaitable[Object]]


def app(cluster: Cluster, options: AdmissionOptions) -> Starlette:
    """Returns the application that answers AdmissionReviews, with objects that rules need read from the cluster."""

    async def mutate(review: Review) -> Object:
        lookup = await review_lookups.known(cluster, review.mutating_needs)
        return review.mutation(lookup, options)

    async def validate(review: Review) -> Object:
        lookup: Known = await review_lookups.known(cluster, review.validating_needs)
        findings, unknown = await review_lookups.templates(cluster, review.namespace, review.templates)
        return review.validation(lookup, options, findings, unknown)

    return Starlette(
        routes=[
            Route(registration.MUTATE, _endpoint(mutate), methods=["POST"]),
            Route(registration.VALIDATE, _endpoint(validate), methods=["POST"]),
            Route("/healthz", _healthy),
        ]
    )


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok")


def _endpoint(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            review = reviews.read(orjson.loads(await _body(request)))
            return Response(orjson.dumps(await answer(review)), media_type="application/json")
        except (NotAReview, orjson.JSONDecodeError) as error:
            return PlainTextResponse(str(error), status_code=400)
        except ClusterError as error:
            # An error instead of a verdict, so that the API server applies its failurePolicy.
            log.warning("could not read the cluster", extra={"error": str(error)})
            return PlainTextResponse(str(error), status_code=500)

    return endpoint


async def _body(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > LIMIT:
            raise NotAReview(f"more than {LIMIT} bytes")
        parts.append(part)
    return b"".join(parts)
