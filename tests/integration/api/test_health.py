from __future__ import annotations

from litestar import Litestar
from litestar.testing import TestClient


def test_health_and_readiness_need_no_key(anonymous: TestClient[Litestar]) -> None:
    assert anonymous.get("/healthz").json() == {"status": "ok"}
    assert anonymous.get("/readyz").json() == {"status": "ready"}


def test_an_unknown_path_is_a_problem(anonymous: TestClient[Litestar]) -> None:
    answer = anonymous.get("/v1/nothing")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "/problems/not-found",
        "title": "There is no such thing",
        "status": 404,
        "detail": "There is nothing at /v1/nothing.",
    }


def test_a_wrong_method_is_a_problem(anonymous: TestClient[Litestar]) -> None:
    answer = anonymous.post("/healthz")
    assert answer.status_code == 405
    assert answer.json()["type"] == "/problems/method-not-allowed"
    assert "GET" in answer.headers["allow"]
