"""What the chaos tests of the queue conclude from a log."""

from tests.chaos.hands import Piece, in_hand, overlaps, read, taken_over
from tests.support.tables import cases


@cases(
    ("in turn", ["k 1 start 0 7", "k 1 effect 1", "k 2 start 1.1 8", "k 2 effect 2"], 0),
    ("the first noticed", ["k 1 start 0 7", "k 2 start 3 8", "k 1 lost", "k 2 effect 4"], 0),
    ("side by side", ["k 1 start 0 7", "k 2 start 0.5 8", "k 1 effect 1", "k 2 effect 1"], 1),
    ("the first did not look when it woke up", ["k 1 start 0 7", "k 2 start 3 8", "k 2 effect 4", "k 1 effect 5"], 1),
    ("the first stood still after it looked", ["k 1 start 0 7", "k 2 start 3 8", "k 1 effect 1.9"], 0),
    ("the first looked too late", ["k 1 start 0 7", "k 2 start 3 8", "k 1 effect 2.5"], 1),
    ("the first told of its start later", ["k 2 start 3 8", "k 1 start 0 7", "k 2 effect 4"], 0),
    ("each has a key of its own", ["k 1 start 0 7", "l 2 start 0 8", "k 1 effect 1", "l 2 effect 1"], 0),
    ("two after the first", ["k 1 start 0 7", "k 2 start 3 8", "k 3 start 6 9", "k 1 effect 8"], 2),
)
def test_an_overlap_is_what_a_look_at_the_lease_forbids(log, found):
    assert len(overlaps(read(log))) == found


def test_what_was_begun_and_has_not_ended_is_in_hand():
    log = [
        "k 1 start 0 7",
        "l 1 start 0 7",
        "m 1 start 0 7",
        "k 1 effect 1",
        "l 1 lost",
        "n 2 start 1 8",
        "o 2 lost",
        "o 2 start 1 8",
    ]
    assert in_hand(read(log)) == {7: {Piece("m", 1)}, 8: {Piece("n", 2)}}


@cases(
    ("nobody", ["k 1 start 0 7"], False),
    ("an earlier holder that told later", ["k 1 start 0 7", "k 0 start 0 9"], False),
    ("one of the two keys", ["k 1 start 0 7", "k 2 start 3 8"], False),
    ("both keys", ["k 1 start 0 7", "k 2 start 3 8", "l 3 start 3 8"], True),
)
def test_work_is_taken_over_when_others_have_begun_on_all_of_it(log, so):
    assert taken_over([Piece("k", 1), Piece("l", 1)], list(read(log))) is so
