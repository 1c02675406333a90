"""Actions pressed in the page of a whole Penstock on the embedded cluster; what they did is read from there."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import redis.asyncio as redis
from playwright.async_api import BrowserContext, Page, Route, expect

from scalers.deliveries.deliveries import Deliveries
from scalers.deliveries.delivery import DeliveryFilter
from scheduler.keys import Keys
from tests.page.conftest import watched_tab
from tests.page.steps import sign_in, visit
from tests.support.conditions import until
from tests.support.house import House, house
from workers.api import conditions
from workers.api.kinds import CRON_JOB, EVENT_JOB, JOB, SCALED_JOB, Kind, Object, Ref
from workers.client.rest import Cluster
from workers.errors import NotFound

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

KEYS = Keys("penstock")
RBAC = "rbac.authorization.k8s.io"
#: Rights of service accounts: `operator` may change what the page shows, `reader` may look.
VERBS = {"operator": ["get", "list", "patch", "delete"], "reader": ["get", "list"]}


@dataclass
class LivePage:
    """A page's server, and what stands behind it. tokens: by service account."""

    url: str
    cluster: Cluster
    broker: redis.Redis
    tokens: Mapping[str, str]

    async def create(self, kind: Kind, name: str, **spec: Any) -> Ref:
        metadata = {"namespace": "default", "name": name}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        await self.cluster.create(kind, body)
        return Ref(kind, "default", name)

    async def push(self, channel: str, id: str) -> None:
        fields = {"specversion": "1.0", "id": id, "source": "/shop", "type": "placed"}
        await self.broker.xadd(KEYS.channel("default", channel), dict(fields))

    async def jobs(self, label: str) -> list[Object]:
        return (await self.cluster.list(JOB, "default", label_selector=label))[0]

    async def states(self, ref: Ref) -> dict[str, str]:
        """The states of an EventJob's deliveries in the broker, by the ids of their events."""
        uid = (await self.cluster.get(ref))["metadata"]["uid"]
        found = await Deliveries(self.broker, KEYS).page(uid, DeliveryFilter())
        return {each.attributes["id"]: each.state for each in found.deliveries}

    async def is_there(self, ref: Ref) -> bool:
        try:
            await self.cluster.get(ref)
        except NotFound:
            return False
        return True


def template(script: str) -> Object:
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def job_template(script: str) -> Object:
    return {"spec": {"backoffLimit": 0, "template": template(script)}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house("embedded", tmp_path_factory.mktemp("page"), polling="2", cronjobs="true") as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(running: House) -> AsyncIterator[LivePage]:
    url, broker = [(running.home / file).read_text().strip() for file in ("gateway.url", "broker.url")]
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster, redis.Redis.from_url(broker) as client:
        tokens = {name: await _account(cluster, name, verbs) for name, verbs in VERBS.items()}
        yield LivePage(url.rstrip("/"), cluster, client, tokens)


async def _account(cluster: Cluster, name: str, verbs: list[str]) -> str:
    """Makes a service account with these rights in the namespace `default`; returns a token of it."""
    accounts, roles = "/api/v1/namespaces/default/serviceaccounts", f"/apis/{RBAC}/v1/namespaces/default"
    groups = sorted({CRON_JOB.group, EVENT_JOB.group, SCALED_JOB.group})
    rule = {"apiGroups": groups, "resources": ["*"], "verbs": verbs}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
    metadata = {"metadata": {"name": name}}
    await cluster.request("POST", accounts, body=metadata)
    await cluster.request("POST", f"{roles}/roles", body={**metadata, "rules": [rule]})
    binding = {**metadata, "roleRef": reference, "subjects": [subject]}
    await cluster.request("POST", f"{roles}/rolebindings", body=binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str((await cluster.request("POST", f"{accounts}/{name}/token", body=asked))["status"]["token"])


@pytest_asyncio.fixture(loop_scope="session")
async def tab(context: BrowserContext, live: LivePage) -> AsyncIterator[Page]:
    async with watched_tab(context) as page:
        yield page


async def known(tab: Page, live: LivePage, ref: Ref) -> None:
    """Returns once the page knows the object."""
    path = f"{live.url}/api/v1/objects/{ref.kind.id}/{ref.namespace}/{ref.name}"
    await until(lambda: tab.context.request.get(path), lambda answer: answer.status == 200)


async def opened(tab: Page, live: LivePage, ref: Ref, token: str = "") -> None:
    """Opens the view of an object that the page knows with a token, of the operator if none is given."""
    await known(tab, live, ref)
    await visit(tab, live, f"#/object/{ref.kind.id}/{ref.namespace}/{ref.name}", ref.name)
    await sign_in(tab, token or live.tokens["operator"])


async def press(tab: Page, name: str, confirm: str = "", *, group: str = "Actions") -> None:
    """Presses an action's button, and the one of its dialog, which closes."""
    await tab.get_by_role("group", name=group).get_by_role("button", name=name, exact=True).click()
    await tab.get_by_role("dialog").get_by_role("button", name=confirm or name, exact=True).click()
    await expect(tab.get_by_role("dialog")).to_have_count(0)


async def test_a_schedule_is_run_with_variables_suspended_and_resumed(tab: Page, live: LivePage) -> None:
    ref = await live.create(CRON_JOB, "report", schedule="0 3 1 1 *", jobTemplate=job_template("true"))
    await opened(tab, live, ref)

    await tab.get_by_role("button", name="Run now").click()
    dialog = tab.get_by_role("dialog", name="Run now: CronJob default/report")
    await dialog.get_by_label("Variable's name").fill("DAY")
    await dialog.get_by_label("Variable's value").fill("2026-11-22; $(date)")
    await dialog.get_by_role("button", name="Run now").click()
    await expect(tab.get_by_text("run asked for: ")).to_be_visible()
    [job] = await until(lambda: _owned(live, ref), lambda jobs: jobs and conditions.finished(jobs[0]))
    assert {"name": "DAY", "value": "2026-11-22; $(date)"} in job["spec"]["template"]["spec"]["containers"][0]["env"]

    for button, suspended in (("Suspend", True), ("Resume", False)):
        await press(tab, button)
        assert (await live.cluster.get(ref))["spec"]["suspend"] is suspended


async def _owned(live: LivePage, ref: Ref) -> list[Object]:
    jobs, _ = await live.cluster.list(JOB, "default")
    return [job for job in jobs if any(one["name"] == ref.name for one in job["metadata"].get("ownerReferences", ()))]


async def test_a_paused_scaledjob_starts_nothing_until_it_is_unpaused(tab: Page, live: LivePage) -> None:
    trigger = {"type": "push", "metadata": {}}
    ref = await live.create(SCALED_JOB, "crunch", triggers=[trigger], jobTargetRef={"template": template("true")})
    await opened(tab, live, ref)

    await press(tab, "Pause")
    condition = await until(lambda: _condition(live, ref, "Paused"), lambda found: found.get("status") == "True")
    assert condition["status"] == "True"
    await live.push("crunch", "a")
    assert await live.jobs("scaledjob.keda.sh/name=crunch") == []

    await press(tab, "Unpause")
    await until(lambda: live.jobs("scaledjob.keda.sh/name=crunch"), len)


async def _condition(live: LivePage, ref: Ref, type_: str) -> Object:
    return conditions.find(await live.cluster.get(ref), type_) or {}


async def test_parked_events_are_replayed_and_dropped(tab: Page, live: LivePage, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    ref = await live.create(EVENT_JOB, "resize", jobTemplate=job_template(f"test -e {mended}"))
    await until(lambda: _condition(live, ref, "Ready"), lambda found: found.get("status") == "True")
    for id in ("a", "b", "c"):
        await live.push("resize", id)
    await until(lambda: live.states(ref), lambda states: states == dict.fromkeys("abc", "parked"))
    await opened(tab, live, ref)

    await press(tab, "Suspend")
    assert (await live.cluster.get(ref))["spec"]["suspend"] is True
    await press(tab, "Resume")
    mended.touch()
    await tab.get_by_label("Choose event a").check()
    await press(tab, "Replay 1 event", "Replay", group="Chosen deliveries")
    await until(lambda: live.states(ref), lambda states: states == {"a": "done", "b": "parked", "c": "parked"})
    await tab.get_by_label("Choose event b").check()
    await press(tab, "Drop 1 event", "Drop", group="Chosen deliveries")
    await until(lambda: live.states(ref), lambda states: states == {"a": "done", "b": "dropped", "c": "parked"})
    await press(tab, "Replay parked")
    await until(lambda: live.states(ref), lambda states: states == {"a": "done", "b": "dropped", "c": "done"})


async def test_an_object_is_deleted(tab: Page, live: LivePage) -> None:
    ref = await live.create(CRON_JOB, "old", schedule="0 3 1 1 *", jobTemplate=job_template("true"))
    await opened(tab, live, ref)
    await tab.get_by_role("group", name="Actions").get_by_role("button", name="Delete").click()
    dialog = tab.get_by_role("dialog")
    await dialog.get_by_label("Type the name").fill("old")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(tab.get_by_text("CronJob default/old deleted")).to_be_visible()
    assert not await live.is_there(ref)


async def test_a_token_without_the_right_is_told_so_and_changes_nothing(tab: Page, live: LivePage) -> None:
    ref = await live.create(CRON_JOB, "kept", schedule="0 3 1 1 *", jobTemplate=job_template("true"))
    await opened(tab, live, ref, live.tokens["reader"])
    for name, verb in (("Suspend", "patch"), ("Run now", "patch"), ("Delete", "delete")):
        button = tab.get_by_role("group", name="Actions").get_by_role("button", name=name)
        await expect(button).to_have_attribute("aria-disabled", "true")
        # Playwright takes the attribute for a button that cannot be pressed; a browser presses it.
        await button.dispatch_event("click")
        refusal = tab.locator(".toast.failed").filter(has_text=name)
        await expect(refusal).to_contain_text(f"{verb} cronjobs")
        await expect(tab.get_by_role("dialog")).to_have_count(0)
    body = await live.cluster.get(ref)
    assert (body["spec"]["suspend"], "deletionTimestamp" in body["metadata"]) == (False, False)
    assert not [name for name in body["metadata"].get("annotations", {}) if name.startswith("penstock.dev/run.")]


async def test_a_right_that_went_while_the_dialog_was_open_is_told_there(tab: Page, live: LivePage) -> None:
    ref = await live.create(CRON_JOB, "guarded", schedule="0 3 1 1 *", jobTemplate=job_template("true"))
    token = await _account(live.cluster, "leaver", VERBS["operator"])
    await opened(tab, live, ref, token)
    await tab.get_by_role("group", name="Actions").get_by_role("button", name="Suspend").click()
    binding = f"/apis/{RBAC}/v1/namespaces/default/rolebindings/leaver"
    await live.cluster.request("DELETE", binding)

    await tab.get_by_role("dialog").get_by_role("button", name="Suspend").click()

    await expect(tab.get_by_role("dialog").get_by_role("alert")).to_contain_text("cronjobs")
    assert (await live.cluster.get(ref))["spec"]["suspend"] is False


async def test_another_site_cannot_act_even_with_a_token(tab: Page, live: LivePage) -> None:
    ref = await live.create(CRON_JOB, "target", schedule="0 3 1 1 *", jobTemplate=job_template("true"))
    await known(tab, live, ref)
    url = f"{live.url}/api/v1/actions/{CRON_JOB.id}/default/target/suspend"
    authorization = {"Authorization": f"Bearer {live.tokens['operator']}", "Content-Type": "application/json"}
    refused: asyncio.Queue[int] = asyncio.Queue()
    form = f'<form method="post" action="{url}" enctype="text/plain"><input name="a" value="b"></form>'

    async def evil(route: Route) -> None:
        await route.fulfill(body=f"<!doctype html>{form}", content_type="text/html")

    other = await tab.context.browser.new_context()  # type: ignore[union-attr]
    try:
        page = await other.new_page()
        page.on("response", lambda answer: refused.put_nowait(answer.status) if answer.url == url else None)
        await page.route("http://evil.test/", evil)
        await page.goto("http://evil.test/")
        script = """([url, headers]) =>
          fetch(url, { method: "POST", headers, body: "{}" }).then((answer) => answer.status, () => "blocked")"""
        assert await page.evaluate(script, [url, authorization]) == "blocked"
        await page.evaluate("document.forms[0].submit()")
        assert await asyncio.wait_for(refused.get(), 20) == 403
    finally:
        await other.close()
    # What a browser would not send at all.
    headers = {**authorization, "Origin": "http://evil.test"}
    answer = await tab.context.request.post(url, headers=headers, data=json.dumps({}))
    assert (answer.status, "another site" in await answer.text()) == (403, True)
    assert (await live.cluster.get(ref))["spec"]["suspend"] is False
    answer = await tab.context.request.post(url, headers={**authorization, "Origin": live.url}, data=json.dumps({}))
    assert (answer.status, (await live.cluster.get(ref))["spec"]["suspend"]) == (200, True)
