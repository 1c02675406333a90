"""Fixtures of all controllers' tests."""

import pytest

from tests.unit.controllers.transcripts import Transcript


@pytest.fixture
def transcript(request: pytest.FixtureRequest) -> Transcript:
    """A transcript whose file stands beside the test."""
    return Transcript(request.path.parent / "transcripts")
