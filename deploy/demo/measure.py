"""The program of the demo's Jobs: takes one path from a Redis list, measures the file and stores the result.

It runs as a pod's only process, needs only the standard library, and takes exactly one item.
Environment: DEMO_REDIS (``host:port``), DEMO_PREFIX (prefix of its keys).
"""

import hashlib
import json
import os
import socket
import time
import zlib
from pathlib import Path
from typing import Any


class Redis:
    """A minimal Redis client."""

    def __init__(self, host: str, port: int) -> None:
        self._stream = socket.create_connection((host, port), timeout=10).makefile("rwb")

    def call(self, *words: str) -> Any:
        """Sends one command and returns its reply. Raises RuntimeError with the server's message for an error reply."""
        self._stream.write(b"*%d\r\n" % len(words))
        for word in words:
            data = word.encode()
            self._stream.write(b"$%d\r\n%s\r\n" % (len(data), data))
        self._stream.flush()
        return self._answer()

    def _answer(self) -> Any:
        line = self._stream.readline()[:-2]
        mark, rest = line[:1], line[1:]
        if mark == b"-":
            raise RuntimeError(rest.decode())
        if mark == b"$":
            return None if rest == b"-1" else self._stream.read(int(rest) + 2)[:-2].decode()
        if mark == b"*":
            return None if rest == b"-1" else [self._answer() for _ in range(int(rest))]
        return int(rest) if mark == b":" else rest.decode()


def measured(path: str) -> dict[str, Any]:
    """Returns SHA-256, number of lines and compressed size of a file."""
    data = Path(path).read_bytes()
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "lines": data.count(b"\n"),
        "compressed": len(zlib.compress(data, 9)),
    }


def main() -> None:
    host, _, port = os.environ["DEMO_REDIS"].rpartition(":")
    prefix = os.environ["DEMO_PREFIX"]
    redis = Redis(host, int(port))
    # Moved, not popped, so that the item of a Job that dies stays in the list of active items.
    path = redis.call("LMOVE", f"{prefix}:files", f"{prefix}:working", "LEFT", "RIGHT")
    if path is None:
        redis.call("INCR", f"{prefix}:idle")
        print("nothing to do: this Job was one too many")
        return
    began = time.time()
    result = measured(path)
    redis.call("MULTI")
    redis.call("HSET", f"{prefix}:results", path, json.dumps({**result, "began": began, "done": time.time()}))
    redis.call("HINCRBY", f"{prefix}:times", path, "1")
    redis.call("LREM", f"{prefix}:working", "1", path)
    redis.call("EXEC")
    print(f"{path}: {result['lines']} lines, {result['compressed']} bytes compressed")


if __name__ == "__main__":
    main()
