"""The folder of a demo's run."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def home(keep: Path | None) -> Iterator[Path]:
    """A new folder that goes with the run, or one to keep."""
    if keep is not None:
        yield keep
        return
    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
