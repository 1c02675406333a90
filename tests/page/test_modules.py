"""Pure modules of the page: layers of graphs, ticks of axes, server-sent events, spans of time."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page

from tests.page.conftest import watched_tab
from tests.page.page_fixture import PageFixture
from tests.support.tables import for_each

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tab(context: BrowserContext, _server: PageFixture) -> AsyncIterator[Page]:
    """A tab for all tests of this module: what they call keeps nothing."""
    async with watched_tab(context) as page:
        await page.goto(f"{_server.url}/icon.svg")
        yield page


async def call(tab: Page, module: str, name: str, *arguments: Any) -> Any:
    """Returns the answer of a module's function."""
    code = "async ([module, name, given]) => (await import(module))[name](...given)"
    return await tab.evaluate(code, [f"/{module}", name, arguments])


async def test_ticks_are_round_and_reach_the_highest_value(tab: Page) -> None:
    for most, expected in (
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (7, [0, 2, 4, 6, 8]),
        (184, [0, 50, 100, 150, 200]),
    ):
        assert await call(tab, "core/scales.js", "wholeTicks", most) == expected


async def test_a_total_that_begins_anew_has_not_shrunk_and_unknown_is_not_zero(tab: Page) -> None:
    assert await call(tab, "core/scales.js", "growth", [5, 8, None, 9, 9, 2]) == [None, 3, None, None, 0, 2]


async def test_moments_of_an_axis_follow_the_zone(tab: Page) -> None:
    hour = 3_600_000
    assert await call(tab, "core/scales.js", "timeTicks", 0, 24 * hour, 4) == [
        0,
        6 * hour,
        12 * hour,
        18 * hour,
        24 * hour,
    ]
    west = await call(tab, "core/scales.js", "timeTicks", 0, 24 * hour, 2, -60)
    assert west == [11 * hour, 23 * hour]


async def test_spans_are_written_in_their_largest_units(tab: Page) -> None:
    for seconds, text in (
        (0.021, "21 ms"),
        (1.9, "1.9 s"),
        (59, "59 s"),
        (125, "2 min"),
        (7500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
    ):
        assert await call(tab, "core/moments.js", "span", seconds) == text


async def test_a_node_stands_after_those_before_it_and_none_on_another(tab: Page) -> None:
    found = await tab.evaluate(
        """async () => {
          const { layered } = await import("/core/layered.js");
          const nodes = ["a", "b", "c", "d", "e", "f"];
          const pairs = ["ab", "ac", "bd", "cd", "ad", "ef", "fe", "xa"];
          const edges = pairs.map(([from, to]) => ({ from, to }));
          const { nodes: places, edges: ways } = layered(nodes, edges, { along: 100, across: 10 });
          return { places: Object.fromEntries(places), ways };
        }"""
    )
    places, ways = found["places"], {way["from"] + way["to"]: way["points"] for way in found["ways"]}
    for before, after in ("ab", "ac", "bd", "cd", "ad"):
        assert places[before]["x"] < places[after]["x"]
    assert len({(place["x"], place["y"]) for place in places.values()}) == len(places)
    # The edge over a layer bends in it; one that closes a cycle goes back; one from nowhere is left out.
    assert len(ways["ad"]) == 3
    assert ways["fe"][0][0] > ways["fe"][-1][0]
    assert "xa" not in ways


async def test_edges_of_a_ladder_do_not_cross(tab: Page) -> None:
    places = await tab.evaluate(
        """async () => {
          const { layered } = await import("/core/layered.js");
          const edges = [["a", "z"], ["b", "y"], ["c", "x"]].map(([from, to]) => ({ from, to }));
          return Object.fromEntries(layered(["a", "b", "c", "x", "y", "z"], edges, { along: 1, across: 1 }).nodes);
        }"""
    )
    order = [sorted(names, key=lambda name: places[name]["y"]) for names in ("abc", "zyx")]
    assert [dict(zip("abc", "zyx", strict=True))[name] for name in order[0]] == order[1]


@for_each(1, 3, 1000)
async def test_messages_are_read_in_pieces_of_any_size(size: int, tab: Page) -> None:
    text = ': beat\n\nid: 7\nevent: row\ndata: {"a":\ndata: 1}\n\ndata:x\r\n\r\n'
    text += "event: nothing\n\nid: 8\ndata: y\n\ndata: cut"
    found = await tab.evaluate(
        """async ([text, size]) => {
          const { Parser } = await import("/core/event_stream.js");
          const found = [];
          const parser = new Parser((message) => found.push([message.type, message.data, message.id]));
          for (let at = 0; at < text.length; at += size) parser.feed(text.slice(at, at + size));
          return found;
        }""",
        [text, size],
    )
    assert found == [["row", '{"a":\n1}', "7"], ["message", "x", "7"], ["message", "y", "8"]]
