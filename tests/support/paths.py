"""The folder of the repository, for tests that read its files."""

from pathlib import Path

#: The repository's root.
ROOT = Path(__file__).parents[2]
