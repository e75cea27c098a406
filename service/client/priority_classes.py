"""Priority classes: names for priorities."""

from __future__ import annotations

from msgspec import Struct

from service.client.deleting import delete
from service.client.transport import Transport, segment


class PriorityClass(Struct, frozen=True, kw_only=True):
    name: str
    value: int


class _PriorityClassList(Struct, frozen=True):
    priority_classes: list[PriorityClass]


class PriorityClasses:
    """Reading is for everybody, changing for admins."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def list(self) -> list[PriorityClass]:
        """The highest first."""
        return self._ask("GET", "/v1/priority-classes", _PriorityClassList).priority_classes

    def get(self, name: str) -> PriorityClass:
        return self._ask("GET", _path(name), PriorityClass)

    def put(self, name: str, value: int) -> PriorityClass:
        """Make it, or give it another value, for groups that are submitted from now on."""
        return self._ask("PUT", _path(name), PriorityClass, body={"value": value})

    def delete(self, name: str) -> PriorityClass:
        """The class as it was."""
        before = self.get(name)
        return delete(lambda: self._ask("DELETE", _path(name), PriorityClass), before=before)


def _path(name: str) -> str:
    return f"/v1/priority-classes/{segment(name)}"
