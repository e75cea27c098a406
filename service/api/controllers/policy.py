"""/v1/policy"""

from __future__ import annotations

from litestar import Controller, get, put
from litestar.params import FromQuery, JSONBody

from service.api.auth import require_admin
from service.api.body import StrictJson
from service.api.deps import BellsDep, ClockDep, EngineDep, PrincipalDep
from service.api.schemas.policy import (
    PolicyAnswer,
    PolicyChanges,
    changes_answer,
    policy_answer,
)
from service.operations import apply_policy
from service.points import reach
from service.wire.policy import PolicyRequest, wanted_of


class PolicyController(Controller):
    path = "/v1/policy"
    tags = ["policy"]

    @get(operation_id="get-policy", guards=[require_admin], sync_to_thread=True)
    def get_policy(self, engine: EngineDep) -> PolicyAnswer:
        """All queues, cohorts, priority classes and `scheduling` (admin), as `PUT` takes them."""
        return policy_answer(apply_policy.get_policy(engine))

    @put(
        operation_id="apply-policy",
        guards=[require_admin],
        dto=StrictJson[PolicyRequest],
        sync_to_thread=True,
    )
    def apply_policy(
        self,
        data: JSONBody[PolicyRequest],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
        prune: FromQuery[bool] = False,
        dry_run: FromQuery[bool] = False,
    ) -> PolicyChanges:
        """Make and change queues, cohorts, priority classes and `scheduling`, all of them or nothing (admin).
        `prune` deletes those that are not named, `dry_run` only tells what would change."""
        wanted = wanted_of(data, is_all=prune)
        applied = apply_policy.apply_policy(
            engine, wanted, is_dry_run=dry_run, actor=principal.user, now=clock.now()
        )
        if not dry_run:
            reach("api.policy-applied")
            bells.wake_cycles()
            bells.ring_dispatchers(applied.pool_ids)
        return changes_answer(applied, wanted, is_dry_run=dry_run)
