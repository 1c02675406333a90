"""deploy/Dockerfile, read: its stages and instructions."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

PATH = ROOT / "deploy" / "Dockerfile"


@dataclass(frozen=True, slots=True)
class Instruction:
    """word: in capitals. rest: what follows it, on one line."""

    word: str
    rest: str

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a command in its JSON form."""
        return tuple(json.loads(self.rest))


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The instructions before the first FROM, then those of each stage, FROM first."""

    stages: tuple[tuple[Instruction, ...], ...]

    @classmethod
    def read(cls, path: Path = PATH) -> "Dockerfile":
        text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
        lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
        stages: list[list[Instruction]] = [[]]
        for word, rest in lines:
            if word == "FROM":
                stages.append([])
            stages[-1].append(Instruction(word, re.sub(r"\s+", " ", rest)))
        return cls(tuple(map(tuple, stages)))

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return tuple(each for stage in self.stages for each in stage)

    def last(self, word: str) -> Instruction:
        """The instruction of the image itself, the last stage."""
        return [each for each in self.stages[-1] if each.word == word][-1]

    @property
    def variables(self) -> Mapping[str, str]:
        """The image's environment."""
        return dict(
            pair.split("=", 1) for each in self.stages[-1] if each.word == "ENV" for pair in each.rest.split(" ")
        )

    @property
    def build(self) -> str:
        """The commands of the first stage, for a shell, without the options of RUN."""
        runs = [re.sub(r"^(--\S+ )+", "", each.rest) for each in self.stages[1] if each.word == "RUN"]
        return "\n".join(runs)
