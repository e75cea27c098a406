"""The bare handler that submits are compared with: the same server, framework, pools and stores, two
inserts in a transaction and one call of Redis. `python -m bench.submit.bare PORT` serves it until SIGTERM."""

from __future__ import annotations

import os
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

import msgspec
import uvicorn
from litestar import Litestar, post
from litestar.concurrency import set_asyncio_executor
from litestar.params import JSONBody
from psycopg.types.json import Jsonb
from sqlalchemy import Engine, text
from uuid_utils.compat import uuid7

from service.inventory.client import make_client
from service.settings import settings_from
from service.store.engine import make_engine

PATH = "/bare"

SCHEMA = """
CREATE SCHEMA IF NOT EXISTS bench;
CREATE TABLE IF NOT EXISTS bench.groups (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, public_id uuid NOT NULL UNIQUE, spec jsonb NOT NULL
);
CREATE TABLE IF NOT EXISTS bench.units (
  id bigint PRIMARY KEY REFERENCES bench.groups (id), status text NOT NULL
)
"""
_GROUP = text("INSERT INTO bench.groups (public_id, spec) VALUES (:public_id, :spec) RETURNING id")
_UNIT = text("INSERT INTO bench.units (id, status) VALUES (:id, 'Pending')")


class BareRequest(msgspec.Struct, frozen=True):
    """The same body as a group's."""

    name: str
    members: int
    gpus: int
    command: list[str]


class BareAnswer(msgspec.Struct, frozen=True):
    id: uuid.UUID


def make_tables(engine: Engine) -> None:
    with engine.begin() as conn:
        conn.execute(text(SCHEMA))


def serve(port: int) -> None:
    """On 127.0.0.1, with the stores of the MUSTER_ variables."""
    settings = settings_from(os.environ)
    engine = make_engine(settings.database_url, pool_size=settings.api_pool_size, application_name="bare")
    redis = make_client(settings.redis_url)
    set_asyncio_executor(ThreadPoolExecutor(settings.api_pool_size))

    @post(PATH, sync_to_thread=True)
    def submit(data: JSONBody[BareRequest]) -> BareAnswer:
        public_id = uuid7()
        with engine.begin() as conn:
            spec = Jsonb(msgspec.to_builtins(data))
            group_id = conn.execute(_GROUP, {"public_id": public_id, "spec": spec}).scalar_one()
            conn.execute(_UNIT, {"id": group_id})
        redis.incr("bench:bare")
        return BareAnswer(id=public_id)

    app = Litestar([submit], openapi_config=None, logging_config=None)
    uvicorn.run(app, host="127.0.0.1", port=port, log_config=None, access_log=False)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
