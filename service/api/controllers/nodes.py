"""/v1/nodes"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from litestar import Controller, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from service.api.auth import require_operator
from service.api.body import StrictJson
from service.api.deps import BellsDep, ClockDep, EngineDep, PrincipalDep
from service.api.schemas.node import DrainRequest, NodeAnswer, NodeList, node_answer
from service.operations import nodes
from service.points import reach
from service.store.nodes import NodeFilter
from service.wire.patterns import NO_NUL
from service.wire.values import seconds_of

FilterText: TypeAlias = Annotated[str | None, QueryParameter(min_length=1, max_length=128, pattern=NO_NUL)]


class NodesController(Controller):
    path = "/v1/nodes"
    tags = ["nodes"]

    @get(operation_id="list-nodes", sync_to_thread=True)
    def list_nodes(
        self,
        engine: EngineDep,
        principal: PrincipalDep,
        pool: FilterText = None,
        model: FilterText = None,
        is_ready: FromQuery[bool | None] = None,
        is_cordoned: FromQuery[bool | None] = None,
    ) -> NodeList:
        """Nodes by name, with their GPUs; all of them, or those that match every filter."""
        wanted = NodeFilter(pool=pool, model=model, is_ready=is_ready, is_cordoned=is_cordoned)
        found = nodes.list_nodes(engine, wanted)
        return NodeList(nodes=[node_answer(node, is_operator=principal.is_operator) for node in found])

    @get("/{node_name:str}", operation_id="get-node", sync_to_thread=True)
    def get_node(self, node_name: FromPath[str], engine: EngineDep, principal: PrincipalDep) -> NodeAnswer:
        """One node with its GPUs."""
        return node_answer(nodes.get_node(engine, node_name), is_operator=principal.is_operator)

    @post(
        "/{node_name:str}/cordon",
        operation_id="cordon-node",
        guards=[require_operator],
        status_code=200,
        sync_to_thread=True,
    )
    def cordon_node(
        self,
        node_name: FromPath[str],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> NodeAnswer:
        """Place nothing more on the node (operator). What runs there goes on."""
        node = nodes.cordon(engine, node_name, actor=principal.user, now=clock.now())
        reach("api.node-cordoned")
        bells.wake_cycles()
        return node_answer(node, is_operator=True)

    @post(
        "/{node_name:str}/uncordon",
        operation_id="uncordon-node",
        guards=[require_operator],
        status_code=200,
        sync_to_thread=True,
    )
    def uncordon_node(
        self,
        node_name: FromPath[str],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> NodeAnswer:
        """End cordon and drain (operator)."""
        node = nodes.uncordon(engine, node_name, actor=principal.user, now=clock.now())
        reach("api.node-uncordoned")
        bells.wake_cycles()
        bells.ring_dispatchers([node.pool_id])
        return node_answer(node, is_operator=True)

    @post(
        "/{node_name:str}/drain",
        operation_id="drain-node",
        guards=[require_operator],
        dto=StrictJson[DrainRequest | None],
        status_code=200,
        sync_to_thread=True,
    )
    def drain_node(
        self,
        node_name: FromPath[str],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
        data: JSONBody[DrainRequest | None] = None,
    ) -> NodeAnswer:
        """Cordon, and at the deadline evict and requeue what has a member there (operator)."""
        deadline = (
            None if data is None or data.deadline is None else seconds_of(data.deadline, field="deadline")
        )
        node = nodes.drain(
            engine, node_name, deadline_seconds=deadline, actor=principal.user, now=clock.now()
        )
        reach("api.node-drained")
        bells.wake_cycles()
        bells.ring_dispatchers([node.pool_id])
        return node_answer(node, is_operator=True)
