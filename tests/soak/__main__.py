"""``make soak MINUTES=10``: every kind of work under every kind of fault, with an account.

Exits with code 1, the seed, the faults and the account if work was lost or done twice, if a process grows, or if the
broker keeps something of objects that are gone.
"""

import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import click

from deploy.cli import forked_parts
from tests.soak import witness
from tests.soak.fences import FENCES, take_out
from tests.soak.installation import noted
from tests.soak.run import Outcome, Soak


def report(outcome: Outcome) -> None:
    """Prints the account."""
    account = outcome.account
    repeated = account.repeated()
    print(f"{outcome.jobs} Jobs, {len(outcome.record)} faults and edits, {len(account.notes)} notes of pods")
    for by, promise in account.promises.items():
        works = account.done(by)
        ended = sum(bool(done.ends) for done in works.values())
        asked = "" if promise.open else f" of {len(promise.works)}"
        again = f", {repeated[by]} ended again after their kubelet died" if by in repeated else ""
        if works or promise.works:
            print(f"  {by:<16} {ended}{asked} done{again}")
    for name, text in outcome.vitals.rows():
        print(f"  {name:<16} {text}")
    before, after = outcome.memory
    print(f"  broker's data    {before:.1f} MiB before, {after:.1f} MiB after everything was deleted")
    print(f"  under the policy at most {outcome.most_limited} unfinished Jobs")


@click.command()
@click.option(
    "--minutes", default=10.0, show_default=True, type=click.FloatRange(min=0.2), help="how long there is load"
)
@click.option("--seed", type=int, help="of the choice of faults, edits and rates; without one any")
@click.option("--calm", is_flag=True, help="no faults and no edits")
@click.option("--tombstones", is_flag=True, help="wait in the end until tombstones are gone, too: ten minutes more")
@click.option("--home", type=click.Path(path_type=Path), help="keep data, logs and the record of faults in this folder")
@click.option("--aimed", is_flag=True, help="only the faults that are aimed at fences, and edits")
@click.option("--without", type=click.Choice(sorted(FENCES)), help="take a fence out of the processes: it must fail")
def main(
    minutes: float,
    seed: int | None,
    calm: bool,
    tombstones: bool,
    home: Path | None,
    aimed: bool,
    without: str | None,
) -> None:
    """Load every kind of object, break every part, and settle the account."""
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    print(f"soak of {minutes:g} minutes, seed {seed}", flush=True)
    random.seed(seed)
    kept = home is not None
    if home and home.exists() and any(home.iterdir()):
        raise click.UsageError(f"--home {home}: is not empty; objects of an earlier run would be in the account")
    home = (home or Path(tempfile.mkdtemp(prefix="penstock-soak-"))).resolve()
    # Before the fork: all processes are forks of this one.
    if without:
        take_out(without)
    witness.install(noted(home))
    with forked_parts.forking() as forks:
        began = time.time()

        def say(text: str) -> None:
            print(f"{time.time() - began:6.0f} s  {text}", flush=True)

        outcome = asyncio.run(Soak(home, minutes, seed, calm, tombstones, aimed, say).run(forks))
    report(outcome)
    faults = outcome.faults()
    record = [{"second": round(at - outcome.began, 1), "what": what} for at, what in outcome.record]
    notes = [{name: getattr(note, name) for name in note.__slots__} for note in outcome.account.notes]
    (home / "soak.json").write_text(json.dumps({"seed": seed, "faults": faults, "record": record, "notes": notes}))
    if faults:
        print(f"FAILED with seed {seed}; logs and soak.json are in {home}")
        for each in record:
            print(f"  {each['second']:7.1f} s  {each['what']}")
        for fault in faults:
            print(f"** {fault}")
        sys.exit(1)
    if not kept:
        shutil.rmtree(home)
    print(f"the account is even: nothing lost, nothing twice, nothing left ({time.time() - began:.0f} s)")


if __name__ == "__main__":
    main()
