"""One log line is one JSON object: time, level, a constant message, and the fields beside it."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from socket import gaierror
from typing import Any

import orjson

#: What a LogRecord carries by itself; everything else came in as `extra`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "data"}

#: The errors of libraries, by module, that tell of an outage.
_OUTAGES = {"redis.exceptions": ("ConnectionError", "TimeoutError"), "kombu.exceptions": ("OperationalError",)}


def is_outage(error: object) -> bool:
    """Returns True for the errors by which libraries tell that a server is away, or does not answer in time."""
    if isinstance(error, (ConnectionError, TimeoutError, gaierror)):
        return True
    return isinstance(error, tuple(_library_outages()))


def outage_reason(error: Exception) -> str:
    """Returns why a server was not reached: the error's text, which a time-out does not have."""
    return str(error) or "no answer in time"


def _library_outages() -> Iterator[type[BaseException]]:
    """Yields the outages of libraries that this process has imported; it cannot have the errors of others."""
    for module, names in _OUTAGES.items():
        for name in names:
            # Another thread may be importing the module right now, and be anywhere in it.
            if found := getattr(sys.modules.get(module), name, None):
                yield found


class OrdinaryOutages(logging.Filter):
    """Shows an outage of a server as a warning of one line.

    A server that is away is waited for, and no fault of ours. Celery logs an error with a traceback per attempt.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Changes the record; every record passes."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        raised = record.exc_info[1] if record.exc_info else None
        cause = raised or next((each for each in arguments if is_outage(each)), None)
        if is_outage(cause):
            record.exc_info = record.exc_text = None
            record.error = str(cause)
            if record.levelno > logging.WARNING:
                record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


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
    """Logs an outage: when it begins, every `every` seconds while it lasts, and when it is over.

    clock: monotonic seconds.
    """

    def __init__(
        self, log: logging.Logger, *, every: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._every = every
        self._clock = clock
        self._logged: float | None = None

    def lasts(self, message: str, **fields: Any) -> None:
        """Notes a failure; logs a warning at most every `every` seconds."""
        if self._logged is None or self._clock() - self._logged >= self._every:
            self._logged = self._clock()
            self._log.warning(message, extra=fields)

    def over(self, message: str, **fields: Any) -> None:
        """Notes a success; logged only after a failure."""
        if self._logged is not None:
            self._logged = None
            self._log.info(message, extra=fields)


def set_up(level: str) -> None:
    """Sends our own log lines to standard error from this level on, and other libraries' from WARNING on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handler.addFilter(OrdinaryOutages())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for package in ("scheduler", "workers", "scalers", "deploy"):
        logging.getLogger(package).setLevel(level)
