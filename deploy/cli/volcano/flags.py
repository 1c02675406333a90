"""Flags that vcctl's verbs share, with vcctl's letters."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from deploy.cli import connection

Command = TypeVar("Command", bound=Callable[..., Any])

NAME = click.option("-N", "--name", required=True, metavar="NAME", help="Its name.")
EVERYWHERE = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Those of all namespaces.")
NAME_OR_ALL = click.option("-N", "--name", metavar="NAME", help="Its name; without it all of the namespace.")
NAME_OR_FILE = click.option("-N", "--name", metavar="NAME", help="Its name.")
SOURCE = click.option(
    "-f", "--file", "--filename", "source", required=True, metavar="FILE|-", help="The file that has them."
)
FILE = click.option("-f", "--file", "--filename", "source", metavar="FILE|-", help="The YAML file that has it.")


def namespaced(command: Command) -> Command:
    """The flags that name the cluster and the namespace; the command gets one `target` in their stead."""
    return connection.options_of(command, kubeconfig=("-k", "--kubeconfig"))


def cluster_wide(command: Command) -> Command:
    """As `namespaced`, of kinds without namespaces: with them ``-n`` is the name."""
    return connection.options_of(command, kubeconfig=("-k", "--kubeconfig"), namespaced=False)
