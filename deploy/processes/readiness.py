"""The ready file: a process creates it when it is ready, for a parent that waits for it.

``PENSTOCK_READY_FILE`` names the file.
"""

import os
from pathlib import Path

VARIABLE = "PENSTOCK_READY_FILE"


def announce() -> None:
    """Creates the ready file, if the environment names one."""
    if path := os.environ.get(VARIABLE):
        Path(path).touch()
