"""/metrics"""

from __future__ import annotations

from litestar import Response, get

from service.api.auth import PUBLIC
from service.api.deps import ClockDep, EngineDep, RedisDep, RequestTimesDep
from service.api.metrics import CONTENT_TYPE, render
from service.operations.measure import measure


@get(
    "/metrics",
    operation_id="get-metrics",
    tags=["health"],
    media_type="text/plain",
    sync_to_thread=True,
    opt={PUBLIC: True},
)
def get_metrics(
    engine: EngineDep, redis: RedisDep, clock: ClockDep, request_times: RequestTimesDep
) -> Response[bytes]:
    """Prometheus' text format. Answers also while a store is away (`muster_up`)."""
    now = clock.now()
    text = render(measure(engine, redis, now=now), now=now) + request_times.render()
    return Response(text, headers={"Content-Type": CONTENT_TYPE})
