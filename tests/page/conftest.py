"""One browser and one server for all tests of the page; a new tab, empty storage and fresh data for each.

Both end with the last of these tests, and cost the tests that come after nothing.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

from tests.page.page_fixture import PageFixture, serving
from tests.support.paths import ROOT
from tests.support.ports import free_port

# The machine may be busy; a condition that never comes true is rare.
expect.set_options(timeout=20_000)
#: The headless shell takes half of the CPU of the whole browser.
CHROMIUM = (Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium"))
PICTURES = ROOT / "build" / "page"


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium."""
    found = next(filter(Path.exists, CHROMIUM), None)
    if not found:
        pytest.skip("chromium is not installed: the page is NOT tested in a browser")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        await started.close()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def _server() -> AsyncIterator[PageFixture]:
    async with serving(free_port()) as page:
        yield page


@pytest.fixture
def server(_server: PageFixture) -> PageFixture:
    """The server, with fresh data."""
    _server.reset()
    return _server


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """One profile, so that the page's files are fetched once."""
    context = await browser.new_context(
        viewport={"width": 1440, "height": 900}, reduced_motion="reduce", timezone_id="Europe/Berlin"
    )
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def tab(context: BrowserContext, server: PageFixture) -> AsyncIterator[Page]:
    """A tab for the server."""
    async with watched_tab(context) as page:
        yield page
        if page.url.startswith(server.url):
            await page.evaluate("localStorage.clear()")


@asynccontextmanager
async def watched_tab(context: BrowserContext) -> AsyncIterator[Page]:
    """A tab. The test fails afterwards on any error of the console, which has the violations of the policy, too."""
    page = await context.new_page()
    page.set_default_timeout(20_000)
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        # A refused call is part of some tests; the page shows it, and the browser writes it down.
        if message.type in ("error", "warning") and not re.match(
            "Failed to load resource.* (401|403|404|502|503) ", message.text
        ):
            complaints.append(message.text)

    page.on("console", listen)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    await page.close()
    assert complaints == []
