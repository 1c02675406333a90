"""Requests of several namespaces to one API server, of which none fails because of another."""

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from penstock.scaler import SourceError, Unreached
from scalers.concurrency import side_by_side
from workers.errors import ClusterError, Unavailable

T = TypeVar("T")


async def each_by_itself(requests: Iterable[Coroutine[Any, Any, T]]) -> list[T | SourceError]:
    """Returns the answer or the SourceError of every request, in order, made side by side.

    Raises Unreached if the API server was available to none of them: then it is the server that failed.
    """
    answers = await side_by_side(_answer(request) for request in requests)
    unreached = [answer for answer in answers if isinstance(answer, Unreached)]
    if unreached and len(unreached) == len(answers):
        raise unreached[0]
    return answers


async def _answer(request: Coroutine[Any, Any, T]) -> T | SourceError:
    try:
        return await request
    except SourceError as error:
        return error
    except Unavailable as error:
        return Unreached(f"the API server: {error}")
    except ClusterError as error:
        return SourceError(f"the API server: {error}")
