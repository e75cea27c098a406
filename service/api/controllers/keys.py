"""/v1/keys: for admins only."""

from __future__ import annotations

from uuid import UUID

from litestar import Controller, delete, get, post
from litestar.params import FromPath, JSONBody

from service.api.auth import require_admin
from service.api.body import StrictJson
from service.api.deps import ClockDep, EngineDep, KeyRingDep
from service.api.schemas.key import KeyAnswer, KeyList, KeyRequest, NewKeyAnswer, key_answer, new_key_answer
from service.operations import keys


class KeysController(Controller):
    path = "/v1/keys"
    tags = ["keys"]
    guards = [require_admin]

    @post(operation_id="create-key", dto=StrictJson[KeyRequest], sync_to_thread=True)
    def create_key(self, data: JSONBody[KeyRequest], engine: EngineDep, clock: ClockDep) -> NewKeyAnswer:
        """Make a key (admin). It is answered once and stored hashed."""
        made = keys.create_key(engine, tenant=data.tenant, user=data.user, role=data.role, now=clock.now())
        return new_key_answer(made)

    @get(operation_id="list-keys", sync_to_thread=True)
    def list_keys(self, engine: EngineDep) -> KeyList:
        """All keys (admin), revoked ones too, without the keys themselves."""
        return KeyList(keys=[key_answer(record) for record in keys.list_keys(engine)])

    @delete("/{key_id:uuid}", operation_id="revoke-key", status_code=202, sync_to_thread=True)
    def revoke_key(
        self, key_id: FromPath[UUID], engine: EngineDep, clock: ClockDep, key_ring: KeyRingDep
    ) -> KeyAnswer:
        """Revoke a key (admin): refused at once here, within a second by other API processes."""
        record = keys.revoke_key(engine, key_id, now=clock.now())
        key_ring.forget_all()
        return key_answer(record)
