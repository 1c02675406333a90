"""What the `github-runner` trigger accepts and refuses, and which jobs its runner takes."""

import sys

import pytest

from penstock.parameters import SettingsError, Trigger
from scalers.sources.http.github_runner import GitHubRunner
from tests.support.tables import cases

METADATA = {"owner": "acme/x", "runnerScope": "org"}
GOOD = Trigger(1, "github-runner", metadata=METADATA, authentication={"personalAccessToken": "hush-hush"})
APP = {"applicationID": "42", "installationID": "7"}


def of(authentication: dict[str, str], **metadata: str) -> Trigger:
    return Trigger(1, "github-runner", metadata={**METADATA, **metadata}, authentication=authentication)


def test_secrets_are_hidden() -> None:
    assert "hush" not in repr(GitHubRunner.parse(GOOD).account)


def test_names() -> None:
    scaler = GitHubRunner.parse(GOOD)
    assert (scaler.metric, scaler.target, scaler.patience) == ("github-runner-acme/x", 1.0, 15.0)
    assert str(scaler.server) == "https://api.github.com:443"


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    GitHubRunner.parse(GOOD)
    with pytest.raises(SettingsError, match=r"pip install 'penstock\[github\]'"):
        GitHubRunner.parse(of({"appKey": "x"}, **APP))


NO_DEFAULTS, UNLABELED = {"noDefaultLabels": "true"}, {"matchUnlabeledJobsWithUnlabeledRunners": "true"}


@cases(
    ("no labels", (), {}, True),
    ("the default labels", ("self-hosted", "linux", "x64"), {}, True),
    ("in any case", ("Self-Hosted", "Linux"), {}, True),
    ("a label the runner has not", ("gpu",), {}, False),
    ("a label of the runner", ("gpu",), {"labels": "GPU, big"}, True),
    ("of the runner and a default", ("gpu", "linux"), {"labels": "gpu"}, True),
    ("no defaults", ("gpu", "linux"), {"labels": "gpu", **NO_DEFAULTS}, False),
    ("no labels on either side", (), NO_DEFAULTS, True),
    ("no labels but the runner has", (), {"labels": "gpu", **UNLABELED}, False),
    ("no labels for a runner without", (), UNLABELED, True),
    ("labels as ever", ("gpu",), {"labels": "gpu", **UNLABELED}, True),
)
def test_which_jobs_the_runner_takes(wanted: tuple[str, ...], metadata: dict[str, str], takes: bool) -> None:
    assert GitHubRunner.parse(of({"personalAccessToken": "x"}, **metadata)).takes(wanted) is takes
