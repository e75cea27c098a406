"""/openapi.json"""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor

import msgspec
from litestar import Response, get

from service.api.auth import PUBLIC

_thread = ThreadPoolExecutor(1, thread_name_prefix="description")


@get(
    "/openapi.json",
    operation_id="get-openapi",
    include_in_schema=False,
    opt={PUBLIC: True},
)
async def get_openapi() -> Response[bytes]:
    """This API's own description."""
    content = await asyncio.get_running_loop().run_in_executor(_thread, _encoded)
    return Response(content, media_type="application/json")


@functools.cache
def _encoded() -> bytes:
    """Anybody may ask, so it is made once, and by one thread: many may ask before it is there."""
    from service.api.openapi import document  # it describes this handler too

    return msgspec.json.encode(document())
