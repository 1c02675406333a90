"""KEDA's `github-runner` trigger: jobs of GitHub Actions that are queued or in progress."""

import time
from collections.abc import Collection
from typing import Any, ClassVar, Literal, Self
from urllib.parse import quote

from pydantic import SecretStr, model_validator

from penstock.parameters import ParameterError
from penstock.scaler import Measure, Source, SourceError, parameter
from scalers.concurrency import side_by_side
from scalers.sources.field_properties import text_of, value_of
from scalers.sources.http.github_api import Account, GitHub, GitHubApp, Limited
from scalers.sources.http.web import Session, WebSource

_M, _A = (Source.METADATA, Source.ENVIRONMENT), (Source.AUTHENTICATION,)

#: Labels of every self-hosted runner, unless the trigger says otherwise.
DEFAULT_LABELS = ("self-hosted", "linux", "x64")

#: States of runs and jobs that wait for a runner, or have one.
_ALIVE = ("queued", "in_progress")

#: Seconds that counting may take unless the trigger has a timeout: it makes a request per run.
PATIENCE = 15.0


class GitHubRunner(WebSource):
    """Jobs of GitHub Actions, queued or in progress, that a runner with these labels can take."""

    github_api_url: str = parameter(
        "https://api.github.com", name="githubApiURL", sources=_M, description="URL of GitHub's REST API"
    )
    owner: str = parameter(sources=_M, description="user, organization or enterprise that owns the repositories")
    runner_scope: Literal["org", "ent", "repo"] = parameter(
        sources=_M, description="whom the runner belongs to: an organization, an enterprise or a repository"
    )
    repos: tuple[str, ...] = parameter((), sources=_M, description="else all of the owner")
    labels: tuple[str, ...] = parameter((), sources=_M, description="of the runner")
    no_default_labels: bool = parameter(False, sources=_M, description="the runner is not `self-hosted,linux,x64`")
    match_unlabeled_jobs_with_unlabeled_runners: bool = parameter(
        False, sources=_M, description="a job without labels fits a runner without labels"
    )
    enable_etags: bool = parameter(
        False, sources=_M, description="conditional requests: what has not changed costs nothing of the rate limit"
    )
    target_workflow_queue_length: int = parameter(
        1, sources=_M, description="queued or running jobs that one Job is meant for"
    )
    application_id: int | None = parameter(
        None, name="applicationID", sources=_M, description="id of the GitHub app that asks, instead of a token"
    )
    installation_id: int | None = parameter(
        None, name="installationID", sources=_M, description="id of the app's installation"
    )
    personal_access_token: SecretStr | None = parameter(None, sources=_A, description="token of the user who asks")
    app_key: SecretStr | None = parameter(None, sources=_A, description="PEM; needs the extra `github`")

    @model_validator(mode="after")
    def _known(self) -> Self:
        app = {
            "applicationID": self.application_id,
            "installationID": self.installation_id,
            "appKey": self.app_key,
        }
        if not any(app.values()):
            if self.personal_access_token is None:
                raise ParameterError("personalAccessToken", "is required, or appKey")
            return self
        for name, value in app.items():
            if not value:
                raise ParameterError(name, "is required of a GitHub app")
        if self.account.app:
            try:
                self.account.app.assertion(time.time())
            except ValueError as error:
                raise ParameterError("appKey", str(error)) from None
        return self

    @property
    def account(self) -> Account:
        """The app, if the trigger names one, or the user."""
        if self.application_id and self.installation_id and self.app_key:
            return Account(app=GitHubApp(self.application_id, self.installation_id, self.app_key.get_secret_value()))
        return Account(self.personal_access_token.get_secret_value() if self.personal_access_token else "")

    url: ClassVar[str] = value_of("github_api_url")
    url_parameter: ClassVar[str] = "githubApiURL"

    @property
    def patience(self) -> float:
        """The trigger's own timeout, or 15 seconds."""
        return self.timeout.total_seconds() if self.timeout else PATIENCE

    metric: ClassVar[str] = text_of("github-runner-{0.owner}")
    target: ClassVar[float] = value_of("target_workflow_queue_length")

    async def ask(self, session: Session) -> Measure:
        """Returns the number of jobs; the last one while the rate limit is exhausted."""
        github = GitHub(self, session, self.account, etags=self.enable_etags)
        question = (self.owner, self.runner_scope, self.repos, *self._labelled)
        try:
            count = await self._count(github)
            github.memory.keep_count(question, count)
        except Limited:
            if question not in github.memory.counts:
                raise
            count = github.memory.counts[question]
        return Measure(count, count >= self.target)

    @property
    def _labelled(self) -> tuple[object, ...]:
        return (self.labels, self.no_default_labels, self.match_unlabeled_jobs_with_unlabeled_runners)

    async def _count(self, github: GitHub) -> float:
        repos = self.repos or await self._repos(github)
        return float(sum(await side_by_side(self._in(github, repo) for repo in repos)))

    async def _repos(self, github: GitHub) -> list[str]:
        kind = "users" if self.runner_scope == "repo" else "orgs"
        found = await github.all(f"/{kind}/{quote(self.owner, safe='')}/repos")
        if found is None:
            raise SourceError(f"{self.server}: there is no owner {self.owner}")
        return [repo["name"] for repo in found]

    async def _in(self, github: GitHub, repo: str) -> int:
        """Returns the number of fitting jobs of one repository; 0 if it was deleted since it was listed."""
        path = f"/repos/{quote(self.owner, safe='')}/{quote(repo, safe='')}/actions/runs"
        runs: dict[int, Any] = {}
        for status in _ALIVE:
            found = await github.all(path, "workflow_runs", status=status)
            if found is None and self.repos:
                raise SourceError(f"{self.server}: there is no repository {self.owner}/{repo}, or none to be seen")
            # A run may change its state between the two requests, and still counts once.
            runs |= {run["id"]: run for run in found or () if run.get("status") in _ALIVE}
        return sum([await self._of(github, f"{path}/{run}/jobs") for run in runs])

    async def _of(self, github: GitHub, path: str) -> int:
        jobs = await github.all(path, "jobs")
        if jobs is None:
            raise SourceError(f"{self.server}: there is no {path}")
        return sum(job.get("status") in _ALIVE and self.takes(job.get("labels") or ()) for job in jobs)

    def takes(self, wanted: Collection[str]) -> bool:
        """Returns whether the runner can take a job with these labels, whose case does not matter."""
        if self.match_unlabeled_jobs_with_unlabeled_runners and not wanted:
            return not self.labels
        offered = {*self.labels, *(() if self.no_default_labels else DEFAULT_LABELS)}
        return {label.casefold() for label in wanted} <= {label.casefold() for label in offered}
