"""/v1/inventory"""

from __future__ import annotations

from litestar import Controller, get

from service.api.auth import require_operator
from service.api.deps import ClockDep, EngineDep, PrincipalDep, RedisDep
from service.api.schemas.inventory import AuditAnswer, InventoryAnswer, audit_answer, inventory_answer
from service.operations.audit import audit
from service.operations.inventory import read_inventory


class InventoryController(Controller):
    path = "/v1/inventory"
    tags = ["inventory"]

    @get(operation_id="get-inventory", sync_to_thread=True)
    def get_inventory(self, engine: EngineDep, redis: RedisDep, principal: PrincipalDep) -> InventoryAnswer:
        """The live ledger of places: capacity, free, held and lost, node by node."""
        return inventory_answer(read_inventory(engine, redis, principal=principal))

    @get("/audit", operation_id="audit-inventory", guards=[require_operator], sync_to_thread=True)
    def audit_inventory(self, engine: EngineDep, redis: RedisDep, clock: ClockDep) -> AuditAnswer:
        """Compare PostgreSQL, the ledger and what runs (operator). Every difference is named."""
        return audit_answer(audit(engine, redis, now=clock.now()))
