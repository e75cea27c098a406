"""When to look at groups again: as soon as something has happened to one of them.

Each group's events are followed by a thread of its own. Where that does not work, or there are too many
groups for it, they are looked at again and again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from service.client.errors import ClientError

if TYPE_CHECKING:
    from service.client.address import Address

#: More groups than this are not followed.
_MOST_FOLLOWED = 8
#: Between two looks at groups that are followed: what a group waits for changes without an event of its own.
_QUIET_SECONDS = 3.0
_ASK_SECONDS = 0.5
_RETRY_SECONDS = 1.0


class News:
    """About the groups `ids` at `address`, while the block lasts."""

    def __init__(self, address: Address, ids: Sequence[str]) -> None:
        self._address = address
        self._ids = list(ids) if len(ids) <= _MOST_FOLLOWED else []
        self._changed = threading.Condition()
        self._told: set[str] = set()
        self._followed: set[str] = set()
        self._is_over = False
        for group_id in self._ids:
            # Ends with its stream; a program that ends does not wait for it.
            threading.Thread(target=self._follow, args=[group_id], daemon=True).start()

    def close(self) -> None:
        self._is_over = True

    def wait(self, ids: Collection[str]) -> Collection[str]:
        """Those of `ids` to look at now: to which something has happened, or all if it is time."""
        with self._changed:
            is_followed = self._followed.issuperset(ids)
            seconds = _QUIET_SECONDS if is_followed else _ASK_SECONDS
            self._changed.wait_for(lambda: bool(self._told), seconds)
            told, self._told = self._told, set()
        return told.intersection(ids) or ids

    def _follow(self, group_id: str) -> None:
        """Until the group has ended. Each stream begins behind what the one before has told."""
        from service.client import Client

        last_id = 0
        while not self._is_over:
            try:
                with Client(self._address) as client:
                    for event in client.events(group_id).follow(after=last_id):
                        last_id = event.id
                        self._tell(group_id)
                self._tell(group_id)
                return
            except ClientError:
                with self._changed:
                    self._followed.discard(group_id)
                time.sleep(_RETRY_SECONDS)

    def _tell(self, group_id: str) -> None:
        with self._changed:
            self._followed.add(group_id)
            self._told.add(group_id)
            self._changed.notify()
