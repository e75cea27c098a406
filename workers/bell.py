"""A bell of Redis, heard while something else is done and waited for to the millisecond."""

from __future__ import annotations

import redis

from service.points import reach


class Bell:
    """Rings of one list, on a connection of its own on which BLPOP is always under way: who waits looks
    at the connection. (A BLPOP with a short timeout of its own ends when the server next looks at its
    clock, a tenth of a second later.) Not thread-safe. Methods raise redis' errors and can be called
    again.
    """

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client = client
        self._key = key
        self._connection: redis.Connection | None = None
        self._is_asked = False

    def wait(self, seconds: float) -> bytes | None:
        """What was rung since the last time, or within so many seconds; None if nothing was."""
        try:
            connection = self._ask()
            if not connection.can_read(timeout=seconds):
                return None
            _, rung = connection.read_response()
        except redis.RedisError:
            self.close()
            raise
        self._is_asked = False
        reach("worker.bell-heard")
        value: bytes = rung
        return value

    def forget(self) -> None:
        """Hear no more of what has been heard by this connection. The list itself is the caller's."""
        while self._is_asked and self.wait(0) is not None:
            pass

    def close(self) -> None:
        """Listen no more: a ring that comes later is for somebody else."""
        if self._connection is not None:
            self._connection.disconnect()
            self._client.connection_pool.release(self._connection)
        self._connection, self._is_asked = None, False

    def _ask(self) -> redis.Connection:
        if self._connection is None:
            self._connection = self._client.connection_pool.get_connection()
        if not self._is_asked:
            self._connection.send_command("BLPOP", self._key, 0)
            self._is_asked = True
        return self._connection
