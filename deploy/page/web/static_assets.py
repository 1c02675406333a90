"""The page's files: read once, compressed once, and revalidated by a digest of their content."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from deploy.page.web.web_answers import HttpRefusal, problem

FOLDER = Path(__file__).parent.with_name("assets")
_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
#: Pictures are compressed already.
_COMPRESSED = frozenset({".html", ".js", ".css", ".svg", ".json", ".webmanifest"})


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. tag: its entity tag. packed: compressed, None where that saves nothing."""

    content: bytes
    media_type: str
    tag: str
    packed: bytes | None


class Assets:
    """All files of a folder by their path; index.html is the answer to `/`."""

    def __init__(self, folder: Path = FOLDER) -> None:
        files = sorted(path for path in folder.rglob("*") if path.suffix in _TYPES and path.is_file())
        self._files = {path.relative_to(folder).as_posix(): _asset(path) for path in files}

    async def answer(self, request: Request) -> Response:
        """Returns the file that a request's path names."""
        found = self._files.get(request.path_params.get("path") or "index.html")
        if found is None:
            return problem(HttpRefusal(404, "the page has no such file"))
        # Browsers ask each time whether the file is still the same: a new release is seen at once.
        headers = {"ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if found.tag in [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        content = found.content
        if found.packed and "gzip" in request.headers.get("accept-encoding", ""):
            content = found.packed
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers=headers, media_type=found.media_type)


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    packed = gzip.compress(content, mtime=0) if path.suffix in _COMPRESSED else None
    return Asset(
        content,
        _TYPES[path.suffix],
        f'"{blake2b(content, digest_size=12).hexdigest()}"',
        packed if packed and len(packed) < len(content) else None,
    )
