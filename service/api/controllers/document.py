"""/openapi.json"""

from __future__ import annotations

import msgspec
from litestar import Response, get

from service.api.auth import PUBLIC


@get(
    "/openapi.json",
    operation_id="get-openapi",
    include_in_schema=False,
    sync_to_thread=True,
    opt={PUBLIC: True},
)
def get_openapi() -> Response[bytes]:
    """This API's own description."""
    from service.api.openapi import document  # it describes this handler too

    return Response(msgspec.json.encode(document()), media_type="application/json")
