"""One log line is one JSON object: time, level, a constant message, and the fields beside it."""

import logging
from datetime import UTC, datetime

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


def set_up(level: str) -> None:
    """Send our own log lines to standard error from this level on, and other libraries' from WARNING on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for package in ("scheduler", "workers", "scalers", "deploy"):
        logging.getLogger(package).setLevel(level)
