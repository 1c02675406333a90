"""One log line is one JSON object: time, level, a constant message, and the fields beside it."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

#: What a LogRecord carries by itself; everything else came in as `extra`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "data"}


class JsonLines(logging.Formatter):
    """Formats a record and the fields given with it as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "msg": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _OWN},
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


class Outage:
    """Tells of something that goes on failing: when it begins, now and then while it lasts, and when it is over.

    log: where. every: seconds between two words about it. clock: monotonic seconds.
    """

    def __init__(
        self, log: logging.Logger, *, every: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._every = every
        self._clock = clock
        self._told: float | None = None

    def lasts(self, message: str, **fields: Any) -> None:
        """It failed (again)."""
        if self._told is None or self._clock() - self._told >= self._every:
            self._told = self._clock()
            self._log.warning(message, extra=fields)

    def over(self, message: str, **fields: Any) -> None:
        """It works; said only if it was told to fail before."""
        if self._told is not None:
            self._told = None
            self._log.info(message, extra=fields)


def set_up(level: str) -> None:
    """Send our own log lines to standard error from this level on, and other libraries' from WARNING on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for package in ("scheduler", "workers", "scalers", "deploy"):
        logging.getLogger(package).setLevel(level)
