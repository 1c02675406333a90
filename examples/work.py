"""The program of the README's ScaledJob: takes one entry of the Redis list "work" and works on it.

It needs the standard library only. Environment: REDIS (``host:port``).
"""

import os
import socket

host, port = os.environ.get("REDIS", "127.0.0.1:6379").rsplit(":", 1)
with socket.create_connection((host, int(port)), timeout=10) as server:
    stream = server.makefile("rwb")
    stream.write(b"LPOP work\r\n")
    stream.flush()
    # "$3" and the entry in the next line, or "$-1" for an empty list.
    if stream.readline().startswith(b"$-1"):
        print("nothing to do")
    else:
        print("worked on", stream.readline().decode().strip())
