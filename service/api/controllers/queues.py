"""/v1/queues"""

from __future__ import annotations

from litestar import Controller, delete, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody

from service.api.auth import require_admin
from service.api.body import StrictJson
from service.api.deps import BellsDep, ClockDep, EngineDep, PrincipalDep
from service.api.schemas.queue import QueueAnswer, QueueList, queue_answer
from service.operations import queues
from service.operations.delete_queue import delete_queue
from service.operations.read_queues import get_queue, list_queues
from service.points import reach
from service.wire.queue import QueuePatch, QueueRequest
from service.wire.queue_reading import changed_settings, new_settings


class QueuesController(Controller):
    path = "/v1/queues"
    tags = ["queues"]

    @post(
        operation_id="create-queue", guards=[require_admin], dto=StrictJson[QueueRequest], sync_to_thread=True
    )
    def create_queue(
        self,
        data: JSONBody[QueueRequest],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> QueueAnswer:
        """Make a queue (admin)."""
        queues.create_queue(engine, new_settings(data), actor=principal.user, now=clock.now())
        reach("api.queue-created")
        bells.wake_cycles()
        return queue_answer(get_queue(engine, data.name, principal=principal))

    @get(operation_id="list-queues", sync_to_thread=True)
    def list_queues(self, engine: EngineDep, principal: PrincipalDep) -> QueueList:
        """The queues that the caller may submit to, by name; for operators all."""
        return QueueList(queues=[queue_answer(view) for view in list_queues(engine, principal)])

    @get("/{queue_name:str}", operation_id="get-queue", sync_to_thread=True)
    def get_queue(self, queue_name: FromPath[str], engine: EngineDep, principal: PrincipalDep) -> QueueAnswer:
        """One queue with what it holds and what is asked of it."""
        return queue_answer(get_queue(engine, queue_name, principal=principal))

    @patch(
        "/{queue_name:str}",
        operation_id="update-queue",
        guards=[require_admin],
        dto=StrictJson[QueuePatch],
        sync_to_thread=True,
    )
    def update_queue(
        self,
        queue_name: FromPath[str],
        data: JSONBody[QueuePatch],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> QueueAnswer:
        """Change a queue (admin). Lowering a quota or limit evicts nobody; `hold_and_drain` does."""
        pool_ids = queues.change_queue(
            engine,
            queue_name,
            change=lambda before: changed_settings(before, data),
            actor=principal.user,
            now=clock.now(),
        )
        reach("api.queue-changed")
        bells.wake_cycles()
        bells.ring_dispatchers(pool_ids)
        return queue_answer(get_queue(engine, queue_name, principal=principal))

    @delete(
        "/{queue_name:str}",
        operation_id="delete-queue",
        guards=[require_admin],
        status_code=202,
        sync_to_thread=True,
    )
    def delete_queue(
        self,
        queue_name: FromPath[str],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
        drain: FromQuery[bool] = False,
    ) -> QueueAnswer:
        """Delete a queue (admin) in which no group waits or lives. With `drain` all of its groups are
        cancelled first, and it goes when the last of them has ended. Answers what it was."""
        before = get_queue(engine, queue_name, principal=principal)
        pool_ids = delete_queue(engine, queue_name, has_drain=drain, actor=principal.user, now=clock.now())
        reach("api.queue-deleted")
        bells.wake_cycles()
        bells.ring_dispatchers(pool_ids)
        return queue_answer(before)
