"""The page's files: types, compression, revalidation."""

import gzip
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from deploy.page.web.static_assets import Assets

SCRIPT = b"export const answer = 42;\n" * 50


async def answer(assets: Assets, path: str, **headers: str) -> Response:
    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return await assets.answer(
        Request({"type": "http", "method": "GET", "path_params": {"path": path}, "headers": encoded})
    )


async def test_files_are_compressed_typed_and_revalidated(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "core" / "main.js").write_bytes(SCRIPT)
    (tmp_path / "notes.txt").write_text("not for browsers")
    assets = Assets(tmp_path)
    plain = await answer(assets, "core/main.js")
    assert (plain.body, plain.headers["content-type"]) == (SCRIPT, "text/javascript; charset=utf-8")
    packed = await answer(assets, "core/main.js", accept_encoding="br, gzip")
    assert gzip.decompress(bytes(packed.body)) == SCRIPT
    assert packed.headers["content-encoding"] == "gzip"
    assert (await answer(assets, "core/main.js", if_none_match=f"W/{packed.headers['etag']}, x")).status_code == 304
    (tmp_path / "core" / "main.js").write_bytes(SCRIPT + b"//")
    assert (await answer(Assets(tmp_path), "core/main.js", if_none_match=packed.headers["etag"])).status_code == 200
    assert (await answer(assets, "")).body == b"<!doctype html>"
    for missing in ("notes.txt", "../test_static_assets.py", "core", "core/../index.html"):
        assert (await answer(assets, missing)).status_code == 404
