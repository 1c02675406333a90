"""The cluster that a client command connects to, and the error for a cluster that does not answer.

The first of these that exists names it: ``--kubeconfig``, ``PENSTOCK_KUBECONFIG``, the kubeconfig that ``penstock
up`` left in its home, KUBECONFIG, ``~/.kube/config``, the pod's own service account. The embedded cluster's kubeconfig
counts even while that cluster is stopped: a `delete` must never reach another cluster because a laptop was restarted.
For the same reason one that cannot be trusted is an error, not passed over.
"""

import asyncio
import functools
import importlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from deploy.cli import kubeconfig_files, options, output
from deploy.cli.completion import completers
from workers.errors import ClusterError, Forbidden, Unavailable, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster
    from workers.settings import Settings

Answer = TypeVar("Answer")
Command = TypeVar("Command", bound=Callable[..., Any])

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ConnectionTarget:
    """A cluster, and the namespace of objects that name none.

    kubeconfig: None leaves the choice to kubectl's rules. source: the flag, variable or rule that chose
    it, for messages. timeout: seconds to wait for one answer. homes: folders that may hold the URL of the cluster's
    broker, in the order of `broker_url`. explicit: the namespace was named by --namespace.
    """

    kubeconfig: Path | None
    context: str | None
    namespace: str
    source: str
    timeout: float
    homes: tuple[Path, ...] = ()
    explicit: bool = False


def target(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    home: str | None = None,
    namespace: str | None = None,
    environ: Mapping[str, str] | None = None,
    patient: bool = False,
) -> ConnectionTarget:
    """Returns the cluster that these flags and the environment name.

    patient: wait for a `penstock up` that is starting in the home; until then the home names no cluster, and another
    one would be chosen, as it would be for a home that does not exist. Raises UserError if the kubeconfig file or the
    context does not exist, or, if it is patient, the home, or if that start fails.
    """
    environ = os.environ if environ is None else environ
    settings = options.load_of_client({"kubeconfig": kubeconfig, "context": context, "home": home})
    chosen = settings.kubeconfig
    source = options.flag("kubeconfig") if kubeconfig else options.variable("kubeconfig")
    waited = patient and chosen is None and _await_start(settings.home)
    if chosen is None and (own := kubeconfig_files.embedded(settings.home)):
        chosen, source = own, "the embedded cluster's kubeconfig"
    if waited and chosen is None:
        raise UserError(f"`penstock up` ended before its cluster was up in {settings.home}; see what it printed")
    if patient and chosen is None and home and not settings.home.is_dir():
        raise UserError(f"{options.flag('home')}: no such folder: {settings.home}")
    if chosen is not None and not chosen.is_file():
        raise UserError(f"{source}: no such file: {chosen}")
    if chosen is None:
        source = "KUBECONFIG or ~/.kube/config"
    current, folder = _context(kubeconfig_files.listed(chosen, environ), settings.context)
    homes = _homes(chosen.parent if chosen else folder, settings.home, named=home or environ.get("PENSTOCK_HOME"))
    within, explicit = namespace or current, bool(namespace)
    return ConnectionTarget(chosen, settings.context, within, source, settings.timeout, homes, explicit)


def _homes(beside: Path | None, home: Path, *, named: str | None) -> tuple[Path, ...]:
    """Returns the folders that may hold the URL of the broker: that of the kubeconfig in use, and the home.

    A home that was not named and has an embedded cluster belongs to that one: it may be in the current folder while
    another cluster is in use.
    """
    from deploy.local.home import Home

    if beside is None:
        return (home,)
    if not named and beside != home and Home(home).kubeconfig.is_file():
        return (beside,)
    return (beside, home)


def _await_start(home: Path) -> bool:
    from deploy.local.home import Home, await_start

    # Every command needs the client. A `penstock up` that was typed just before gets as far as its sign meanwhile.
    importlib.import_module("workers.client.rest")
    return await_start(Home(home), lambda: output.note(f"waiting for `penstock up`, which is starting in {home} ..."))


def broker_url(settings: "Settings", homes: Sequence[Path]) -> str:
    """Returns the broker's URL, see `known_broker`. Raises UserError if there is none.

    The default of the setting is no broker for a client: another application's server may listen there.
    """
    url = known_broker(settings, homes)
    if url is None:
        raise UserError(f"no broker: --home {homes[-1]} has none, and neither --broker nor PENSTOCK_BROKER is set")
    return url


def known_broker(settings: "Settings", homes: Sequence[Path]) -> str | None:
    """Returns the broker's URL: the setting if it is set, else that of the first home that has one, else None.

    Raises UserError if the file with the URL may have been planted.
    """
    from deploy.local.home import Home

    if "broker" in settings.model_fields_set:
        return settings.broker_url
    return next((url for home in homes if (url := Home(home).broker_url())), None)


def _context(files: list[Path], context: str | None) -> tuple[str, Path | None]:
    """Returns the context's namespace, else the pod's own, else ``default``; and the folder of the context's file."""
    from workers.client.merged_kubeconfig import MergedKubeconfig

    merged = MergedKubeconfig.read(files)
    contexts = merged.entries("contexts")
    if context and contexts and context not in contexts:
        raise UserError(f"--context: no context called {context}; there are {', '.join(sorted(contexts))}")
    own = SERVICE_ACCOUNT / "namespace"
    if not contexts and own.is_file():
        return own.read_text(encoding="utf-8").strip(), None
    chosen = contexts.get(context or merged.current)
    return (chosen.fields.get("namespace") or "default", chosen.folder) if chosen else ("default", None)


@asynccontextmanager
async def connected(to: ConnectionTarget) -> AsyncIterator["Cluster"]:
    """Yields a client of the cluster and closes it. Prints each warning of the server once, as kubectl does.

    Raises UserError if the cluster does not answer, rejects the credentials, or the client has no configuration.
    """
    from workers.client.rest import Cluster

    printed: set[str] = set()

    def warned(text: str) -> None:
        if text not in printed:
            printed.add(text)
            output.note(f"Warning: {text}")

    try:
        cluster = await Cluster.connect(
            kubeconfig=to.kubeconfig, context=to.context, timeout=to.timeout, in_flight=16, warned=warned
        )
    except (ClusterError, UserError) as error:
        raise UserError(unreachable(to, str(error))) from error
    try:
        yield cluster
    except Unavailable as error:
        if error.status:
            raise
        raise UserError(unreachable(to, str(error))) from error
    except Forbidden as error:
        if error.status != 401:
            raise
        where = to.kubeconfig or to.source
        raise UserError(
            f"the cluster does not know this user (credentials from {where}): {output.reason(error)}"
        ) from error
    finally:
        await cluster.close()


def unreachable(to: ConnectionTarget, reason: str) -> str:
    """Returns the error message for a cluster that does not answer."""
    where = f"{to.source}: {to.kubeconfig}" if to.kubeconfig else to.source
    return (
        f"no cluster answers ({where}): {reason.rstrip('.')}. "
        "Start an embedded one with `penstock up`, or name another with --kubeconfig"
    )


def run(to: ConnectionTarget, work: Callable[["Cluster"], Awaitable[Answer]]) -> Answer:
    """Runs a command's coroutine in its own event loop, with one client."""

    async def session() -> Answer:
        async with connected(to) as cluster:
            return await work(cluster)

    return asyncio.run(session())


def cluster_options(
    command: Command, *, kubeconfig: Sequence[str] = ("--kubeconfig",), namespaced: bool = True
) -> Command:
    """Adds the flags of every client command; the command receives one `target` instead of them.

    kubeconfig: spellings of that flag. namespaced: adds ``-n/--namespace``.
    """

    @functools.wraps(command)
    def wrapped(
        *args: Any,
        kubeconfig: str | None,
        context: str | None,
        home: str | None,
        namespace: str | None = None,
        **rest: Any,
    ) -> Any:
        to = target(kubeconfig=kubeconfig, context=context, home=home, namespace=namespace, patient=True)
        return command(*args, target=to, **rest)

    for decorate in (
        click.option(
            "--home",
            metavar="PATH",
            help="Folder of the embedded cluster. [default: .penstock]",
            shell_complete=completers.paths,
        ),
        click.option(
            "--context", metavar="NAME", help="Context of the kubeconfig.", shell_complete=completers.contexts
        ),
        click.option(
            *kubeconfig, metavar="PATH", help="Kubeconfig file of the cluster.", shell_complete=completers.paths
        ),
    ):
        wrapped = decorate(wrapped)
    if namespaced:
        text = "Namespace; without it the context's, else default."
        wrapped = click.option(
            *("-n", "--namespace"),
            type=options.WORD,
            metavar="NAME",
            help=text,
            shell_complete=completers.namespaces,
        )(wrapped)
    return wrapped  # type: ignore[return-value]
