"""Runs Celery in this process, isolated from modules of the current folder and from foreign CELERY_* variables."""

import importlib
import os
from collections.abc import Sequence

#: Variables that Celery prefers to the application's configuration: those of another application would send
#: Penstock's messages to that one's broker.
_VARIABLES = (
    *("APP", "BROKER_URL", "CONFIG_MODULE", "LOADER", "RESULT_BACKEND"),
    *("CELERY_BROKER_READ_URL", "CELERY_BROKER_URL", "CELERY_BROKER_WRITE_URL", "CELERY_CONFIG_MODULE"),
    *("CELERY_LOADER", "CELERY_RESULT_BACKEND"),
)


def forget_variables() -> None:
    """Removes the variables that override the application's configuration from the environment."""
    for name in _VARIABLES:
        os.environ.pop(name, None)


def run(application: str, words: Sequence[str]) -> int:
    """Runs a Celery command line on an application, named as for `celery -A`; returns its exit code."""
    forget_variables()
    # Celery would replace the command line, by which `ps` shows all processes of Penstock alike.
    os.environ["NOSETPS"] = "true"
    from celery.app.utils import find_app

    # `celery -A` would import from the current folder first.
    app = find_app(application, imp=importlib.import_module)
    if words[:1] in (["worker"], ("worker",)):
        from deploy.processes import worker_command

        return worker_command.run(app, words[1:])
    from celery.bin.celery import celery

    # As `app.start`, which forgets the exit code: that of a worker that cannot work says so to its supervisor.
    celery.params[0].default = app
    return int(celery.main(args=list(words), standalone_mode=False) or 0)
