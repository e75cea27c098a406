"""Requests with timeouts and retries; answers that are errors become exceptions."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import msgspec

from service.client.address import Address
from service.client.body import check_body, encode_body
from service.client.errors import AddressWrong, ApiError, Unintelligible, Unreachable, Unsendable, WrongField

T = TypeVar("T")

#: So long a server may be silent before it has answered.
ANSWER_SECONDS = 30.0
_CONNECT_SECONDS = 3.0
#: A stream may be silent for long; the server sends a sign of life more often than this.
STREAM_TIMEOUT = httpx2.Timeout(None, connect=_CONNECT_SECONDS, read=90.0)

#: Pauses before the second, third, ... attempt.
_PAUSES = (0.2, 0.6)
#: The same for what was too much: nothing was done, and there is a time at which it will not be.
_TOO_MANY = 429
_PATIENT_PAUSES = (1.0,) * 5
_LONGEST_PAUSE_SECONDS = 5.0
#: Those who were refused together do not come again together.
_SPREAD = 0.3
#: Answers that say "not now": too much at once, a store away, no server behind the proxy.
NOT_NOW = frozenset({429, 502, 503, 504})


class _Problem(msgspec.Struct):
    title: str = ""
    detail: str = ""
    errors: list[dict[str, str]] = []


class Transport:
    """One connection pool to one server. Not to be shared between threads. Raises AddressWrong."""

    def __init__(
        self, address: Address, *, answer_seconds: float = ANSWER_SECONDS, is_patient: bool = True
    ) -> None:
        self.url = address.url
        self._is_patient = is_patient
        headers = {"Authorization": f"Bearer {address.key}"} if address.key else {}
        try:
            self._http = httpx2.Client(
                base_url=address.url,
                headers=headers,
                timeout=httpx2.Timeout(answer_seconds, connect=_CONNECT_SECONDS),
                trust_env=not _is_local(address.url),
            )
        except httpx2.InvalidURL as error:
            raise AddressWrong(f"{address.url!r} is not the address of a server: {error}") from None

    def close(self) -> None:
        self._http.close()

    def ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool = True,
    ) -> T:
        """Send and decode the answer as `kind`.

        A request that may be repeated without harm is, a few times, when the connection breaks or the
        server says "not now"; any is when the server says that it was too much. Raises ApiError,
        Unreachable, Unintelligible or Unsendable.
        """
        content = None if body is None else encode_body(body)
        check_body(headers or {})
        given = {**(headers or {}), **({} if content is None else {"Content-Type": "application/json"})}
        request = self._http.build_request(
            method, path, params=_present(query or {}), content=content, headers=given
        )
        answer = self._send(request, is_repeatable=is_repeatable)
        return self._decode(answer, kind)

    def fetch(self, path: str, *, query: Mapping[str, Any] | None = None) -> httpx2.Response:
        """GET something that is no JSON. Raises like `ask`."""
        request = self._http.build_request("GET", path, params=_present(query or {}))
        answer = self._send(request, is_repeatable=True)
        if answer.is_error:
            raise _api_error(answer)
        return answer

    @contextmanager
    def stream(
        self, path: str, *, query: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[httpx2.Response]:
        """Open a GET whose body is read as it comes. Raises like `ask`, also while it is read."""
        try:
            with self._http.stream(
                "GET", path, params=_present(query or {}), headers=headers, timeout=STREAM_TIMEOUT
            ) as answer:
                if answer.is_error:
                    answer.read()
                    raise _api_error(answer)
                yield answer
        except httpx2.TransportError as error:
            raise Unreachable(self.url, _say(error)) from error

    def _send(self, request: httpx2.Request, *, is_repeatable: bool) -> httpx2.Response:
        pauses = iter(_PAUSES if is_repeatable and self._is_patient else ())
        patient_pauses = iter(_PATIENT_PAUSES if self._is_patient else ())
        while True:
            try:
                answer = self._http.send(request)
            except httpx2.TransportError as error:
                pause = next(pauses, None)
                if pause is None:
                    raise Unreachable(self.url, _say(error)) from error
            else:
                if answer.status_code not in NOT_NOW:
                    return answer
                pause = next(patient_pauses if answer.status_code == _TOO_MANY else pauses, None)
                if pause is None:
                    return answer
                pause = _retry_after(answer, pause)
            time.sleep(pause * random.uniform(1.0, 1.0 + _SPREAD))

    def _decode(self, answer: httpx2.Response, kind: type[T]) -> T:
        if answer.is_error:
            raise _api_error(answer)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Unintelligible(
                f"the answer of {self.url} is not one that this version understands: {error}"
            ) from None


def segment(text: str) -> str:
    """`text` as one part of a path. Raises Unsendable for what is no text, or none."""
    if not text:
        # It would be another path: that of the list.
        raise Unsendable("", "a name must not be empty")
    try:
        check_body(text)
    except Unsendable as error:
        raise Unsendable("", f"{text!r} {error}") from None
    # A dot or two alone would be taken for a folder.
    return text.replace(".", "%2E") if text in {".", ".."} else quote(text, safe="")


def _api_error(answer: httpx2.Response) -> ApiError:
    try:
        problem = msgspec.json.decode(answer.content, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = _Problem()
    return ApiError(
        status=answer.status_code,
        title=problem.title or answer.reason_phrase,
        detail=problem.detail,
        errors=[WrongField(each.get("field", ""), each.get("message", "")) for each in problem.errors],
    )


def _retry_after(answer: httpx2.Response, pause: float) -> float:
    """What the server asks for in seconds, within bounds; `pause` if it says nothing."""
    wanted = answer.headers.get("Retry-After", "")
    return min(float(wanted), _LONGEST_PAUSE_SECONDS) if wanted.isdigit() else pause


def _present(query: Mapping[str, Any]) -> dict[str, Any]:
    """Raises Unsendable."""
    check_body(query)
    return {name: value for name, value in query.items() if value is not None}


def _is_local(url: str) -> bool:
    """A proxy of the environment is not asked for this machine."""
    return urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}


def _say(error: httpx2.TransportError) -> str:
    return str(error).removeprefix("[Errno 111] ") or type(error).__name__
