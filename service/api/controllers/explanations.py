"""/v1/groups/{id}/position, /reasons and /forecast."""

from __future__ import annotations

from litestar import Controller, get
from litestar.params import FromPath

from service.api.deps import ClockDep, EngineDep, PrincipalDep, RedisDep, SettingsDep
from service.api.schemas.explanation import (
    ForecastAnswer,
    PositionAnswer,
    ReasonsAnswer,
    forecast_answer,
    position_answer,
    reasons_answer,
)
from service.api.schemas.ids import group_id_of
from service.operations import explain_group
from service.operations.forecast_group import forecast_group


class ExplanationsController(Controller):
    path = "/v1/groups/{group_id:str}"
    tags = ["groups"]

    @get("/position", operation_id="get-position", sync_to_thread=True)
    def get_position(
        self,
        group_id: FromPath[str],
        engine: EngineDep,
        redis: RedisDep,
        clock: ClockDep,
        settings: SettingsDep,
        principal: PrincipalDep,
    ) -> PositionAnswer:
        """Where a group stands in its queue and overall, as of the last cycle."""
        now = clock.now()
        standing = explain_group.get_position(
            engine,
            redis,
            public_id=group_id_of(group_id),
            principal=principal,
            now=now,
            guard_seconds=settings.guard_seconds,
        )
        return position_answer(standing, now)

    @get("/reasons", operation_id="get-reasons", sync_to_thread=True)
    def get_reasons(
        self,
        group_id: FromPath[str],
        engine: EngineDep,
        redis: RedisDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> ReasonsAnswer:
        """All reasons why a group, or some members of it, wait."""
        public_id = group_id_of(group_id)
        return reasons_answer(
            explain_group.explain_group(
                engine, redis, public_id=public_id, principal=principal, now=clock.now()
            )
        )

    @get("/forecast", operation_id="get-forecast", sync_to_thread=True)
    def get_forecast(
        self,
        group_id: FromPath[str],
        engine: EngineDep,
        redis: RedisDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> ForecastAnswer:
        """When a group is likely to start, and what that rests on."""
        public_id = group_id_of(group_id)
        return forecast_answer(
            forecast_group(engine, redis, public_id=public_id, principal=principal, now=clock.now())
        )
