"""The Celery app of Penstock's own workers: `celery -A penstock.app worker -Q penstock.reconcile`, `… beat`.

Its settings are the `PENSTOCK_*` variables of the environment. docs/python-api.md has the command lines.
"""

from penstock import _import_path

_import_path.enter()
with _import_path.without_current_folder():
    from workers.app import app

__all__ = ["app"]
