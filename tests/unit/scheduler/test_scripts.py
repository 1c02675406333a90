"""Lua sources: how they are put together, and what every one of them says about itself."""

import re
from importlib import resources

import pytest
from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.scripts import JoinedScripts, Script, load
from tests.support.tables import for_each

LUA = resources.files("scheduler") / "lua"
NAMES = sorted(file.name.removesuffix(".lua") for file in LUA.iterdir() if file.name.endswith(".lua"))
SCRIPTS = [name for name in NAMES if "-- KEYS " in (LUA / f"{name}.lua").read_text()]


def test_an_include_is_replaced_by_its_text_once_however_often_it_is_named() -> None:
    text = load("scheduler", "claim")
    assert text.count("local function read_many(") == 1
    assert "include:" not in text


def test_an_include_that_is_not_there_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="'nowhere'"):
        load("scheduler", "nowhere")


async def test_joined_scripts_run_one_after_the_other_with_their_own_keys_and_arguments(fake_redis: Redis) -> None:
    first = Script("redis.call('SET', KEYS[1], ARGV[1])\nreturn #ARGV")
    second = Script("if #KEYS == 2 then return redis.call('MGET', KEYS[1], KEYS[2]) end\nreturn 'no'")
    both = JoinedScripts(first, second)
    assert await both(fake_redis, (["a"], ["x", "y", "z"]), (["a", "b"], [])) == [3, [b"x", None]]
    assert await both(fake_redis, (["b"], ["u"]), (["a", "b"], [])) == [1, [b"x", b"u"]]
    assert await both(fake_redis, (["b"], ["u"]), ([], ["more"])) == [1, b"no"]


_WHOLE = Script(
    load("scheduler", "batches")
    + """
      local items = {}
      for i = 1, ARGV[1] do items[i] = 'item ' .. i end
      write_many('SADD', KEYS[1], items)
      items[#items + 1] = 'another'
      return read_many('SMISMEMBER', KEYS[1], items)
    """
)


@for_each(0, 1, 3_999, 4_000, 4_001, 9_500)
async def test_lists_of_any_length_are_written_and_read_whole(length: int, fake_redis: Redis) -> None:
    answers = await _WHOLE(fake_redis, ["set"], [length])
    assert answers == [*(1 for _ in range(length)), 0]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_states_its_keys_arguments_and_answer(name: str) -> None:
    text = (LUA / f"{name}.lua").read_text()
    for part in ("-- KEYS ", "-- ARGV ", "-- Answer:"):
        assert part in text


@pytest.mark.parametrize("name", NAMES)
def test_no_key_is_made_up_inside_a_script(name: str) -> None:
    assert not re.search(r"redis\.call\('\w+', *['\"]", (LUA / f"{name}.lua").read_text())


def test_every_key_is_on_one_hash_tag() -> None:
    keys = Keys("acme")
    lane = keys.lane("reconcile")
    names = [*lane.all(), lane.call("1"), keys.generation, keys.beat("runs")]
    assert all(name.startswith("{acme}:") for name in names)
    assert len(set(names)) == len(names)
