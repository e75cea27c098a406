"""Ends the servers in a folder when the process that started this one is gone, however it ended.

usage: python -m tests.watcher FOLDER     (with a pipe as standard input)
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from workers.embedded.record import RECORD, end_leftover


def main(folder: Path) -> None:
    """Wait for the end of standard input, then end what `folder` still has running."""
    sys.stdin.buffer.read()
    for record in folder.rglob(RECORD):
        end_leftover(record.parent)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
