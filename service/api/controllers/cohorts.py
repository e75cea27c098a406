"""/v1/cohorts"""

from __future__ import annotations

from litestar import Controller, delete, get, patch, post
from litestar.params import FromPath, JSONBody

from service.api.auth import require_admin
from service.api.body import StrictJson
from service.api.deps import BellsDep, ClockDep, EngineDep, PrincipalDep
from service.api.schemas.cohort import CohortAnswer, CohortList, cohort_answer
from service.operations import cohorts
from service.operations.read_cohorts import get_cohort, list_cohorts
from service.points import reach
from service.wire.cohort import CohortPatch, CohortRequest, changed_cohort, new_cohort


class CohortsController(Controller):
    path = "/v1/cohorts"
    tags = ["cohorts"]

    @post(
        operation_id="create-cohort",
        guards=[require_admin],
        dto=StrictJson[CohortRequest],
        sync_to_thread=True,
    )
    def create_cohort(
        self,
        data: JSONBody[CohortRequest],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> CohortAnswer:
        """Make a cohort (admin)."""
        cohorts.create_cohort(engine, new_cohort(data), actor=principal.user, now=clock.now())
        reach("api.cohort-created")
        bells.wake_cycles()
        return cohort_answer(get_cohort(engine, data.name, principal=principal))

    @get(operation_id="list-cohorts", sync_to_thread=True)
    def list_cohorts(self, engine: EngineDep, principal: PrincipalDep) -> CohortList:
        """All cohorts, by name. Queues of other tenants are not named, only counted in what is used."""
        return CohortList(cohorts=[cohort_answer(view) for view in list_cohorts(engine, principal)])

    @get("/{cohort_name:str}", operation_id="get-cohort", sync_to_thread=True)
    def get_cohort(
        self, cohort_name: FromPath[str], engine: EngineDep, principal: PrincipalDep
    ) -> CohortAnswer:
        """One cohort with its members and what they hold."""
        return cohort_answer(get_cohort(engine, cohort_name, principal=principal))

    @patch(
        "/{cohort_name:str}",
        operation_id="update-cohort",
        guards=[require_admin],
        dto=StrictJson[CohortPatch],
        sync_to_thread=True,
    )
    def update_cohort(
        self,
        cohort_name: FromPath[str],
        data: JSONBody[CohortPatch],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> CohortAnswer:
        """Change a cohort (admin). Lowering a quota or limit evicts nobody."""
        cohorts.change_cohort(
            engine,
            cohort_name,
            change=lambda before: changed_cohort(before, data),
            actor=principal.user,
            now=clock.now(),
        )
        reach("api.cohort-changed")
        bells.wake_cycles()
        return cohort_answer(get_cohort(engine, cohort_name, principal=principal))

    @delete(
        "/{cohort_name:str}",
        operation_id="delete-cohort",
        guards=[require_admin],
        status_code=202,
        sync_to_thread=True,
    )
    def delete_cohort(
        self,
        cohort_name: FromPath[str],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> CohortAnswer:
        """Delete a cohort (admin) that nothing is in. Answers what it was."""
        before = get_cohort(engine, cohort_name, principal=principal)
        cohorts.delete_cohort(engine, cohort_name, actor=principal.user, now=clock.now())
        reach("api.cohort-deleted")
        bells.wake_cycles()
        return cohort_answer(before)
