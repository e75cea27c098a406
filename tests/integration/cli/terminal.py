"""Commands at a terminal of their own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

from tests.serving import KEY

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def at_terminal(url: str, *arguments: str, columns: int = 100, code: int = 0, **environ: str) -> str:
    """Run a command at a terminal of its own; what it wrote there, with its colours. `code`: how it ends."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {
        "PATH": os.environ["PATH"],
        "TERM": "xterm-256color",
        "MUSTER_URL": url,
        "MUSTER_API_KEY": KEY,
    } | environ
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "service.cli", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
        assert process.wait(30) == code, written
    return written.decode()


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in _ESCAPE.sub("", text).splitlines()]
