"""Nobody starves (I4): bounds in virtual time, that is in keys claimed, under marks that want to get around them."""

from scheduler.queue import Done, Lane


async def claimed_until(lane: Lane, key: str, *, at_once: int = 1, priority: int = 0, limit: int = 20_000) -> int:
    """How many claims of others come before this key's; each of them is marked again as soon as it is finished."""
    others = 0
    while others < limit:
        leases = (await lane.claim(at_once)).leases
        claimed = [lease.key for lease in leases]
        if key in claimed:
            return others + claimed.index(key)
        others += len(claimed)
        await lane.finish((lease, Done()) for lease in leases)
        await lane.mark(claimed, priority=priority)
    raise AssertionError(f"{key} was not claimed within {limit}")


async def test_a_quiet_namespace_waits_for_one_key_of_a_noisy_one(lane: Lane) -> None:
    await lane.mark(f"jobs.batch/noisy/{n}" for n in range(5_000))
    await lane.mark(["jobs.batch/quiet/only"])
    assert await claimed_until(lane, "jobs.batch/quiet/only", at_once=1) <= 1


async def test_namespaces_take_turns_regardless_of_their_queue_lengths(lane: Lane) -> None:
    await lane.mark(f"jobs.batch/noisy/{n}" for n in range(1_000))
    await lane.mark(f"jobs.batch/quiet/{n}" for n in range(10))
    first = [lease.key.split("/")[1] for lease in (await lane.claim(20)).leases]
    assert first.count("quiet") == first.count("noisy") == 10


async def test_an_idle_namespace_saves_up_nothing(lane: Lane) -> None:
    await lane.mark(f"jobs.batch/busy/{n}" for n in range(500))
    claim = await lane.claim(400)
    await lane.finish((lease, Done()) for lease in claim.leases)
    # Having been away, the other namespace gets its half from now on, not the past as well.
    await lane.mark(f"jobs.batch/back/{n}" for n in range(400))
    first = [lease.key.split("/")[1] for lease in (await lane.claim(100)).leases]
    assert 48 <= first.count("busy") <= 52


async def test_a_hot_object_waits_behind_the_others_of_its_namespace(lane: Lane) -> None:
    await lane.mark(["jobs.batch/default/hot"])
    claim = await lane.claim(1)
    await lane.mark([f"jobs.batch/default/{n}" for n in range(10)] + ["jobs.batch/default/hot"])
    await lane.finish([(claim.leases[0], Done())])
    turns = [lease.key for lease in (await lane.claim(11)).leases]
    assert turns.index("jobs.batch/default/hot") == 10


async def test_a_steady_stream_of_high_priority_does_not_starve_low_priority(lane: Lane) -> None:
    await lane.mark(["jobs.batch/default/low"], priority=-1)
    await lane.mark((f"jobs.batch/default/{n}" for n in range(300)), priority=1)
    waited = await claimed_until(lane, "jobs.batch/default/low", at_once=100, priority=1)
    # One step down and one step up are a head start of a thousand keys each.
    assert 1_900 <= waited <= 2_100


async def test_a_stream_of_high_priority_in_another_namespace_does_not_starve_either(lane: Lane) -> None:
    await lane.mark(["jobs.batch/default/low"])
    await lane.mark((f"jobs.batch/loud/{n}" for n in range(300)), priority=1)
    assert await claimed_until(lane, "jobs.batch/default/low", at_once=100, priority=1) <= 1_100


async def test_no_priority_is_beyond_the_bound(lane: Lane) -> None:
    await lane.mark(["jobs.batch/default/low"])
    await lane.mark((f"jobs.batch/default/vip-{n}" for n in range(300)), priority=1_000_000)
    waited = await claimed_until(lane, "jobs.batch/default/low", at_once=100, priority=1_000_000)
    assert 9_900 <= waited <= 10_100


async def test_a_higher_priority_moves_a_waiting_key_forward(lane: Lane) -> None:
    await lane.mark(f"jobs.batch/default/{n}" for n in range(100))
    assert (await lane.mark(["jobs.batch/default/99"], priority=1)).ready == 0
    assert (await lane.claim(1)).leases[0].key == "jobs.batch/default/99"
