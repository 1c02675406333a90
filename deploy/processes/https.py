"""uvicorn's configuration for HTTPS servers: no proxy headers, a listening socket, no server header."""

from typing import Any

import uvicorn

#: Seconds of idle time between two requests of a connection, and for active responses when the server stops.
_RESTS, _GRACE = 120, 5


def configured(app: Any, **certificate: Any) -> uvicorn.Config:
    """Returns uvicorn's configuration for an app. certificate: uvicorn's own settings for TLS."""
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
