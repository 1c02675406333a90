"""``python -m deploy.local.apiserver``: runs the embedded API server in the foreground."""

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path

import uvloop
from redis.exceptions import RedisError

from deploy.local.apiserver.server import ServerOptions, serve
from deploy.local.apiserver.storage.object_store import Displaced
from workers.errors import UserError
from workers.runtime import garbage_collection


def options(arguments: list[str] | None = None) -> ServerOptions:
    """The options a command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.local.apiserver",
        description="A Kubernetes API server for development: objects in Redis, loopback only.",
    )
    # Every user of the machine can read a command line, so the store's password comes by the environment.
    parser.add_argument(
        "--store",
        default=os.environ.get("PENSTOCK_BROKER"),
        required="PENSTOCK_BROKER" not in os.environ,
        metavar="URL",
        help="redis://... of the server that keeps the objects; without it PENSTOCK_BROKER",
    )
    parser.add_argument("--prefix", default="penstock", help="first part of every key there")
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0: the port of the last run if it is free, else any")
    parser.add_argument("--token-file", required=True, type=Path, help="holds the token; made when missing")
    parser.add_argument("--kubeconfig", required=True, type=Path, metavar="OUT", help="is written for clients")
    parser.add_argument("--logs", required=True, type=Path, metavar="DIR", help="where the kubelet leaves output")
    parser.add_argument("--tls", type=Path, metavar="DIR", help="certificates; default: beside the kubeconfig")
    gangs = "schedulers whose pods wait for their gang, comma separated"
    parser.add_argument("--gangs", default=(), type=_names, metavar="NAMES", help=gangs)
    parser.add_argument("--pod-scheduler", default="default-scheduler", metavar="NAME", help="who places them then")
    image = "what an image runs here, IMAGE=COMMAND; may be given several times"
    parser.add_argument("--image", dest="images", metavar="ENTRY", action="append", default=[], help=image)
    parser.add_argument(
        "--ready-file", dest="ready", type=Path, metavar="F", help="is written once requests are answered"
    )
    # Each flag is named as the option it sets.
    return ServerOptions(**vars(parser.parse_args(arguments)))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def main() -> int:
    """Runs until a signal comes; answers the process's exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # Modules and schemas are there, and large objects are read from here on.
    garbage_collection.begin()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(options()))
    except (UserError, Displaced) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except RedisError as error:
        print(f"error: --store: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
