"""Lines of a log file, plain or gzip, one at a time."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from simulation.logs.log import LogWrong

_GZIP = b"\x1f\x8b"


def text_lines(path: Path) -> Iterator[str]:
    """Each line with its end. Raises LogWrong if the file cannot be read, is no text in UTF-8, or is gzip
    that breaks off."""
    number = 0
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, start=1):
                if "\0" in line:
                    raise LogWrong(f"{path}, line {number}: holds a zero byte, so it is no text")
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LogWrong(
            f"{path}, line {number + 1}: the compressed file breaks off or is damaged here ({error}); "
            "copy it again"
        ) from None
    except UnicodeDecodeError as error:
        at = f"{path}, line {number + 1} or a little later"
        raise LogWrong(f"{at}: no text in UTF-8: {error.reason}") from None
    except OSError as error:
        raise LogWrong(f"{path} cannot be read: {error.strerror or error}") from None


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as file:
        is_gzip = file.read(2) == _GZIP
    # Spreadsheets begin with a mark of the byte order.
    if is_gzip:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
