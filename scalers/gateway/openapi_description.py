"""The description of the gateway's paths (OpenAPI 3.1), served at `/openapi.json`."""

from typing import Any

import orjson

from penstock import __version__
from scalers.gateway.problem import MEDIA_TYPE

_NAME = {"type": "string", "pattern": "^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$"}


def _parameter(place: str, name: str, description: str, **schema: Any) -> dict[str, Any]:
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, "description": description, **required, "schema": schema or {"type": "string"}}


_TARGET = [
    _parameter("path", "namespace", "The target's namespace.", **_NAME),
    _parameter("path", "target", "The name of an EventJob, or of a ScaledJob with a trigger of type push.", **_NAME),
]
_HEADERS = [
    _parameter("header", "Idempotency-Key", "The id of an event that is made of a body which is none."),
    *(_parameter("header", f"ce-{name}", "An attribute of an event in binary mode.")
      for name in ("specversion", "id", "source", "type", "subject", "time", "dataschema")),
]  # fmt: skip


def _problems(*codes: int) -> dict[str, Any]:
    texts = {
        400: "The request is no event; the detail names the attribute or header.",
        401: "There is no such target, or it does not take these credentials.",
        404: "The event is not known, or not any more.",
        405: "The path does not take this method.",
        408: "The request did not arrive in time.",
        413: "An event or the request is too large.",
        415: "The content type is not supported.",
        429: "As many events as may be are not done; Retry-After says when to come back.",
        503: "The broker, its disk or the API server did not answer in time, or too much is in flight.",
    }
    schema = {"$ref": "#/components/schemas/Problem"}
    later = {"Retry-After": {"schema": {"type": "string"}, "description": "Seconds."}}
    return {
        str(code): {
            "description": texts[code],
            "content": {MEDIA_TYPE: {"schema": schema}},
            **({"headers": later} if code in (429, 503) else {}),
        }
        for code in codes
    }


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


_EVENT = {
    "type": "object",
    "description": "A CloudEvent in JSON format.",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "minLength": 1, "format": "uri-reference"},
        "type": {"type": "string", "minLength": 1},
        "time": {"type": "string", "format": "date-time"},
        "subject": {"type": "string", "minLength": 1},
        "datacontenttype": {"type": "string"},
        "dataschema": {"type": "string", "format": "uri"},
        "data": {},
        "data_base64": {"type": "string"},
    },
    "patternProperties": {"^[a-z0-9]+$": {}},
    "additionalProperties": False,
}
_ACCEPTED = {
    "type": "object",
    "required": ["id", "source", "duplicate", "entry"],
    "properties": {
        "id": {"type": "string"},
        "source": {"type": "string"},
        "duplicate": {"type": "boolean", "description": "An event of the same source and id was accepted before."},
        "entry": {"type": ["string", "null"], "description": "Its entry in the channel; null for a duplicate."},
    },
}
_STATE = {
    "type": "object",
    "required": ["id", "source", "accepted", "deliveries"],
    "properties": {
        "id": {"type": "string"},
        "source": {"type": "string"},
        "accepted": {"type": ["string", "null"], "description": "When; null once it is not remembered any more."},
        "deliveries": {"type": "array", "items": {"$ref": "#/components/schemas/Delivery"}},
    },
}
_DELIVERY = {
    "type": "object",
    "required": ["eventJob", "state", "arrived", "due", "job", "attempts", "reason", "replays"],
    "properties": {
        "eventJob": {"type": "string"},
        "source": {"type": ["string", "null"]},
        "state": {"enum": ["waiting", "delayed", "running", "retrying", "done", "parked", "dropped"]},
        "arrived": {"type": "string"},
        "due": {"type": ["string", "null"]},
        "job": {"type": ["string", "null"], "description": "The running attempt's Job."},
        "attempts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["job", "ended", "outcome", "reason"],
                "properties": {
                    "job": {"type": "string"},
                    "ended": {"type": "string"},
                    "outcome": {"enum": ["done", "failed", "returned"]},
                    "reason": {"type": ["string", "null"]},
                },
            },
        },
        "reason": {"type": ["string", "null"]},
        "replays": {"type": "integer"},
    },
}
_PROBLEM = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "index": {"type": "integer", "description": "The place of the event in its batch."},
    },
}


def _push() -> dict[str, Any]:
    return {
        "operationId": "push",
        "summary": "Pushes an event, or a batch that is taken as a whole or not at all.",
        "parameters": _HEADERS,
        "requestBody": {
            "content": {
                "application/cloudevents+json": {"schema": {"$ref": "#/components/schemas/Event"}},
                "application/cloudevents-batch+json": {
                    "schema": {"type": "array", "maxItems": 1000, "items": {"$ref": "#/components/schemas/Event"}}
                },
                "application/json": {"schema": {}},
                "application/x-www-form-urlencoded": {
                    "schema": {"type": "object", "additionalProperties": {"type": "string"}}
                },
                "text/plain": {"schema": {"type": "string"}},
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            }
        },
        "responses": {
            "200": {
                "description": "The answer to Slack's url_verification: its challenge.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
            "202": {
                "description": "The broker has the events, as durably as the target says.",
                "headers": {"Location": {"schema": {"type": "string"}, "description": "The state of the one event."}},
                "content": {
                    "application/json": {
                        "schema": {
                            "anyOf": [
                                {"$ref": "#/components/schemas/Accepted"},
                                {"type": "array", "items": {"$ref": "#/components/schemas/Accepted"}},
                            ]
                        }
                    }
                },
            },
            **_problems(400, 401, 405, 408, 413, 415, 429, 503),
        },
    }


def _handshake() -> dict[str, Any]:
    return {
        "operationId": "handshake",
        "summary": "The handshake of CloudEvents' HTTP 1.1 Web Hooks.",
        "parameters": [
            _parameter("header", "WebHook-Request-Origin", "The origin that asks whether it may deliver."),
            _parameter("header", "WebHook-Request-Rate", "Deliveries per minute that it asks for."),
        ],
        "responses": {
            "204": {
                "description": "WebHook-Allowed-Origin is there if the origin may deliver.",
                "headers": {
                    "WebHook-Allowed-Origin": {"schema": {"type": "string"}},
                    "WebHook-Allowed-Rate": {"schema": {"type": "string"}},
                },
            },
            **_problems(405, 503),
        },
    }


def _event_state() -> dict[str, Any]:
    return {
        "operationId": "event",
        "summary": "The state of one event, for those who may push to the target.",
        "responses": {
            "200": {"description": "What is known of the event.", "content": _json("EventState")},
            **_problems(400, 401, 404, 405, 408, 413, 503),
        },
    }


def _document() -> dict[str, Any]:
    bearer = {"type": "http", "scheme": "bearer", "description": "A token of the target's `push.auth`."}
    schemas = {
        "Event": _EVENT,
        "Accepted": _ACCEPTED,
        "EventState": _STATE,
        "Delivery": _DELIVERY,
        "Problem": _PROBLEM,
    }
    about = {"title": "Penstock: events over HTTP", "version": __version__}
    id_ = _parameter("path", "id", "The event's id.", type="string", minLength=1)
    source = _parameter("query", "source", "The event's source; default that of events made of plain bodies.")
    return {
        "openapi": "3.1.0",
        "info": {**about, "description": "Pushes CloudEvents to EventJobs and ScaledJobs."},
        "security": [{}, {"bearer": []}],
        "paths": {
            "/events/{namespace}/{target}": {"parameters": _TARGET, "post": _push(), "options": _handshake()},
            "/events/{namespace}/{target}/{id}": {"parameters": [*_TARGET, id_, source], "get": _event_state()},
        },
        "components": {"securitySchemes": {"bearer": bearer}, "schemas": schemas},
    }


#: The document as JSON.
OPENAPI = orjson.dumps(_document())
