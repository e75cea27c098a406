"""Folders that belong to one user alone, and socket paths that the system accepts."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import stat
from dataclasses import dataclass
from pathlib import Path

# The system's limit is 108 bytes on Linux and 104 on macOS; PostgreSQL adds a suffix while it locks.
LONGEST_SOCKET_PATH = 90

# Clients take paths apart: redis-py at white space, libpq at commas, URLs at most of the rest.
_PLAIN_PATH = re.compile(rb"[A-Za-z0-9/._+-]+")


class FolderUnusable(Exception):
    """A folder belongs to somebody else, or the server's user cannot reach it."""


@dataclass(frozen=True)
class ServerUser:
    """The user that a server runs as."""

    uid: int
    gid: int

    @classmethod
    def of_caller(cls) -> ServerUser:
        return cls(os.geteuid(), os.getegid())

    @property
    def is_me(self) -> bool:
        return self.uid == os.geteuid()


def unprivileged_user() -> ServerUser:
    """The caller, or `nobody` if the caller is root: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return ServerUser.of_caller()
    nobody = pwd.getpwnam("nobody")
    return ServerUser(nobody.pw_uid, nobody.pw_gid)


def make_private_folder(path: Path, user: ServerUser) -> Path:
    """Make `path` (0700) for `user` alone; one that is there must be nobody else's.

    Raises FolderUnusable if it is a link, no folder, or owned by a third user: the name of a folder
    under /tmp can be guessed and taken by another user first.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {os.geteuid(), user.uid}:
        raise FolderUnusable(f"{path} is not a folder of this user: remove it or choose another place")
    if found.st_uid != user.uid:
        os.chown(path, user.uid, user.gid)
    path.chmod(0o700)
    return path


def is_reachable(path: Path, user: ServerUser) -> bool:
    """Tell whether `user` may pass through every folder above `path`."""
    if user.is_me:
        return True
    return all(_may_pass(folder.stat(), user) for folder in path.resolve().parents if folder.exists())


def choose_socket_folder(wanted: Path, socket_name: str, *, user: ServerUser) -> Path:
    """Make and return `wanted`, or a short folder under /tmp if that is too long, not plain or out of reach.

    The short one is named after `wanted` and the caller, so that a later start finds the same.
    """
    wanted = wanted.absolute()
    path = os.fsencode(wanted / socket_name)
    is_usable = len(path) <= LONGEST_SOCKET_PATH and _PLAIN_PATH.fullmatch(path) is not None
    if is_usable and is_reachable(wanted, user):
        return make_private_folder(wanted, user)
    digest = hashlib.sha256(os.fsencode(wanted)).hexdigest()[:16]
    return make_private_folder(Path("/tmp") / f"muster-{os.geteuid()}-{digest}", user)  # noqa: S108


def _may_pass(found: os.stat_result, user: ServerUser) -> bool:
    if found.st_uid == user.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == user.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)
