"""``penstock broker``, ``apiserver`` and ``kubelet``: the embedded parts one by one for debugging, and the demos.

Each passes its arguments to the module that implements it; ``--help`` lists them.
"""

import runpy
import sys

import click

VERBATIM = {"ignore_unknown_options": True, "help_option_names": []}


def _part(name: str, module: str) -> click.Command:

    @click.command(name, hidden=True, context_settings=VERBATIM, help=f"Run `python -m {module}`.")
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        sys.argv = [f"penstock {name}", *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    return command


broker, apiserver, kubelet = (_part(name, f"deploy.local.{name}") for name in ("broker", "apiserver", "kubelet"))
demo, demo_pool = _part("demo", "deploy.demo"), _part("demo-pool", "deploy.demo.pool")
demo_events = _part("demo-events", "deploy.demo.events")
