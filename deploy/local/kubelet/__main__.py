"""``python -m deploy.local.kubelet``: runs the pods of a cluster as processes of this machine."""

import argparse
import asyncio
import sys
from pathlib import Path

from deploy.local.image_commands import Images
from deploy.local.kubelet.kubelet import KubeletOptions, kubelet
from deploy.local.kubelet.pods.lifecycle import ContainerBackoff
from deploy.local.kubelet.presented_nodes import NodeOptions
from deploy.processes import until_signal
from workers.client.rest import Cluster
from workers.errors import PenstockError
from workers.json_logs import set_up
from workers.runtime import garbage_collection


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.kubelet", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="kubeconfig of the cluster")
    parser.add_argument("--logs", type=Path, required=True, help="folder for the logs of containers")
    parser.add_argument("--root", type=Path, required=True, help="folder for the pods' files")
    most = "pods that run at once; more stay Pending"
    parser.add_argument("--max-pods", dest="pods", metavar="MAX_PODS", type=int, required=True, help=most)
    parser.add_argument("--node", default="local", help="name of the first Node (default: local)")
    parser.add_argument("--nodes", type=int, default=1, help="Nodes to present (default: 1)")
    parser.add_argument("--cpus", default="", help="cpu of each Node; by default this machine's")
    parser.add_argument("--memory", default="", help="memory of each Node; by default this machine's")
    parser.add_argument("--gpus", type=int, default=0, help="nvidia.com/gpu of each Node")
    parser.add_argument("--node-labels", default="", help="labels of the Nodes: KEY=VALUE,...")
    parser.add_argument("--events", choices=("all", "warnings", "none"), default="all", help="which Events to record")
    isolation = "mounts and process ids of their own for pods: where the machine allows it, never, or else none runs"
    parser.add_argument("--isolation", choices=("auto", "none", "required"), default="auto", help=isolation)
    parser.add_argument("--backoff", type=float, default=10.0, help="seconds before the second restart (default: 10)")
    parser.add_argument("--farewell", type=float, default=5.0, help="seconds pods get to end when this one stops")
    parser.add_argument("--orphans", type=float, default=30.0, help="seconds pods outlive a kubelet that crashed")
    image = "what an image runs here, IMAGE=COMMAND; may be given several times"
    parser.add_argument("--image", dest="images", metavar="ENTRY", action="append", default=[], help=image)
    parser.add_argument("--ready-file", type=Path, help="made when the kubelet has started")
    options = parser.parse_args(arguments)
    if options.pods < 1:
        parser.error("--max-pods: must be at least 1")
    return options


async def run(arguments: argparse.Namespace) -> None:
    """Serves until SIGINT or SIGTERM."""
    stop = until_signal.stop_event()
    given = dict(vars(arguments))
    kubeconfig, ready, base = given.pop("kubeconfig"), given.pop("ready_file"), given.pop("backoff")
    images = Images.of(given.pop("images"))
    labels = tuple(filter(None, given.pop("node_labels").split(",")))
    wished = NodeOptions(given.pop("nodes"), given.pop("cpus"), given.pop("memory"), given.pop("gpus"), labels)
    options = KubeletOptions(backoff=ContainerBackoff(base=base), images=images, nodes=wished, **given)
    async with await Cluster.connect(kubeconfig=kubeconfig) as cluster, kubelet(cluster, options) as node:
        garbage_collection.begin()
        if ready is not None:
            ready.touch()
        await node.serve(stop)


def main() -> None:
    """The command."""
    arguments = parse()
    set_up("INFO")
    try:
        asyncio.run(run(arguments))
    except PenstockError as error:
        sys.exit(f"kubelet: {error}")


if __name__ == "__main__":
    main()
