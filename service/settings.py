"""Settings: one frozen struct, read once from MUSTER_* variables. Every one has a working default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

#: Longer than anybody waits, and no infinity.
_LONG = 1e9
Seconds = Annotated[float, msgspec.Meta(gt=0, le=_LONG)]
Count = Annotated[int, msgspec.Meta(ge=1)]
#: As names are everywhere on the wire.
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
_LEVEL = r"[^\s,]+"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds. The environment variable of a field is MUSTER_ and its name in capitals."""

    #: PostgreSQL, as SQLAlchemy names it. The worker needs a direct connection, without a pooler between.
    database_url: str = "postgresql+psycopg://muster@127.0.0.1:5432/muster"
    #: Redis or Valkey: `redis://`, `rediss://` or `unix://`.
    redis_url: str = "redis://127.0.0.1:6379/0"
    #: Logs of members, the launcher's records and keys made at first start.
    data: Path = Path("/var/lib/muster")
    #: Where processes leave their signs of life, for `muster health`: a folder of this machine or container
    #: alone. Else `run/health` in the data folder.
    runtime: Path | None = None
    #: The address that the API listens on.
    host: str = "127.0.0.1"
    #: The API's port; 0 lets the system choose.
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8420
    #: 32 bytes, url-safe base64: encrypts secrets. Else a file `secret.key` in the data folder.
    secret_key: str | None = None
    #: The admin's key. Else made at first start in `admin.key` in the data folder.
    api_key: str | None = None
    #: `json`, `text`, or `auto`: text at a terminal, else JSON.
    log_format: Annotated[str, msgspec.Meta(pattern="^(json|text|auto)\\Z")] = "auto"
    #: DEBUG, INFO, WARNING or ERROR.
    log_level: Annotated[str, msgspec.Meta(pattern="^(?i:DEBUG|INFO|WARNING|ERROR)\\Z")] = "INFO"

    #: Connections, and threads, of one API process.
    api_pool_size: Count = 16
    #: Event streams and followed logs open at once in one API process; more get 429.
    max_streams: Count = 1024
    #: The same of one user.
    max_streams_per_user: Count = 600
    #: Requests that one key may send in a second to one API process; more get 429. A body counts as one
    #: more for each 64 KiB. 0: no limit.
    key_requests_per_second: Annotated[float, msgspec.Meta(ge=0, le=_LONG)] = 5000.0
    #: How many of them may come at once after a pause.
    key_requests_burst: Count = 10_000
    #: Requests without a key, or with a wrong one, that one address may send in a second.
    wrong_keys_per_second: Annotated[float, msgspec.Meta(ge=0, le=_LONG)] = 10.0
    #: How many of them may come at once after a pause.
    wrong_keys_burst: Count = 100
    #: Addresses of proxies, separated by commas, that are believed about whom a request comes from
    #: (X-Forwarded-For).
    trusted_proxies: str = ""
    #: Connections of clients to one API process. Beyond them one on which nothing is asked is closed.
    max_connections: Count = 4096
    #: A request's head has to come within this; else 408.
    request_head_seconds: Seconds = 10.0
    #: Its body has to come within this; else 408.
    request_body_seconds: Seconds = 30.0
    #: A client that takes nothing of its answer or stream for so long is cut off.
    unread_answer_seconds: Seconds = 30.0

    #: How long a leader's or dispatcher's lease lasts without renewal.
    lease_seconds: Seconds = 10.0
    #: A cycle, or pass of a dispatcher, that takes longer is one that hangs: its lease is not renewed, so
    #: that another may take over. A slow launcher loses nothing by it while nobody else wants the pool.
    cycle_bound_seconds: Seconds = 60.0
    #: Rest after a cycle that admitted nothing (J2), unless places are given back meanwhile.
    cycle_rest_seconds: Annotated[float, msgspec.Meta(ge=0, le=_LONG)] = 0.015
    #: How long one job runs cycles while changes keep coming (J1).
    cycle_job_seconds: Seconds = 1.0
    #: For so many blocked heads of a cohort and flavor places are kept until a date: 1 is EASY backfill,
    #: `all` conservative, 0 none.
    reserve_depth: Annotated[str, msgspec.Meta(pattern="^(all|[0-9]{1,6})\\Z")] = "1"
    #: After so long without anything but places, places are kept for a group whatever their date.
    guard_seconds: Seconds = 86_400.0
    #: What was used and is over counts half after so long when waiting groups are ordered; 0: only what is
    #: held now counts.
    half_life_seconds: Annotated[float, msgspec.Meta(ge=0, le=_LONG)] = 0.0
    #: What a preemption costs on each GPU besides the work that is lost with it: victims of equal priority
    #: are chosen by it.
    restart_cost_seconds: Annotated[float, msgspec.Meta(ge=0, le=_LONG)] = 60.0
    #: So much work of each GPU counts at most as lost.
    lost_work_cap_seconds: Annotated[float, msgspec.Meta(ge=0, le=_LONG)] = 86_400.0
    #: A preemption for a fair share that would lose more GPU-seconds is not made; `none`: no bound.
    fair_share_price_seconds: Annotated[str, msgspec.Meta(pattern="^(none|[0-9]{1,15})\\Z")] = "none"
    #: So long may a minimum runtime, or evictions of the same day, delay whoever takes nominal quota back.
    reclaim_delay_seconds: Annotated[float, msgspec.Meta(ge=0, le=_LONG)] = 0.0
    #: An elastic group is not resized again before.
    resize_interval_seconds: Seconds = 600.0
    #: The ticker's period: a lost wake-up costs one tick.
    tick_seconds: Seconds = 1.0
    #: A process is well as long as its main loop has come round within so long (`muster health`): longer
    #: than the periods of ticker and dispatcher.
    health_seconds: Seconds = 10.0
    #: The dispatcher looks at everything this often, also when nobody rings.
    dispatcher_poll_seconds: Seconds = 1.0

    #: The pool that a dispatcher serves.
    pool: Name = "local"
    #: By which launcher: `local` or `simulated`.
    launcher: Annotated[str, msgspec.Meta(pattern="^(local|simulated)\\Z")] = "local"
    #: The pool's topology levels, outermost first, separated by commas.
    levels: Annotated[str, msgspec.Meta(pattern=rf"^\s*{_LEVEL}\s*(,\s*{_LEVEL}\s*)*\Z")] = "host"
    #: Declared nodes, COUNTxGPUSxMODEL separated by commas (`1x8xH100-80GB`). Empty: this machine, with
    #: the GPUs that NVML shows.
    nodes: str = ""

    #: Refused dispatches in all after which a group is Failed.
    max_dispatches: Count = 5
    #: The wait after the first of them.
    dispatch_backoff_seconds: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 30
    #: What survives SIGKILL for so long makes its devices lost and frees the group.
    kill_patience_seconds: Annotated[float, msgspec.Meta(ge=0, le=_LONG)] = 60.0
    #: A log of a member is cut off at this size, oldest first.
    log_limit_bytes: Count = 64 * 1024 * 1024

    #: Groups are dropped, with their events and usage, so many days after their end; 0 keeps them for
    #: ever. A group that was submitted with an Idempotency-Key stays for at least 7 days (K1).
    retention_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 30
    #: How often the ticker looks for such groups.
    retention_period_seconds: Seconds = 60.0
    #: How long it drops them at a stretch.
    retention_run_seconds: Seconds = 5.0


def settings_from(environ: Mapping[str, str]) -> Settings:
    """Read MUSTER_* variables. A malformed one is a ValueError that names it; unknown ones are ignored."""
    known = {f"MUSTER_{field.name.upper()}": field.name for field in msgspec.structs.fields(Settings)}
    values = {known[name]: value for name, value in environ.items() if name in known}
    try:
        return msgspec.convert(values, Settings, strict=False, dec_hook=lambda kind, value: kind(value))
    except msgspec.ValidationError as error:
        # The path of the field is told as the variable that it came from. The value may be a secret.
        told = re.sub(r" - at `\$\.(\w+)`", lambda found: f" - MUSTER_{found[1].upper()}", str(error))
        raise ValueError(f"a setting is wrong: {told}") from None
