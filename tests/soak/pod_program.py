"""The program of the soak's pods: it notes in Redis when it begins, ends or fails a piece of work.

    pod_program.py take LIST              takes an entry, which is its work
    pod_program.py read STREAM            the same of a stream
    pod_program.py serve LIST             takes entries for as long as it lives
    pod_program.py given WORK             does this work
    pod_program.py flaky WORK ATTEMPT     does it; the first attempt of one event in so many fails
    pod_program.py gang WORK KEY SIZE     does it once so many pods have come together at the key

Environment: SOAK_REDIS (``host:port``), SOAK_BY (the object), SOAK_JOB and SOAK_POD (names).
"""

import json
import os
import socket
import sys
import time
import zlib

#: The list of notes.
NOTES = "notes"
#: The first attempt of one event in so many fails, with this exit code.
FAILING, EXIT_CODE = 7, 42
#: Seconds that a member of a gang waits for the others.
GANG = 120.0

_NOTE = """
local function note(what, work)
  local now = redis.call('TIME')
  redis.call('RPUSH', KEYS[1], cjson.encode({
    by = ARGV[1], job = ARGV[2], pod = ARGV[3], what = what, work = work, at = now[1] + now[2] / 1000000 }))
end
"""
NOTE = _NOTE + "note(ARGV[4], ARGV[5]) return 1"
#: An entry is gone from its list with the note that it was done: nothing is lost between the two.
TAKE = _NOTE + "local work = redis.call('LPOP', KEYS[2]) if work then note('end', work) end return work"
READ = (
    _NOTE
    + """
local entry = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
if entry then redis.call('XDEL', KEYS[2], entry[1]) note('end', entry[2][2]) return entry[2][2] end
return false
"""
)


def fails(work: str, attempt: int) -> bool:
    """Returns True if this attempt (from 1) of this work is to fail."""
    return attempt == 1 and zlib.crc32(work.encode()) % FAILING == 0


class Server:
    """One connection to the server of the notes."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._answers = self._socket.makefile("rb")

    def call(self, *words: str) -> "str | int | None":
        """Returns the answer to one command: a number, a text or none. Raises RuntimeError for an error."""
        raw = [word.encode() for word in words]
        request = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in raw)
        self._socket.sendall(b"*%d\r\n%s" % (len(raw), request))
        line = self._answers.readline().rstrip()
        if line[:1] == b":":
            return int(line[1:])
        if line[:1] != b"$":
            raise RuntimeError(line.decode())
        size = int(line[1:])
        return None if size < 0 else self._answers.read(size + 2)[:-2].decode()

    def run(self, script: str, *words: str, key: str = NOTES) -> "str | int | None":
        """Returns the answer of a script that notes something."""
        who = (os.environ["SOAK_BY"], os.environ["SOAK_JOB"], os.environ["SOAK_POD"])
        return self.call("EVAL", script, "2", NOTES, key, *who, *words)


def main() -> None:
    """Does the work."""
    mode, subject, *more = sys.argv[1:]
    server = Server(os.environ["SOAK_REDIS"])
    if reading := os.environ.get("PENSTOCK_READING"):
        server.run(NOTE, "asked", f"{reading} {os.environ['PENSTOCK_QUEUE_LENGTH']}")
    if mode == "serve":
        while True:
            server.run(TAKE, key=subject)
            time.sleep(0.5)
    if mode in ("take", "read"):
        if server.run(TAKE if mode == "take" else READ, key=subject) is None:
            server.run(NOTE, "idle", "")
        return
    if subject.startswith("{"):
        # A stream's entry or an event, as a claim gives it.
        fields = json.loads(subject)
        subject = fields.get("work") or fields["id"]
    server.run(NOTE, "begin", subject)
    if mode == "flaky" and fails(subject, int(more[0])):
        server.run(NOTE, "fail", subject)
        sys.exit(EXIT_CODE)
    if mode == "gang":
        server.call("SADD", more[0], subject)
        until = time.monotonic() + GANG
        while int(server.call("SCARD", more[0]) or 0) < int(more[1]):
            if time.monotonic() > until:
                sys.exit("the others did not come")
            time.sleep(0.1)
    time.sleep(zlib.crc32(os.environ["SOAK_POD"].encode()) % 8 / 10)
    server.run(NOTE, "end", subject)


if __name__ == "__main__":
    main()
