"""The program of the demo's pods: notes in Redis when it begins and when it ends.

The first attempt of some events fails. Arguments: name of the EventJob, id of the event. Environment: DEMO_REDIS
(``host:port``), and what every Job of an EventJob gets.
"""

import json
import os
import socket
import sys
import time

#: The list of notes, and the one event in so many whose first attempt fails.
NOTES, FAILING = "events:notes", 7


def fails(number: int, attempt: int) -> bool:
    """Returns True if this attempt (from 1) of the event with this number is to fail."""
    return attempt == 1 and number % FAILING == FAILING - 1


def _note(address: str, **fields: object) -> None:
    words = [b"RPUSH", NOTES.encode(), json.dumps(fields).encode()]
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as server:
        server.sendall(b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        if not server.recv(100).startswith(b":"):
            sys.exit("the note was refused")


def main() -> None:
    """Does the work of one event."""
    name, id = sys.argv[1:]
    address, attempt = os.environ["DEMO_REDIS"], int(os.environ["PENSTOCK_ATTEMPT"])
    number = json.loads(os.environ["PENSTOCK_EVENT"])["data"]["number"]
    began = time.time()
    time.sleep(0.02)
    failed = name == "build" and fails(number, attempt)
    _note(address, by=name, id=id, number=number, attempt=attempt, began=began, ended=time.time(), failed=failed)
    if failed:
        sys.exit("the first attempt of this event fails")


if __name__ == "__main__":
    main()
