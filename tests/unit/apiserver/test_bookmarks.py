"""Bookmarks of the embedded API server, and the informers that follow it."""

from deploy.local.apiserver.handlers.read import BOOKMARK
from workers.cache.informers import pace
from workers.settings import Settings


def test_bookmarks_come_before_an_informer_would_ask_whether_the_server_is_alive() -> None:
    chosen = pace(Settings())
    # A bookmark counts from the pause of the watch after it; the question is considered with each beat.
    assert chosen.probe > BOOKMARK
    assert chosen.probe - BOOKMARK < chosen.beat
