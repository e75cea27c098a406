"""/metrics"""

from __future__ import annotations

from litestar import Response, get

from service.api.auth import PUBLIC
from service.api.deps import RefusalsDep, RequestTimesDep, ScrapesDep
from service.api.metrics import CONTENT_TYPE


@get(
    "/metrics",
    operation_id="get-metrics",
    tags=["health"],
    media_type="text/plain",
    sync_to_thread=True,
    opt={PUBLIC: True},
)
def get_metrics(
    scrapes: ScrapesDep, request_times: RequestTimesDep, refusals: RefusalsDep
) -> Response[bytes]:
    """Prometheus' text format. Answers also while a store is away (`muster_up`)."""
    text = scrapes.text() + request_times.render() + refusals.render()
    return Response(text, headers={"Content-Type": CONTENT_TYPE})
