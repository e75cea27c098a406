"""/openapi.json"""

from __future__ import annotations

import functools

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
    return Response(_encoded(), media_type="application/json")


@functools.cache
def _encoded() -> bytes:
    """Anybody may ask, so it is made once."""
    from service.api.openapi import document  # it describes this handler too

    return msgspec.json.encode(document())
