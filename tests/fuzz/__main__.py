"""``python -m tests.fuzz --minutes n``: the fuzz tests again and again with other input, until one fails.

Prints the seed of each round; ``pytest tests/fuzz --hypothesis-seed=<seed>`` with HYPOTHESIS_PROFILE=hunt repeats it.
"""

import os
import random
import subprocess
import sys
import time

import click


@click.command()
@click.option("--minutes", default=10.0, show_default=True, type=click.FloatRange(min=0), help="begin no round after")
@click.option("--seed", type=int, help="of the first round")
@click.argument("tests", nargs=-1)
def main(minutes: float, seed: int | None, tests: tuple[str, ...]) -> None:
    """Fuzz, ten times as much input per round as in the suite. TESTS: files or names, by default all of tests/fuzz."""
    end = time.monotonic() + 60 * minutes
    environment = {"HYPOTHESIS_PROFILE": "hunt", **os.environ}
    while True:
        seed = random.SystemRandom().randrange(10**6) if seed is None else seed
        print(f"seed {seed}", flush=True)
        words = (*(tests or ("tests/fuzz",)), "-q", "-x", "--timeout=0", f"--hypothesis-seed={seed}")
        if code := subprocess.run([sys.executable, "-m", "pytest", *words], env=environment).returncode:
            sys.exit(code)
        seed = None
        if time.monotonic() > end:
            return


if __name__ == "__main__":
    main()
