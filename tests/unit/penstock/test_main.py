"""The first lines of the `penstock` command, before its command line."""

import pytest

from penstock import __main__, _import_path


def test_an_interrupt_while_modules_are_imported_ends_the_command_like_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_import_path, "forget_current_folder", interrupted)
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 130
