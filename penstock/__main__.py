"""The `penstock` command, also as `python -m penstock`.

What the command starts is run by this file's path (`python -P …/penstock/__main__.py beat`): it then finds the package
beside itself, and never in the current folder.
"""

import gc
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

#: Packages by the library that imports them if they are installed, for what no process of ours does with it: metrics of
#: the client for Redis, coloured source code of Celery's commands.
UNUSED = {"redis": ("opentelemetry",), "celery.bin.base": ("pygments",)}

#: New objects after which the collector looks at them, as in a process that is ready. What the imports make stays, and
#: with Python's 700 it is walked over again and again.
YOUNG = 5_000


def main() -> None:
    """Runs the command line of this process, and ends the process with its exit code."""
    try:
        _run()
    except KeyboardInterrupt:
        # Ctrl-C while modules are imported: the command line has its own answer to a later one.
        sys.exit(130)


def _run() -> None:
    from penstock import _deferred_imports, _import_path

    _import_path.forget_current_folder()
    # A probe needs an answer in less time than the command line takes to import.
    if sys.argv[1:2] == ["healthy"]:
        from penstock import _healthy

        if _healthy.takes(sys.argv[1:]):
            sys.exit(_healthy.main(sys.argv[2:]))
    _import_path.enter()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    _deferred_imports.spare(UNUSED)
    from deploy.cli.main import main as command

    command()


def _load_package() -> None:
    folder = Path(__file__).resolve().parent
    spec = spec_from_file_location("penstock", folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["penstock"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "__main__":
    if not __package__:
        _load_package()
    main()
