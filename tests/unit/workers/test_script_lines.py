"""Lines of Lua sources, which no formatter looks at."""

from importlib import resources

import pytest

FILES = [
    (package, file.name)
    for package in ("scalers", "scheduler", "workers")
    for file in sorted((resources.files(package) / "lua").iterdir(), key=lambda file: file.name)
    if file.name.endswith(".lua")
]


@pytest.mark.parametrize(("package", "name"), FILES)
def test_a_line_is_as_long_as_one_of_python_at_most(package: str, name: str) -> None:
    text = (resources.files(package) / "lua" / name).read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > 120] == []
