"""/v1/priority-classes"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from litestar import Controller, delete, get, put
from litestar.params import FromPath, JSONBody, PathParameter

from service.api.auth import require_admin
from service.api.body import StrictJson
from service.api.deps import ClockDep, EngineDep, PrincipalDep
from service.api.schemas.priority_class import (
    PriorityClassAnswer,
    PriorityClassList,
    PriorityClassRequest,
)
from service.operations import priority_classes
from service.points import reach
from service.wire.patterns import CLASS

NewName: TypeAlias = Annotated[str, PathParameter(min_length=1, max_length=63, pattern=CLASS)]


class PriorityClassesController(Controller):
    path = "/v1/priority-classes"
    tags = ["priority classes"]

    @get(operation_id="list-priority-classes", sync_to_thread=True)
    def list_priority_classes(self, engine: EngineDep) -> PriorityClassList:
        """All priority classes, the highest first."""
        found = priority_classes.list_priority_classes(engine)
        ordered = sorted(found.items(), key=lambda each: (-each[1], each[0]))
        return PriorityClassList(
            priority_classes=[PriorityClassAnswer(name=name, value=value) for name, value in ordered]
        )

    @get("/{class_name:str}", operation_id="get-priority-class", sync_to_thread=True)
    def get_priority_class(self, class_name: FromPath[str], engine: EngineDep) -> PriorityClassAnswer:
        """One priority class."""
        return PriorityClassAnswer(
            name=class_name, value=priority_classes.get_priority_class(engine, class_name)
        )

    @put(
        "/{class_name:str}",
        operation_id="put-priority-class",
        guards=[require_admin],
        dto=StrictJson[PriorityClassRequest],
        sync_to_thread=True,
    )
    def put_priority_class(
        self,
        class_name: NewName,
        data: JSONBody[PriorityClassRequest],
        engine: EngineDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> PriorityClassAnswer:
        """Make a priority class, or give it another value (admin). Groups that are there keep theirs."""
        priority_classes.put_priority_class(
            engine, class_name, value=data.value, actor=principal.user, now=clock.now()
        )
        reach("api.priority-class-put")
        return PriorityClassAnswer(name=class_name, value=data.value)

    @delete(
        "/{class_name:str}",
        operation_id="delete-priority-class",
        guards=[require_admin],
        status_code=202,
        sync_to_thread=True,
    )
    def delete_priority_class(
        self, class_name: FromPath[str], engine: EngineDep, clock: ClockDep, principal: PrincipalDep
    ) -> PriorityClassAnswer:
        """Delete a priority class (admin). Groups that were submitted with it keep their priority."""
        value = priority_classes.delete_priority_class(
            engine, class_name, actor=principal.user, now=clock.now()
        )
        reach("api.priority-class-deleted")
        return PriorityClassAnswer(name=class_name, value=value)
