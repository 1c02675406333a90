"""The fields of a multipart form. Files are refused: a file is pushed as the body, with its own content type."""

from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

#: Fields of one form.
_MOST = 1_000


class NotAForm(ValueError):  # noqa: N818 - as its text reads
    """The body is no form that can be an event. status: of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def multipart_fields(body: bytes, boundary: str) -> dict[str, Any]:
    """Returns the fields by name; a repeated one is a list. Raises NotAForm."""
    if not boundary:
        raise NotAForm(400, "Content-Type names no boundary")
    parts = _Parts()
    try:
        parser = MultipartParser(boundary.encode("latin-1"), parts.callbacks)
        parser.write(body)
        parser.finalize()
    except FormParserError:
        raise NotAForm(400, "the body is no multipart form") from None
    if not parts.ended:
        raise NotAForm(400, "the body ends before the form does")
    fields: dict[str, Any] = {}
    for name, text in parts.fields:
        if name not in fields:
            fields[name] = text
        elif isinstance(fields[name], list):
            fields[name].append(text)
        else:
            fields[name] = [fields[name], text]
    return fields


class _Parts:
    """The parts of a form, as the parser finds them."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, str]] = []
        self.ended = False
        self._headers: dict[bytes, bytes] = {}
        self._header, self._value, self._data = bytearray(), bytearray(), bytearray()
        self.callbacks: Any = {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_part_data": lambda data, start, end: self._data.extend(data[start:end]),
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self._headers = {}
        self._data = bytearray()

    def _end_header(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if b"filename" in options or b"filename*" in options:
            raise NotAForm(415, "forms with files are not supported: push a file as the body, with its content type")
        try:
            name, text = options.get(b"name", b"").decode(), self._data.decode()
        except UnicodeDecodeError:
            raise NotAForm(400, "a field of the form is not UTF-8") from None
        if not name:
            raise NotAForm(400, "a part of the form has no name")
        self.fields.append((name, text))
        if len(self.fields) > _MOST:
            raise NotAForm(400, f"a form has at most {_MOST} fields")

    def _finish(self) -> None:
        self.ended = True
