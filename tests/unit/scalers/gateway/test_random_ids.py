"""Ids of events that come without one."""

import os
import re
from itertools import islice

import pytest

from scalers.gateway.push_handler import random_ids


def test_ids_differ_and_many_come_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    urandom = os.urandom

    def counted(size: int) -> bytes:
        asked.append(size)
        return urandom(size)

    monkeypatch.setattr(os, "urandom", counted)
    found = list(islice(random_ids(), 1000))
    assert len(set(found)) == 1000
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in found)
    assert len(asked) == 4
