"""The Celery app of Penstock's own workers: `celery -A penstock.app worker -Q penstock.reconcile`, `… beat`.

Its settings are the `PENSTOCK_*` variables of the environment. docs/python-api.md has the command lines.
"""

from penstock import _place

_place.enter()
with _place.without_current_folder():
    from workers.app import app

__all__ = ["app"]
