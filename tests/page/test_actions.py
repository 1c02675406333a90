"""Actions: the token, the questions, the requests, and what is not allowed."""

import pytest
from playwright.async_api import Page, expect

from tests.page.page_fixture import TOKEN, PageFixture
from tests.page.steps import VIEWS, arrived, sign_in, visit
from tests.support.tables import for_each

pytestmark = pytest.mark.asyncio(loop_scope="session")

RESIZE = "eventjobs.penstock.dev/shop/resize"
STORED = "JSON.stringify(sessionStorage) + JSON.stringify(localStorage) + document.cookie"


async def test_a_schedule_is_run_with_variables(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["cronjob"])
    await tab.get_by_role("button", name="Use a token to act").click()
    await sign_in(tab)

    await tab.get_by_role("button", name="Run now").click()
    dialog = tab.get_by_role("dialog", name="Run now: CronJob shop/report")
    await dialog.get_by_label("Variable's name").fill("DAY")
    await dialog.get_by_label("Variable's value").fill("2026-11-22")
    await dialog.get_by_role("button", name="Run now").click()

    await expect(tab.get_by_text("run report: done")).to_be_visible()
    assert server.actions == [
        {"object": "cronjobs.batch/shop/report", "action": "run", "parameters": {"environment": {"DAY": "2026-11-22"}}}
    ]


@for_each(
    ("cronjobs.batch", "report", "Suspend", "suspend"),
    ("cronjobs.batch", "report", "Resume", "resume"),
    ("scaledjobs.keda.sh", "crunch", "Pause", "pause"),
    ("scaledjobs.keda.sh", "crunch", "Unpause", "unpause"),
)
async def test_an_action_is_asked_for_and_sent(
    kind: str, name: str, button: str, action: str, tab: Page, server: PageFixture
) -> None:
    await visit(tab, server, f"#/object/{kind}/shop/{name}")
    await sign_in(tab)

    await tab.get_by_role("group", name="Actions").get_by_role("button", name=button, exact=True).click()
    assert server.actions == []
    await tab.get_by_role("dialog").get_by_role("button", name=button, exact=True).click()

    await expect(tab.get_by_text(f"{action} {name}: done")).to_be_visible()
    assert server.actions == [{"object": f"{kind}/shop/{name}", "action": action, "parameters": {}}]


async def test_deleting_needs_the_name(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["scaledjob"])
    await sign_in(tab)
    await tab.get_by_role("group", name="Actions").get_by_role("button", name="Delete").click()
    dialog = tab.get_by_role("dialog")

    await dialog.get_by_label("Type the name").fill("crunchy")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(dialog.get_by_role("alert")).to_have_text("The name is crunch")
    assert server.actions == []
    await dialog.get_by_label("Type the name").fill("crunch")
    await dialog.get_by_role("button", name="Delete").click()

    await expect(tab.get_by_text("delete crunch: done")).to_be_visible()


async def test_chosen_events_are_replayed(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["eventjob"])
    await tab.get_by_label("Choose event evt-0004").check()
    await tab.get_by_label("Choose event evt-0006").check()
    await expect(tab.get_by_label("Choose event evt-0000")).to_be_disabled()

    await tab.get_by_role("button", name="Replay 2 events").click()
    await sign_in(tab)
    await tab.get_by_role("dialog", name="Replay 2 events").get_by_role("button", name="Replay").click()

    await expect(tab.get_by_text("replay resize: done")).to_be_visible()
    entries = ["1700000000004-0", "1700000000006-0"]
    assert server.actions == [{"object": RESIZE, "action": "replay", "parameters": {"entries": entries}}]


@for_each(("Drop all 3 parked events", "Drop"), ("Drop parked", "Drop parked"))
async def test_all_parked_events_are_dropped(button: str, confirm: str, tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["eventjob"])
    await sign_in(tab)

    await tab.get_by_role("button", name=button, exact=True).click()
    await tab.get_by_role("dialog").get_by_role("button", name=confirm, exact=True).click()

    await expect(tab.get_by_text("drop resize: done")).to_be_visible()
    assert server.actions == [{"object": RESIZE, "action": "drop", "parameters": {"state": "parked"}}]


async def test_an_event_shows_its_attempts_and_its_data(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["eventjob"])

    await tab.get_by_role("button", name="evt-0004").click()

    dialog = tab.get_by_role("dialog", name="Event evt-0004")
    await expect(dialog).to_contain_text('"width": 640')
    await expect(dialog.get_by_role("listitem")).to_have_count(3)
    await dialog.get_by_role("link", name="resize-004-0").click()
    await expect(tab.get_by_role("dialog")).to_have_count(0)
    await expect(tab.get_by_role("heading", name="resize-004-0", level=1)).to_be_visible()


async def test_a_running_event_leads_to_its_job(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["eventjob"])
    await tab.get_by_role("table", name="Deliveries").get_by_role("link", name="resize-000-0").click()
    await expect(tab.get_by_role("heading", name="resize-000-0", level=1)).to_be_visible()


async def test_what_the_token_may_not_do_says_why(tab: Page, server: PageFixture) -> None:
    server.refused["delete"] = "the cluster does not allow you to delete scaledjobs in shop"
    await visit(tab, server, *VIEWS["scaledjob"])
    await sign_in(tab)
    button = tab.get_by_role("group", name="Actions").get_by_role("button", name="Delete")

    await expect(button).to_have_attribute("aria-disabled", "true")
    await expect(button).to_have_accessible_description(server.refused["delete"])
    await button.focus()
    await tab.keyboard.press("Enter")

    await expect(tab.locator(".toast.failed")).to_contain_text(server.refused["delete"])
    assert server.actions == []


async def test_a_refused_action_stays_in_its_dialog_with_the_reason(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["cronjob"])
    await sign_in(tab)
    await tab.get_by_role("button", name="Suspend").click()
    server.failing = "the API server does not answer"

    await tab.get_by_role("dialog").get_by_role("button", name="Suspend").click()

    await expect(tab.get_by_role("dialog").get_by_role("alert")).to_have_text("the API server does not answer")


async def test_a_wrong_token_is_refused_and_not_kept(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["overview"])
    await tab.get_by_role("button", name="Use a token").click()
    await tab.get_by_label("Bearer token").fill("guessed")
    await tab.get_by_label("Keep it in this tab").check()
    await tab.get_by_role("button", name="Use it").click()

    await expect(tab.get_by_role("alert")).to_contain_text("does not accept this token")
    assert "guessed" not in await tab.evaluate(STORED)


async def test_a_token_stays_in_memory_unless_the_user_asks(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["overview"])
    await sign_in(tab)
    assert TOKEN not in await tab.evaluate(STORED)
    await tab.reload()
    await arrived(tab)
    await expect(tab.get_by_role("button", name="Use a token")).to_be_visible()

    await sign_in(tab, kept=True)
    await tab.reload()
    await arrived(tab)
    user = tab.get_by_role("button", name="system:serviceaccount:shop:operator")
    await expect(user).to_be_visible()

    await user.click()
    await tab.get_by_role("button", name="Forget it").click()
    await expect(tab.get_by_role("button", name="Use a token")).to_be_visible()
    assert TOKEN not in await tab.evaluate(STORED)


async def test_only_a_refusal_of_the_present_token_asks_for_another(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "")
    server.page = "token"
    # A call may be sent before a token is given and refused after it.
    script = """async () => {
      const { get, path } = await import("/core/api.js");
      const { hold } = await import("/core/token.js");
      let asked = 0;
      document.addEventListener("token-needed", (event) => { event.stopImmediatePropagation(); asked += 1; }, true);
      hold("the present one", { kept: false });
      const refused = (as) => get(path(["kinds"]), { as }).catch((error) => [error.status, asked]);
      return [await refused(null), await refused("the one before"), await refused()];
    }"""
    assert await tab.evaluate(script) == [[401, 0], [401, 0], [401, 1]]


async def test_a_page_for_users_asks_for_the_token_first(tab: Page, server: PageFixture) -> None:
    server.page = "token"
    await tab.goto(f"{server.url}/")

    await expect(tab.get_by_role("dialog", name="Use a token")).to_contain_text("to users with a token only")
    await sign_in(tab)

    await arrived(tab, "3 parked events")
    await expect(tab.locator("#connection")).to_contain_text("Live")
