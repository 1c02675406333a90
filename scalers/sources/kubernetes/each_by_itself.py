"""Requests of several namespaces to one API server, of which none fails because of another."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from penstock.scaler import SourceError, Unreached
from scalers.concurrency import side_by_side
from workers.errors import ClusterError, Unavailable

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")


async def each_by_itself(
    request: Callable[[Subject], Awaitable[Answer]], subjects: Iterable[Subject]
) -> list[Answer | SourceError]:
    """Returns the answer or the SourceError of the request for each subject, in order, made side by side.

    Raises Unreached if the API server was available to none of them: then it is the server that failed.
    """
    answers = await side_by_side(_answer(request, subject) for subject in subjects)
    unreached = [answer for answer in answers if isinstance(answer, Unreached)]
    if unreached and len(unreached) == len(answers):
        raise unreached[0]
    return answers


async def _answer(request: Callable[[Subject], Awaitable[Answer]], subject: Subject) -> Answer | SourceError:
    try:
        return await request(subject)
    except SourceError as error:
        return error
    except Unavailable as error:
        return Unreached(f"the API server: {error}")
    except ClusterError as error:
        return SourceError(f"the API server: {error}")
