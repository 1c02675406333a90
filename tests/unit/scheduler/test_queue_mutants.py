"""The property tests are worth their time: each of these broken queues is told from the right one.

A mutant is a textual change of the Lua sources. Its text must be there, so a mutant cannot rot unnoticed. A real server
runs them several times as fast as one in memory does.
"""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from scheduler import queue
from scheduler.scripts import Script
from tests.unit.scheduler.machine import on_server
from tests.unit.scheduler.test_queue_properties import SETTINGS

#: name -> (script, or shared part, that is changed; what stands there; what stands there instead)
MUTANTS = {
    "a change during a reconcile is forgotten": ("finish", "if dirty[i] == 1 or caused(", "if caused("),
    "the dirty bit outlives the lease": ("finish", "write_many('SREM', of.dirty, clean)", ""),
    "the dirty bit is not set": ("mark", "write_many('SADD', into.dirty, dirty)", ""),
    "a lease is settled with any token": ("finish", "if holders[i] ~= ARGV[at + 1] then", "if false then"),
    "a lease is renewed with any token": ("renew", "if holder == ARGV[2 * i + 2] then", "if true then"),
    "leases never expire": ("sweep", "local expired = take(of.leases)", "local expired = {}"),
    "an expired lease loses its key": ("sweep", "    else\n      requeue(of, key, now)\n    end", "    end"),
    "an expired lease is no failure": ("sweep", "write_many('HSET', of.failures, failing)", ""),
    "an expired lease stays dirty": ("sweep", "write_many('SREM', of.dirty, keys)", ""),
    "a key that kills its holders never waits": ("sweep", "if wait > lease then", "if false then"),
    "marking ignores leases": ("mark", "elseif leased[i] then\n        dirty", "elseif false then\n        dirty"),
    "marking again queues at the end": ("mark", "if sooner < tonumber(scores[i]) then", "if true then"),
    "marking again never overtakes": ("mark", "if sooner < tonumber(scores[i]) then", "if false then"),
    "priorities have no bound": ("mark", "math.max(-MOST_STEPS, math.min(MOST_STEPS, priority))", "priority"),
    "priorities do nothing": (
        "mark",
        "ready[#ready + 1] = start - head_start(mark.priority)",
        "ready[#ready + 1] = start",
    ),
    "a namespace is not charged": ("mark", "finish[tenant] = start + 1", "finish[tenant] = start"),
    "a namespace saves up its turns": (
        "mark",
        "math.max(number(redis.call('ZSCORE', into.tenants, tenant)), virtual)",
        "number(redis.call('ZSCORE', into.tenants, tenant))",
    ),
    "namespaces are all one": ("mark", "return string.match(key, '^[^/]*/([^/]*)/') or ''", "return ''"),
    "virtual time stands still": ("claim", "'virtual', virtual, 'token'", "'virtual', 0, 'token'"),
    "idle namespaces are remembered for ever": ("claim", "'-inf', virtual)", "'-inf', 0)"),
    "a mark cuts a backoff short": ("mark", "and redis.call('ZSCORE', into.later, key) then", "and false then"),
    "forgiving does nothing": ("mark", "forgive = forgive, causes", "forgive = false, causes"),
    "forgiving ends the wait for what may still take effect": ("mark", "return failure, true", "return nil, false"),
    "forgiving keeps the wait": ("mark", "write_many('ZREM', into.later, awaited)", ""),
    "a failed key never comes back": ("finish", "write_many('ZADD', of.later, later)", ""),
    "a failed key comes back at once": (
        "finish",
        "book(key, now + math.max(wait * tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])))",
        "book(key, now)",
    ),
    "what was not worked on loses its failures": (
        "finish",
        "    if i > ends[4] then\n",
        "    if i > ends[4] then\n      forgiven[#forgiven + 1] = key\n",
    ),
    "what was not worked on comes back at once": (
        "finish",
        "book(key, now + tonumber(ARGV[at + 2]))",
        "book(key, now)",
    ),
    "waiting for longer than the backoff is not possible": (
        "finish",
        "math.max(wait * tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]))",
        "wait * tonumber(ARGV[at + 2])",
    ),
    "a failure with a bound waits as long as any": ("finish", "math.min(cap, tonumber(ARGV[at + 4]))", "cap"),
    "backoff has no cap": (
        "finish",
        "math.min(base * 2 ^ math.min(failures - 1, 52), cap)",
        "base * 2 ^ math.min(failures - 1, 52)",
    ),
    "backoff does not grow": ("finish", "2 ^ math.min(failures - 1, 52)", "1"),
    "success does not forget failures": ("finish", "write_many('HDEL', of.failures, forgiven)", ""),
    "coming back is forgotten": ("finish", "elseif i > ends[2] then", "elseif false then"),
    "an old booking stays": ("finish", "write_many('ZREM', of.later, unbooked)", ""),
    "coming back adds to an old booking": (
        "finish",
        "book(key, ARGV[at + 2])",
        "book(key, math.min(tonumber(redis.call('ZSCORE', of.later, key) or ARGV[at + 2]), ARGV[at + 2]))",
    ),
    "what is due is dropped": ("sweep", "for _, key in ipairs(due) do", "for _, key in ipairs({}) do"),
    "what is due stays booked": ("sweep", "write_many('ZREM', of.later, due)", ""),
    "tokens do not rise": ("claim", "math.max(number(meta[2]) + 1, now)", "1"),
    "tokens are only counted": ("claim", "math.max(number(meta[2]) + 1, now)", "number(meta[2]) + 1"),
    "a replayed claim claims twice": ("claim", "if kept then\n  return replayed", "if false then\n  return replayed"),
    "a replayed outcome is called stale": ("finish", "if kept then\n  local answer", "if false then\n  local answer"),
    "a new keyspace is open at once": ("claim", "if now < opens then", "if false then"),
    "a new keyspace never opens": ("claim", "'opens', now + lease)", "'opens', now + 1000 * lease)"),
    "opening drops what was leased": ("open", "requeue(of, key, now)", ""),
}


@pytest.mark.parametrize("mutant", [pytest.param(change, id=name) for name, change in MUTANTS.items()])
def test_a_broken_queue_is_caught(
    mutant: tuple[str, str, str], redis_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, right, wrong = mutant
    text = queue.SCRIPTS[script].text
    assert right in text
    for name, sound in list(queue.SCRIPTS.items()):
        monkeypatch.setitem(queue.SCRIPTS, name, Script(sound.text.replace(right, wrong)))

    with pytest.raises((AssertionError, ExceptionGroup)):
        # Finding one counterexample is enough; making it small is for people.
        run_state_machine_as_test(
            on_server(redis_server),
            settings=settings(SETTINGS, max_examples=400, phases=[Phase.generate], report_multiple_bugs=False),
        )
