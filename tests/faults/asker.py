"""Asks the API without the patience of the client: one request, one answer, as it is on the wire."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx2

from service.client.address import Address

#: While a store is away, nobody waits for long.
_ANSWER_SECONDS = 8.0


class Asker:
    """Requests with the key of `address`, each once."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._headers = {"Authorization": f"Bearer {address.key}"}

    def ok(self, method: str, path: str, body: object = None, *, status: int = 200) -> Any:
        """The body of an answer that has to have this status."""
        answer = self._ask(method, path, body)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return answer.json()

    def refused(self, method: str, path: str, body: object = None) -> str:
        """What a 503 says."""
        answer = self._ask(method, path, body)
        assert answer.status_code == 503, (method, path, answer.status_code, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        return f"{problem['title']}: {problem['detail']}"

    def send_and_hang_up(self, body: object, *, key: str) -> None:
        """POST a group, and close the connection without reading the answer."""
        host, port = urlsplit(self._address.url).netloc.split(":")
        content = json.dumps(body).encode()
        head = [
            "POST /v1/groups HTTP/1.1",
            f"Host: {host}",
            f"Authorization: Bearer {self._address.key}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            f"Idempotency-Key: {key}",
        ]
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall("\r\n".join([*head, "", ""]).encode() + content)

    def _ask(self, method: str, path: str, body: object) -> httpx2.Response:
        return httpx2.request(
            method,
            self._address.url + path,
            headers=self._headers,
            json=body,
            timeout=_ANSWER_SECONDS,
            trust_env=False,
        )
