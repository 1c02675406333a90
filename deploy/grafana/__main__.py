"""Writes the dashboards: ``python -m deploy.grafana [FOLDER]``, by default this folder."""

import sys
from pathlib import Path

from deploy.grafana import boards, dashboard


def main() -> None:
    """Writes one JSON file per dashboard."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for board in boards.BOARDS:
        (folder / f"{board.uid}.json").write_text(dashboard.render(board), encoding="utf-8")


if __name__ == "__main__":
    main()
