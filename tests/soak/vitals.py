"""Memory and descriptors of processes over time, and which of them grow. Pure but for `sample`."""

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import psutil

#: Seconds of a process's life that are not looked at, and those that must follow: it imports, connects, fills caches.
WARM, LONG = 45.0, 60.0
#: Growth from the first third of the rest to its last third that is none: a share, and MiB.
SHARE, MIB = 0.15, 12.0
#: The same of descriptors.
DESCRIPTORS = 25


@dataclass(frozen=True, slots=True)
class Vital:
    """age: of the process, seconds. memory: MiB of its own. descriptors: open ones, connections among them."""

    age: float
    memory: float
    descriptors: int


@dataclass
class Vitals:
    """The samples of each process, by the name of its part and its id."""

    samples: dict[tuple[str, int], list[Vital]] = field(default_factory=lambda: defaultdict(list))

    def sample(self, pids: Mapping[str, int], now: float) -> None:
        """Adds a sample of each process that lives. now: epoch seconds."""
        for name, pid in pids.items():
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                memory = process.memory_info()
                own = (memory.rss - getattr(memory, "shared", 0)) / 2**20
                self.samples[name, pid].append(Vital(now - process.create_time(), own, process.num_fds()))

    def growing(self) -> list[str]:
        """Returns the processes that grew after they had warmed up, as text."""
        return [text for (name, _), seen in sorted(self.samples.items()) for text in _growth(name, seen)]

    def rows(self) -> list[tuple[str, str]]:
        """Returns what each part had at most, and how fast it grew at the median of its processes."""
        found = []
        for name in sorted({name for name, _ in self.samples}):
            lives = [_settled(seen) for (each, _), seen in self.samples.items() if each == name]
            slopes = [slope(life) for life in lives if life]
            most = max(vital.memory for (each, _), seen in self.samples.items() if each == name for vital in seen)
            files = max(vital.descriptors for (each, _), seen in self.samples.items() if each == name for vital in seen)
            steady = f"{statistics.median(slopes):+.2f} MiB/min" if slopes else "no life long enough"
            found.append((name, f"{len(lives)} lives, at most {most:.0f} MiB, {files} descriptors, {steady}"))
        return found


def _settled(seen: list[Vital]) -> list[Vital]:
    """The samples after the warm-up, none of a process that did not live long enough."""
    settled = [vital for vital in seen if vital.age > WARM]
    return settled if settled and settled[-1].age - settled[0].age >= LONG else []


def slope(life: list[Vital]) -> float:
    """Returns MiB per minute, by least squares."""
    line = statistics.linear_regression([vital.age for vital in life], [vital.memory for vital in life])
    return float(line.slope) * 60


def _growth(name: str, seen: list[Vital]) -> Iterator[str]:
    life = _settled(seen)
    if not life:
        return
    third = len(life) // 3
    first, last = life[:third], life[-third:]
    minutes = (life[-1].age - life[0].age) / 60
    before, after = (statistics.median(vital.memory for vital in part) for part in (first, last))
    if after > before * (1 + SHARE) + MIB:
        yield f"{name}: from {before:.0f} to {after:.0f} MiB in {minutes:.1f} minutes"
    few, many = max(vital.descriptors for vital in first), min(vital.descriptors for vital in last)
    if many > few + DESCRIPTORS:
        yield f"{name}: from {few} to {many} descriptors in {minutes:.1f} minutes"
