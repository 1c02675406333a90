"""The garbage collector of a process that is ready: it leaves alone what stays, and looks at new objects less often."""

import gc

#: New objects after which a collection looks at them. Python's 700 are those of two or three decisions, most of which
#: are still in use: when much is to be decided, the collections took a fifth of the CPU (docs/performance.md).
YOUNG = 5_000


def begin() -> None:
    """Sets the collector up once modules, models and clients are there, which stay until the end.

    A collection that walked over them would double the cost of a decision on an object of some hundred kilobytes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
