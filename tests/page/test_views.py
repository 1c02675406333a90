"""Every view with data: three sizes in light and dark without a barrier that axe finds; hostile texts stay texts."""

import json
import re
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, Route, expect

from tests.page.conftest import PICTURES
from tests.page.page_data import JOBS, SCALED_JOBS
from tests.page.page_fixture import PageFixture
from tests.page.steps import VIEWS, arrived, visit

pytestmark = pytest.mark.asyncio(loop_scope="session")

#: Width, height and colours.
SCREENS = ((820, 1100, "light"), (360, 740, "dark"), (1440, 900, "light"), (1440, 900, "dark"))
#: The width at which axe looks.
JUDGED = 1440
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.mark.parametrize("name", VIEWS)
async def test_a_view_fits_every_screen_and_has_no_barrier_light_or_dark(
    tab: Page, server: PageFixture, name: str
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    await visit(tab, server, *VIEWS[name])
    for width, height, scheme in SCREENS:
        await tab.emulate_media(color_scheme=scheme)
        await tab.set_viewport_size({"width": width, "height": height})
        await tab.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png", full_page=True)
        assert await tab.evaluate("document.documentElement.scrollWidth") <= width
        if width == JUDGED:
            await judge(tab)


async def judge(tab: Page) -> None:
    """Fails for a barrier that axe finds."""
    found = await Axe().run(tab, options={"resultTypes": ["violations"], "runOnly": RULES})
    assert [(each["id"], each["nodes"][0]["html"]) for each in found.response["violations"]] == []


async def test_on_a_phone_the_tools_are_one_line_and_an_event_has_most_of_its_own(
    tab: Page, server: PageFixture
) -> None:
    await tab.set_viewport_size({"width": 360, "height": 740})
    await visit(tab, server, *VIEWS["eventjob"])

    tools = await tab.evaluate("[...document.querySelectorAll('.tools button')].map((each) => each.offsetTop)")
    assert len(tools) > 2
    assert len(set(tools)) == 1
    row = tab.locator("tr:has(td.choose)").first
    share = "(row) => row.querySelector('td.name').offsetWidth / row.offsetWidth"
    assert await row.evaluate(share) > 0.5


async def test_on_a_phone_a_queue_shows_all_its_amounts(tab: Page, server: PageFixture) -> None:
    await tab.set_viewport_size({"width": 360, "height": 740})
    await visit(tab, server, *VIEWS["queues"])

    frame = tab.get_by_role("region", name="Resources of research")
    hidden = "(frame) => frame.scrollWidth - frame.clientWidth"
    assert await frame.evaluate(hidden) == 0


async def test_a_parked_event_names_the_kind_of_its_object_as_people_do(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["events"])

    await expect(tab.locator(".notices").get_by_role("link", name="EventJob shop / resize")).to_be_visible()


async def test_a_row_says_its_phase_its_reason_and_its_numbers(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/objects?kind=scaledjobs.keda.sh", "thumbnails")

    row = tab.get_by_role("row", name="crunch")

    await expect(row).to_contain_text("Active")
    await expect(row).to_contain_text("184 items wait, 10 Jobs run: the most that maxReplicaCount allows")
    await expect(row).to_contain_text("5,210 done")


async def test_what_is_not_known_is_a_dash_and_no_zero(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/pipeline", "scaler-3")

    await expect(tab.get_by_role("row", name="scaler-3").get_by_role("cell").last).to_have_text("–")
    await expect(tab.get_by_role("row", name="events").get_by_role("cell").nth(3)).to_have_text("–")


async def test_ten_thousand_objects_come_page_by_page(tab: Page, server: PageFixture) -> None:
    server.cluster.rows.clear()
    for index in range(10_000):
        server.cluster.add(JOBS, f"batch-{index:05}", "Complete", "ok")

    await visit(tab, server, "#/objects?kind=jobs.batch", "10,000 objects")
    assert await tab.locator("main tbody tr").count() == 50
    await tab.get_by_role("link", name="Next").click()
    await expect(tab.get_by_role("link", name="batch-00050")).to_be_visible()
    await tab.get_by_role("link", name="Next").click()
    await expect(tab.get_by_role("link", name="batch-00100")).to_be_visible()
    await tab.get_by_role("link", name="Previous").click()
    await expect(tab.get_by_role("link", name="batch-00050")).to_be_visible()

    await tab.get_by_label("Text").fill("batch-0777")
    await tab.get_by_role("button", name="Filter").click()
    await expect(tab.locator("main").get_by_text("10 objects")).to_be_visible()


async def test_filters_are_part_of_the_address(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/objects", "36 objects")

    await tab.get_by_role("combobox", name="State").select_option("error")

    await expect(tab.locator("main").get_by_text("5 objects")).to_be_visible()
    assert re.search(r"#/objects\?tone=error$", tab.url)
    await tab.reload()
    await arrived(tab, "5 objects")


async def test_a_decision_shows_its_arithmetic_on_focus(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/object/scaledjobs.keda.sh/shop/crunch", "maxReplicaCount is reached")
    marks = tab.get_by_role("toolbar", name="Decisions on the time line").get_by_role("button")
    await expect(marks).to_have_count(6)

    await marks.last.focus()
    panel = tab.locator(".decision-panel")
    await expect(panel).to_contain_text("maxReplicaCount is reached")
    await tab.keyboard.press("ArrowLeft")

    await expect(panel).to_contain_text("min(175, maxReplicaCount 10) - 9")
    await expect(panel).to_contain_text("create 1 Jobs")


async def test_a_plot_has_a_table_and_breaks_where_nothing_is_known(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/object/scaledjobs.keda.sh/shop/crunch", "maxReplicaCount is reached")

    drawing = tab.get_by_role("img", name="Work, the last 15 minutes: waiting")
    await expect(drawing).to_be_visible()
    await expect(tab.locator(".line-waiting")).to_have_count(2)
    await tab.get_by_text("The figures as a table").click()

    await expect(tab.get_by_role("region", name="Figures").get_by_role("row")).to_have_count(61)


async def test_steps_of_a_flow_lead_to_their_objects_and_stand_in_a_list(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/object/jobflows.flow.volcano.sh/ml/nightly-model", "features-image")

    await tab.get_by_text("The steps as a list").click()
    await expect(tab.get_by_role("listitem").filter(has_text="notify")).to_contain_text("after baseline (failed)")
    await tab.get_by_role("link", name="train-resnet: Running").click()

    await expect(tab.get_by_role("heading", name="train-resnet", level=1)).to_be_visible()


async def test_times_are_local_and_their_utc_is_shown_on_hover(tab: Page, server: PageFixture) -> None:
    server.cluster.rows["cronjobs.batch/shop/report"]["created"] = "2026-01-02T22:30:00.000Z"
    await visit(tab, server, "#/object/cronjobs.batch/shop/report", "exit code 2")

    created = tab.locator("time[datetime='2026-01-02T22:30:00.000Z']")

    title = await created.get_attribute("title") or ""
    assert "22:30:00 UTC" in title
    assert "23:30:00 local" in title
    await tab.get_by_role("button", name="Local time").click()
    await expect(created).to_have_attribute("title", re.compile("22:30:00 UTC$"))


async def test_a_log_is_searched_paused_and_followed(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["log"])
    await expect(tab.get_by_text("120 lines")).to_be_visible()

    await tab.get_by_label("Lines with").fill("line 11 of")

    await expect(tab.get_by_text("1 of 120 lines")).to_be_visible()
    await expect(tab.locator(".log mark")).to_have_text("line 11 of")
    await tab.get_by_role("button", name="Pause").click()
    await expect(tab.get_by_text("paused, 0 waiting")).to_be_visible()


async def test_an_object_that_is_not_there_says_so(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/object/jobs.batch/shop/none", "is not known yet, or does not exist")


async def test_an_object_that_is_opened_before_it_is_known_is_shown_once_it_is(tab: Page, server: PageFixture) -> None:
    rows = server.cluster.rows
    key, row = next((key, row) for key, row in rows.items() if key.startswith("jobs.batch/"))
    del rows[key]
    await visit(tab, server, f"#/object/{key}", "This page looks again")

    rows[key] = row

    await expect(tab.get_by_role("heading", name="Manifest")).to_be_visible()
    await expect(tab.get_by_text("This page looks again")).to_have_count(0)


async def test_a_view_that_is_not_there_leads_back(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/nowhere", "To the overview")


HOSTILE = "<img src=x onerror=document.title='broken'><script>document.title='broken'</script>javascript:alert(1)"


def hostile(value: Any) -> Any:
    """The value with the hostile text in every text that is for people."""
    kept = {"kind", "namespace", "uid", "created", "tone", "at", "since", "first", "last", "next", "entry", "state"}
    kept |= {"arrived", "due", "ended", "started", "time", "status", "outcome", "id", "from", "to", "oldest", "group"}
    if isinstance(value, dict):
        # The name of an object is part of addresses.
        kept |= {"name"} if "kind" in value else set()
        return {
            key: each if key in kept and not isinstance(each, dict | list) else hostile(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [hostile(each) for each in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


async def test_markup_in_data_stays_text(tab: Page, server: PageFixture) -> None:
    async def poison(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=json.dumps(hostile(await answer.json())))

    server.log = [f"{HOSTILE} line {index} of the log" for index in range(120)]
    await tab.route(re.compile(r"/api/v1/(?!session|updates|.*log)"), poison)

    for address, text in VIEWS.values():
        await visit(tab, server, address, text)
        assert await tab.get_by_text("onerror=").count() > 0, address
        assert await tab.locator("main img, main script").count() == 0, address
    assert await tab.title() != "broken"


async def test_a_name_with_markup_is_a_heading_and_a_link(tab: Page, server: PageFixture) -> None:
    server.cluster.add(SCALED_JOBS, HOSTILE, "Idle", "ok")
    await visit(tab, server, "#/objects?q=onerror", HOSTILE)

    await tab.get_by_role("link", name=HOSTILE).click()

    await expect(tab.get_by_role("heading", level=1)).to_have_text(HOSTILE)
