"""Who calls: the user, tenant and role of a key."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class KeyRole(StrEnum):
    """`user` sees and changes own groups; `operator` every group and node; `admin` also queues
    and keys."""

    USER = "user"
    OPERATOR = "operator"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    tenant: str
    user: str
    role: KeyRole

    @property
    def is_operator(self) -> bool:
        return self.role in (KeyRole.OPERATOR, KeyRole.ADMIN)

    @property
    def is_admin(self) -> bool:
        return self.role is KeyRole.ADMIN

    def may_see(self, *, tenant: str, owner: str) -> bool:
        """Only the owner, an operator or an admin may read a group's details or change it."""
        return self.is_operator or (tenant == self.tenant and owner == self.user)
