"""The first lines of the `penstock` command, before its command line."""

import gc

import pytest

from penstock import __main__, _deferred_imports, _import_path
from workers.runtime import garbage_collection


def test_an_interrupt_while_modules_are_imported_ends_the_command_like_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_import_path, "forget_current_folder", interrupted)
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 130


def test_the_command_line_is_imported_while_the_collector_looks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    before = gc.get_threshold()
    monkeypatch.setattr("sys.argv", ["penstock", "version"])
    monkeypatch.setattr(_deferred_imports, "spare", lambda _: seen.append(gc.get_threshold()[0]))
    try:
        with pytest.raises(SystemExit):
            __main__.main()
    finally:
        gc.set_threshold(*before)
    assert seen == [garbage_collection.YOUNG], "one number until the process says another"
