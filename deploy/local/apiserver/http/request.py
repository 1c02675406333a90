"""One request: what is asked of which resource, and in which form the answer is wanted."""

import gc
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import parse_qsl

import orjson

from deploy.local.apiserver.access.request_attributes import is_set
from deploy.local.apiserver.access.user_info import NOBODY, UserInfo
from deploy.local.apiserver.api_errors import ApiError, bad_request, not_acceptable, unsupported_media_type
from deploy.local.apiserver.codec import duplicate_keys, protobuf_objects, yaml_documents
from deploy.local.apiserver.codec.yaml_documents import DEEPEST

#: The header of the groups of a user whom a request asks to act as.
GROUPS = "impersonate-group"
#: Largest body taken in, in bytes: what kube-apiserver takes.
LIMIT = yaml_documents.LARGEST

_JSON = ("application/json", "text/json")
_YAML = ("application/yaml", "application/x-yaml", "text/yaml")
#: A configuration for server-side apply.
APPLY = "application/apply-patch+yaml"
#: Patches whose bodies may be JSON or YAML, whatever their type says: `kubectl patch -p` sends them as they were typed.
_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json", APPLY)
#: Bytes from which a JSON body is decoded without garbage collections in between: they would look at a million
#: containers, of which none is garbage yet, again and again. A thread would not help: orjson lets no other one run.
_LARGE = 64 << 10
#: Containers within each other that orjson writes; it documents the number.
_ENCODER_LIMIT = 254


@dataclass(frozen=True, slots=True)
class YamlBody:
    """A YAML body that has been read. repeated: a remark for every repeated key. error: why it cannot be read."""

    value: Any = None
    repeated: Sequence[str] = ()
    error: str = ""

    @classmethod
    def of(cls, body: bytes) -> "YamlBody":
        """Reads a body. It may take seconds, so it belongs into a thread of its own."""
        try:
            return cls(*yaml_documents.read(body))
        except ValueError as error:
            return cls(error=str(error))


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request whose body has been read. Header names are in lower case. yaml: what a YAML body was read as.

    user: who sends it, once the token has been checked.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    yaml: YamlBody | None = None
    user: UserInfo = NOBODY

    @classmethod
    def of(cls, scope: Mapping[str, Any], body: bytes = b"", user: UserInfo = NOBODY) -> "ApiRequest":
        """The request of an ASGI scope."""
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if GROUPS in headers:
            # The one header that clients repeat.
            groups = [value.decode("latin-1") for name, value in scope["headers"] if name == GROUPS.encode()]
            headers[GROUPS] = ",".join(groups)
        return cls(scope["method"], scope["path"], query, headers, body, user=user)

    def flag(self, name: str) -> bool:
        """A boolean query parameter."""
        return is_set(self.query, name)

    def number(self, name: str) -> int | None:
        """A whole number given as a query parameter. Raises ApiError (400) for none, and beyond 64 bits as Go does."""
        text = self.query.get(name)
        if not text:
            return None
        try:
            number = int(text)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
        if not -(2**63) <= number < 2**63:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
        return number

    @property
    def media_type(self) -> str:
        """The body's content type, without parameters; JSON when the client does not say."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() or "application/json"

    @property
    def is_yaml(self) -> bool:
        """True for a body that has to be read as YAML."""
        if self.method == "PATCH" and self.media_type in _PATCHES:
            return self.body.lstrip()[:1] not in (b"{", b"[")
        return self.media_type in _YAML

    def document(self) -> Any:
        """The body decoded by its content type: JSON, YAML or protobuf. Raises ApiError (400) for anything else."""
        if self.is_yaml:
            read = self.yaml or YamlBody.of(self.body)
            if read.error:
                raise bad_request(f"error converting YAML to JSON: {read.error}")
            return read.value
        if self.media_type in _JSON or (
            self.method == "PATCH" and self.media_type.endswith(("patch+json", "patch+yaml"))
        ):
            return parse_json(self.body)
        if self.media_type == protobuf_objects.MEDIA_TYPE:
            return parse_protobuf(self.body)
        raise unsupported_media_type(("application/json", "application/yaml", protobuf_objects.MEDIA_TYPE))

    def repeated(self, document: Any) -> Sequence[str]:
        """A remark about every key that is repeated in the body, which was decoded as this document."""
        if self.yaml:
            return self.yaml.repeated
        return duplicate_keys.in_json(self.body, document) if self.media_type in _JSON else ()


def parse_json(body: bytes) -> Any:
    """Decoded JSON; 400 for anything else."""
    collects = gc.isenabled() and len(body) > _LARGE
    try:
        if collects:
            gc.disable()
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from None
    finally:
        if collects:
            gc.enable()
    if body.count(b"{") + body.count(b"[") > DEEPEST:
        shallow(value)
    return value


def shallow(value: Any) -> None:
    """Refuses (400) what is nested so deeply that it could not be written again."""
    # orjson itself stops at the nesting of its limit: a loop over the containers of 3 MiB would take a second.
    for _ in range(_ENCODER_LIMIT - DEEPEST):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        if "ecursion" not in str(error):
            raise
        raise bad_request(f"the object provided is nested more than {DEEPEST} levels deep") from None


def parse_protobuf(body: bytes) -> Any:
    """A decoded protobuf body; 400 for anything else."""
    try:
        value = protobuf_objects.decode(body)
        shallow(value)
        return value
    except (ValueError, OverflowError, RecursionError) as error:
        raise bad_request(f"the object provided is unrecognized (must be of type Protobuf): {error}") from None


class Form(Enum):
    """The representation of objects in an answer."""

    WHOLE = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


@dataclass(frozen=True, slots=True)
class Accept:
    """The agreed form. version: the meta.k8s.io version of a table or of partial metadata. yaml: sent as YAML."""

    form: Form = Form.WHOLE
    version: str = "v1"
    yaml: bool = False


JSON = Accept()
#: The group and the versions of tables and of partial metadata.
_META, _META_VERSIONS = "meta.k8s.io", ("v1", "v1beta1")


def negotiate(header: str) -> Accept:
    """Returns the form of an Accept header's first alternative, by their weights, that exists here; 406 without one."""
    if not header or header == "application/json":
        return JSON
    alternatives = [_alternative(entry) for entry in header.split(",")]
    # Where weights are equal, a type goes before the patterns, as in Go.
    for media, options in sorted(alternatives, key=lambda each: (-_weight(each[1]), each[0].count("*"))):
        if (accept := _accepted(media, options)) is not None:
            return accept
    raise not_acceptable()


def _alternative(entry: str) -> tuple[str, dict[str, str]]:
    media, *parameters = (part.strip() for part in entry.split(";"))
    return media, dict(parameter.partition("=")[::2] for parameter in parameters)


def _weight(options: Mapping[str, str]) -> float:
    try:
        return float(options.get("q", "1"))
    except ValueError:
        return 0.0


def _accepted(media: str, options: Mapping[str, str]) -> Accept | None:
    """Returns the form of one alternative; None for one that does not exist here."""
    yaml = media == "application/yaml"
    if not yaml and media not in ("application/json", "*/*", "application/*"):
        return None
    if not any(options.get(name) for name in ("as", "g", "v")):
        return Accept(yaml=yaml)
    known = options.get("g") == _META and options.get("v") in _META_VERSIONS
    forms = [form for form in Form if form is not Form.WHOLE and form.value == options.get("as")]
    return Accept(forms[0], options["v"], yaml) if known and forms else None


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer. yaml: the body is JSON that is to be sent as YAML."""

    code: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    yaml: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on until the iterator ends or the client leaves."""

    chunks: AsyncIterator[bytes]
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The answer to a request for another protocol: the kubelet speaks it, at this path of its own."""

    path: str


def json_response(
    value: Any, code: int = 200, headers: Mapping[str, str] | None = None, *, yaml: bool = False
) -> Response:
    """Returns an answer with any JSON value. yaml: it is sent as YAML."""
    return Response(code, orjson.dumps(value), headers=headers or {}, yaml=yaml)


def refusal(error: ApiError) -> Response:
    """The answer a refusal becomes."""
    return json_response(error.status(), error.code, error.headers)
