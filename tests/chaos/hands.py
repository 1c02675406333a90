"""What the log of the holders says: who had which key in hand, who has it now, and where two had it at once."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from workers.runtime.leases import MARGIN

#: Seconds by which the broker's clock, which ends leases, may differ from a holder's in the time of one lease.
DRIFT = 0.05


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of work: a key under one holder's token."""

    key: str
    token: int


@dataclass(frozen=True, slots=True)
class Start:
    """A piece was begun. moment: before the truth heard of it, and after the key was claimed. process: its id."""

    piece: Piece
    moment: float
    process: int


@dataclass(frozen=True, slots=True)
class Effect:
    """A piece took effect. looked: when its holder looked at the lease last, and found it good."""

    piece: Piece
    looked: float


@dataclass(frozen=True, slots=True)
class Lost:
    """A piece was given up without an effect, or after it."""

    piece: Piece


def read(lines: Iterable[str]) -> Iterator[Start | Effect | Lost]:
    """The log's lines as what they mean."""
    for line in lines:
        key, token, event, *more = line.split()
        piece = Piece(key, int(token))
        if event == "start":
            yield Start(piece, float(more[0]), int(more[1]))
        elif event == "effect":
            yield Effect(piece, float(more[0]))
        else:
            yield Lost(piece)


def in_hand(log: Iterable[Start | Effect | Lost]) -> dict[int, set[Piece]]:
    """What was begun and has not ended, by process. Who is told to stop may be heard before what he said last."""
    begun: dict[Piece, int] = {}
    ended: set[Piece] = set()
    for entry in log:
        if isinstance(entry, Start):
            begun[entry.piece] = entry.process
        else:
            ended.add(entry.piece)
    found: defaultdict[int, set[Piece]] = defaultdict(set)
    for piece in begun.keys() - ended:
        found[begun[piece]].add(piece)
    return found


def taken_over(pieces: Iterable[Piece], log: Iterable[Start | Effect | Lost]) -> bool:
    """Whether somebody else has begun on the key of each piece since."""
    newest: defaultdict[str, int] = defaultdict(int)
    for entry in log:
        if isinstance(entry, Start):
            newest[entry.piece.key] = max(newest[entry.piece.key], entry.piece.token)
    return all(newest[piece.key] > piece.token for piece in pieces)


def overlaps(log: Iterable[Start | Effect | Lost], margin: float = MARGIN - DRIFT) -> list[str]:
    """Where work took effect although a later holder of its key had started, and a look at the lease forbade it.

    A look that finds the lease good promises that nobody else gets the key for MARGIN from then on: a later holder who
    started before that time was over is a broken promise, or nobody looked. One who started after it is no fault of
    the lease. The process stood still between look and effect then, and no look can help against that, only a fence at
    the place of the effect.

    margin: seconds that are promised from a look on.
    """
    found: list[str] = []
    starts: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for entry in log:
        key, token = entry.piece.key, entry.piece.token
        if isinstance(entry, Start):
            starts[key][token] = entry.moment
        elif isinstance(entry, Effect):
            promised = entry.looked + margin
            found += (
                f"{key}: token {token} took effect after {later} had started, {entry.looked - moment:.2f} s before the "
                "last look at the lease"
                for later, moment in starts[key].items()
                if later > token and moment < promised
            )
    return found
