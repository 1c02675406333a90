"""The gateway against its own description, by generated requests."""

import asyncio

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.gateway_rig import GatewayRig

#: Generated requests for each operation.
EXAMPLES = 8
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


async def test_generated_requests_get_described_answers(rig: GatewayRig) -> None:
    await rig.event_job("orders", maxEvents=100_000)
    _, document, _ = await rig.ask("GET", "/openapi.json")
    document["servers"] = [{"url": rig.url}]
    # What is generated for a name hardly ever names anything.
    shared = document["paths"]["/events/{namespace}/{target}"]["parameters"]
    for parameter, name in zip(shared, ("team", "orders"), strict=True):
        parameter["schema"] = {"enum": [name]}
    document["paths"]["/events/{namespace}/{target}/{id}"]["parameters"][:2] = shared
    schema = schemathesis.openapi.from_dict(document)
    found = await asyncio.to_thread(_statuses, schema, rig.url)
    assert {202, 404, 204} <= found
    assert not {status for status in found if status >= 500}
    assert await rig.accepted("orders") != []


def _statuses(schema: schemathesis.BaseSchema, url: str) -> set[int]:
    """Sends generated requests and checks every answer. Returns the statuses."""
    found: set[int] = set()
    for operation in schema.get_all_operations():

        @given(case=operation.ok().as_strategy())
        @settings(
            max_examples=EXAMPLES,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            deadline=None,
            database=None,
        )
        def send(case: schemathesis.Case) -> None:
            response = case.call(base_url=url)
            found.add(response.status_code)
            case.validate_response(response, checks=CHECKS)

        send()
    return found
