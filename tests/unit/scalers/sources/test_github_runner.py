"""What the `github-runner` trigger accepts and refuses, and which jobs its runner takes."""

import sys

import pytest

from penstock.parameters import SettingsError, Trigger
from scalers.sources.http.github_runner import GitHubRunner

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


@pytest.mark.parametrize(
    ("wanted", "metadata", "takes"),
    [
        pytest.param((), {}, True, id="no labels"),
        pytest.param(("self-hosted", "linux", "x64"), {}, True, id="the default labels"),
        pytest.param(("Self-Hosted", "Linux"), {}, True, id="in any case"),
        pytest.param(("gpu",), {}, False, id="a label the runner has not"),
        pytest.param(("gpu",), {"labels": "GPU, big"}, True, id="a label of the runner"),
        pytest.param(("gpu", "linux"), {"labels": "gpu"}, True, id="of the runner and a default"),
        pytest.param(("gpu", "linux"), {"labels": "gpu", **NO_DEFAULTS}, False, id="no defaults"),
        pytest.param((), NO_DEFAULTS, True, id="no labels on either side"),
        pytest.param((), {"labels": "gpu", **UNLABELED}, False, id="no labels but the runner has"),
        pytest.param((), UNLABELED, True, id="no labels for a runner without"),
        pytest.param(("gpu",), {"labels": "gpu", **UNLABELED}, True, id="labels as ever"),
    ],
)
def test_which_jobs_the_runner_takes(wanted: tuple[str, ...], metadata: dict[str, str], takes: bool) -> None:
    assert GitHubRunner.parse(of({"personalAccessToken": "x"}, **metadata)).takes(wanted) is takes
