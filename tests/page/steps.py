"""Steps that tests of the page share."""

from typing import Protocol

from playwright.async_api import Page, expect

from tests.page.page_fixture import TOKEN

#: Every view, by the name of its picture: the address, and a text that only appears with the data.
VIEWS = {
    "overview": ("#/", "3 parked events"),
    "objects": ("#/objects", "36 objects"),
    "scaledjob": ("#/object/scaledjobs.keda.sh/shop/crunch", "maxReplicaCount is reached"),
    "eventjob": ("#/object/eventjobs.penstock.dev/shop/resize", "3 attempts failed: no space left on device"),
    "cronjob": ("#/object/cronjobs.batch/shop/report", "exit code 2"),
    "jobflow": ("#/object/jobflows.flow.volcano.sh/ml/nightly-model", "features-image"),
    "schedules": ("#/schedules", "settle"),
    "flows": ("#/flows", "features-image"),
    "queues": ("#/queues", "6 of 16 cpu are left, the group asks for 8"),
    "events": ("#/events", "penstock events export"),
    "pipeline": ("#/pipeline", "A scaler process is silent."),
    "log": ("#/log/shop/crunch-00001-x7k2p", "line 119 of the log"),
}


class Served(Protocol):
    """A server of the page."""

    url: str


async def visit(tab: Page, server: Served, address: str, text: str = "") -> None:
    """Opens a view and waits for its data."""
    await tab.goto(f"{server.url}/{address}")
    await arrived(tab, text)


async def arrived(tab: Page, text: str = "") -> None:
    """Waits until the present view has loaded, and has the text."""
    await expect(tab.locator("main:not([aria-busy]) h1")).to_be_attached()
    if text:
        await expect(tab.locator("main").get_by_text(text).first).to_be_attached()


async def sign_in(tab: Page, token: str = TOKEN, *, kept: bool = False) -> None:
    """Gives the page a token, in the dialog that is open or is opened now."""
    if not await tab.get_by_role("dialog").count():
        await tab.get_by_role("button", name="Use a token", exact=True).click()
    dialog = tab.get_by_role("dialog", name="Use a token")
    await dialog.get_by_label("Bearer token").fill(token)
    if kept:
        await dialog.get_by_label("Keep it in this tab").check()
    await dialog.get_by_role("button", name="Use it").click()
    await expect(dialog).to_have_count(0)
