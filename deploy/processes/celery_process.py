"""Celery in a process of ours: no module and no setting of it comes from the current folder or a stray variable."""

import importlib
import os
from collections.abc import Sequence

#: Celery prefers these to what an application says; another application's would lead our messages to its broker.
_VARIABLES = (
    *("APP", "BROKER_URL", "CONFIG_MODULE", "LOADER", "RESULT_BACKEND"),
    *("CELERY_BROKER_READ_URL", "CELERY_BROKER_URL", "CELERY_BROKER_WRITE_URL", "CELERY_CONFIG_MODULE"),
    *("CELERY_LOADER", "CELERY_RESULT_BACKEND"),
)


def forget_variables() -> None:
    """Takes the variables by which Celery would be configured past its application out of the environment."""
    for name in _VARIABLES:
        os.environ.pop(name, None)


def run(application: str, words: Sequence[str]) -> int:
    """Carries out a command line of Celery on an application, named as `celery -A` takes it; returns its exit code."""
    forget_variables()
    from celery.app.utils import find_app

    # `celery -A` would look in the current folder first.
    app = find_app(application, imp=importlib.import_module)
    return int(app.start(list(words)) or 0)
