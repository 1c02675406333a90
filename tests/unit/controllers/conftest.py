"""Fixtures of all controllers' tests."""

import pytest

from tests.unit.controllers.transcripts import PlanTranscript


@pytest.fixture
def transcript(request: pytest.FixtureRequest) -> PlanTranscript:
    """A transcript whose file stands beside the test."""
    return PlanTranscript(request.path.parent / "transcripts")
