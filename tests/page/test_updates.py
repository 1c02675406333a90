"""Changes appear as they happen; a connection that drops says so and goes on."""

from datetime import timedelta

import pytest
from playwright.async_api import Page, expect

from tests.page.page_data import text
from tests.page.page_fixture import PageFixture
from tests.page.steps import VIEWS, visit
from tests.support.conditions import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

CRUNCH = "scaledjobs.keda.sh/shop/crunch"


async def test_a_row_changes_where_it_stands_and_keeps_the_focus(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/objects?kind=scaledjobs.keda.sh", "crunch")
    await connected(tab, server)
    link = tab.get_by_role("link", name="crunch")
    await link.focus()

    server.send(
        "row", server.cluster.rows[CRUNCH] | {"phase": "Paused", "tone": "paused", "message": "paused by a user"}
    )

    await expect(tab.get_by_role("row", name="crunch")).to_contain_text("paused by a user")
    await expect(link).to_be_focused()
    assert server.topics[-1] == ["objects:scaledjobs.keda.sh"]


async def test_an_object_that_is_gone_leaves_the_list(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/objects?kind=scaledjobs.keda.sh", "crunch")
    await connected(tab, server)

    gone = server.cluster.rows.pop(CRUNCH)
    server.send("gone", {name: gone[name] for name in ("kind", "namespace", "name")})

    await expect(tab.get_by_role("row", name="crunch")).to_have_count(0)
    await expect(tab.locator("main").get_by_text("2 objects")).to_be_visible()


async def test_a_new_object_appears_in_the_list(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, "#/objects?kind=scaledjobs.keda.sh", "3 objects")
    await connected(tab, server)

    server.send("row", server.cluster.add("scaledjobs.keda.sh", "appeared", "Idle", "ok"))

    await expect(tab.get_by_role("row", name="appeared")).to_be_visible()


async def test_a_point_and_a_decision_appear_in_the_plot(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["scaledjob"])
    await connected(tab, server)
    address = {"kind": "scaledjobs.keda.sh", "namespace": "shop", "name": "crunch"}

    at = text(server.cluster.now + timedelta(seconds=3))
    server.send("point", {"object": address, "at": at, "waiting": 777, "pending": None, "running": 4, "done": 6000})
    figures = [{"name": "wanted", "value": 9, "how": "ceil(9 / 1)"}]
    decision = {
        "object": address,
        "at": text(server.cluster.now),
        "times": 1,
        "why": "a fresh decision",
        "figures": figures,
    }
    server.send("decision", decision | {"did": ["create 9 Jobs"], "failed": None})

    await expect(tab.locator(".legend")).to_contain_text("Waiting 777")
    await expect(tab.locator(".legend")).to_contain_text("Pending –")
    await expect(tab.get_by_role("toolbar").get_by_role("button")).to_have_count(7)
    await expect(tab.locator(".decisions").get_by_text("a fresh decision")).to_be_visible()


async def test_a_phase_that_changes_is_said_once(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["scaledjob"])
    await connected(tab, server)

    row = server.cluster.rows[CRUNCH]
    row |= {"phase": "Idle", "tone": "ok", "message": "nothing waits"}
    server.send("row", row)

    await expect(tab.locator("#announcer")).to_have_text("crunch: Idle")
    await expect(tab.locator(".now-box")).to_contain_text("nothing waits")


async def test_the_pipeline_moves(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["pipeline"])
    await connected(tab, server)

    state = server.cluster.pipeline()
    state["problems"] = []
    state["lanes"][0] |= {"ready": 12345, "oldestSeconds": 99}
    server.send("pipeline", state)

    await expect(tab.get_by_role("row", name="events")).to_contain_text("12,345")
    await expect(tab.get_by_role("row", name="events")).to_contain_text("Late")
    await expect(tab.get_by_text("A scaler process is silent.")).to_have_count(0)


async def test_a_connection_that_drops_says_so_and_what_was_missed_is_read_again(
    tab: Page, server: PageFixture
) -> None:
    await visit(tab, server, *VIEWS["objects"])
    await connected(tab, server)
    server.accepting = False
    server.drop_watchers()
    await expect(tab.locator("#connection")).to_contain_text("Connection lost")

    server.cluster.add("scaledjobs.keda.sh", "overlooked", "Idle", "ok")
    server.accepting = True

    await expect(tab.locator("#connection")).to_contain_text("Live")
    await expect(tab.get_by_role("row", name="overlooked")).to_be_visible()


async def test_a_stream_goes_on_after_the_last_message(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["objects"])
    await connected(tab, server)
    server.remembering = True
    server.send("row", server.cluster.rows[CRUNCH] | {"message": "said before the end"})
    await expect(tab.locator("main").get_by_text("said before the end")).to_be_visible()
    last = server.number

    server.drop_watchers()

    await eventually(lambda: server.resumed[-1] == str(last))


async def test_a_view_that_is_left_ends_its_stream(tab: Page, server: PageFixture) -> None:
    await visit(tab, server, *VIEWS["objects"])
    await connected(tab, server)

    await tab.goto("about:blank")

    await eventually(lambda: server.watchers == 0)


async def connected(tab: Page, server: PageFixture) -> None:
    """Waits for the stream of the present view."""
    await expect(tab.locator("#connection")).to_contain_text("Live")
    await eventually(lambda: server.watchers == 1)
