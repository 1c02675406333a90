"""HTTPS as our servers speak it: behind nothing, on a socket that listens already, saying nothing of themselves."""

from typing import Any

import uvicorn

#: Seconds that a connection may rest between two requests, and that answers under way get when the server ends.
_RESTS, _GRACE = 120, 5


def configured(app: Any, **certificate: Any) -> uvicorn.Config:
    """uvicorn's settings for an app. certificate: what it shows, as uvicorn's own settings."""
    return uvicorn.Config(
        app,
        loop="none",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_RESTS,
        timeout_graceful_shutdown=_GRACE,
        **certificate,
    )
