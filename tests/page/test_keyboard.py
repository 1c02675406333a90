"""The page without a pointer: shortcuts, the order of the focus, tables, dialogs."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.page.page_fixture import PageFixture
from tests.page.steps import VIEWS, arrived, visit

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_first_key_leads_past_the_frame(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["overview"])

    await tab.keyboard.press("Tab")
    await expect(tab.get_by_role("link", name="Skip to the content")).to_be_focused()
    await tab.keyboard.press("Enter")
    await tab.keyboard.press("Tab")

    assert await tab.evaluate("document.activeElement.closest('main') !== null")
    await arrived(tab, "Needs attention")


async def test_a_walk_from_the_overview_to_a_decision_needs_no_pointer(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["overview"])

    await tab.keyboard.press("/")
    await expect(tab.get_by_label("Find objects")).to_be_focused()
    await tab.keyboard.type("crunch")
    await tab.keyboard.press("Enter")
    heading = tab.get_by_role("heading", name="Objects", level=1)
    await expect(heading).to_be_focused()
    await arrived(tab, "7 objects")
    await tab.get_by_role("link", name="crunch", exact=False).first.focus()
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("heading", name="crunch", level=1)).to_be_focused()
    marks = tab.get_by_role("toolbar", name="Decisions on the time line").get_by_role("button")
    await expect(marks).to_have_count(6)
    for _ in range(40):
        await tab.keyboard.press("Tab")
        if await tab.evaluate("document.activeElement.classList.contains('mark')"):
            break
    await tab.keyboard.press("Home")

    await expect(tab.locator(".decision-panel")).to_contain_text("list orders has 139 items")


PLACES = {
    "o": "Overview",
    "l": "Objects",
    "s": "Schedules",
    "f": "Flows",
    "q": "Queues",
    "e": "Events",
    "p": "Pipeline",
}


async def test_two_keys_open_a_view(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/nowhere", "To the overview")

    for key, heading in PLACES.items():
        await tab.keyboard.press("g")
        await tab.keyboard.press(key)

        await expect(tab.get_by_role("heading", name=heading, level=1)).to_be_focused()
        place = tab.get_by_role("navigation", name="Views").get_by_role("link", name=heading)
        await expect(place).to_have_attribute("aria-current", "page")
        await expect(tab).to_have_title(f"{heading} · Penstock")


async def test_arrows_move_between_the_rows_of_a_table(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/objects", "36 objects")
    links = tab.locator("main tbody a")
    await links.first.focus()

    await tab.keyboard.press("ArrowDown")
    await expect(links.nth(1)).to_be_focused()
    await tab.keyboard.press("End")
    await expect(links.last).to_be_focused()
    await tab.keyboard.press("ArrowUp")
    await tab.keyboard.press("Home")
    await expect(links.first).to_be_focused()


async def test_the_help_lists_the_keys_and_switches_them_off(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["overview"])

    await tab.keyboard.press("?")
    dialog = tab.get_by_role("dialog", name="Keyboard shortcuts")
    await expect(dialog).to_contain_text("Find objects")
    await dialog.get_by_label("Shortcuts of single keys").uncheck()
    await tab.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)

    await tab.keyboard.press("/")
    await expect(tab.get_by_label("Find objects")).not_to_be_focused()


async def test_a_letter_in_a_field_is_no_shortcut(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["objects"])

    await tab.get_by_label("Namespace").fill("")
    await tab.get_by_label("Namespace").press_sequentially("g/p?")

    await expect(tab.get_by_label("Namespace")).to_have_value("g/p?")
    assert re.search("#/objects$", tab.url)


async def test_the_switch_of_colours_is_remembered(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["overview"])
    ground = "getComputedStyle(document.body).backgroundColor"
    light = await tab.evaluate(ground)

    await tab.get_by_role("button", name="System colours").click()
    await tab.get_by_role("button", name="Light").click()
    dark = await tab.evaluate(ground)
    await tab.reload()
    await arrived(tab)

    assert dark != light
    assert await tab.evaluate(ground) == dark
    await expect(tab.get_by_role("button", name="Dark")).to_be_visible()
