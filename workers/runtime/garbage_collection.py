"""The garbage collector of a process: it leaves alone what stays, and looks at new objects less often than Python's."""

import gc

#: New objects after which a collection looks at them. Python's 700 are those of two or three decisions, most of which
#: are still in use: when much is to be decided, the collections took a fifth of the CPU (docs/performance.md).
YOUNG = 5_000
#: The same in a process that decides and serves nobody: it has a thousand plans under way at once, which leave no
#: garbage behind. A closed connection of a server does, with its buffers of TLS.
YOUNG_OF_PLANS = 50_000
#: The same in a process that polls: a claim of some hundred objects holds more than 5,000 new ones until it is settled,
#: which collections in between only walk over. It is the client of many servers, of libraries of many authors.
YOUNG_OF_POLLS = 20_000


def begin(young: int = YOUNG) -> None:
    """Sets the collector up once modules, models and clients are there, which stay until the end.

    A collection that walked over them would double the cost of a decision on an object of some hundred kilobytes.
    young: new objects after which a collection looks at them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, *gc.get_threshold()[1:])
