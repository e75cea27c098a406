"""What holds for every route, also for those that nobody has thought of yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from litestar import Litestar
from litestar.routes import HTTPRoute
from litestar.testing import TestClient

from service.api.body import MAX_BODY_BYTES

Client = TestClient[Litestar]

PUBLIC = {"/healthz", "/readyz", "/metrics", "/openapi.json"}

#: Values for parameters that a route takes only in some form.
SAMPLES = {"key_id": "0198c0de-0000-7000-8000-000000000000", "member": "0"}


def calls(app: Litestar) -> Iterator[tuple[str, str]]:
    """Method and a path of every route."""
    for route in app.routes:
        assert isinstance(route, HTTPRoute)
        for method in sorted(route.methods):
            if method != "OPTIONS":
                path = route.path_format
                for name, value in SAMPLES.items():
                    path = path.replace(f"{{{name}}}", value)
                yield method, path


def test_every_route_but_the_public_ones_needs_a_key(app: Litestar, anonymous: Client) -> None:
    seen = set()
    for method, path in calls(app):
        answer = anonymous.request(method, path)
        if path in PUBLIC:
            assert answer.status_code == 200, (method, path, answer.text)
        else:
            assert answer.status_code == 401, (method, path, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
        seen.add(path)
    assert seen > PUBLIC
    assert len(seen) > 20


def test_a_key_is_asked_for_before_the_body_is_read(app: Litestar, anonymous: Client) -> None:
    for method, path in calls(app):
        if path not in PUBLIC and method in {"POST", "PATCH", "PUT"}:
            assert anonymous.request(method, path, content=b"{broken").status_code == 401


def test_no_route_answers_nonsense_with_a_500(app: Litestar, admin: Client) -> None:
    for method, path in calls(app):
        if "{" not in path:
            continue
        for name in ("nonsense", "%00", "%FF%FE", "x" * 3000, "a%2Fb", "..%2f..", "\N{SNOWMAN}"):
            filled = path
            while "{" in filled:
                before, _, rest = filled.partition("{")
                filled = before + name + rest.partition("}")[2]
            answer = admin.request(
                method, filled, content=b"{}" if method in {"POST", "PATCH", "PUT"} else None
            )
            assert answer.status_code < 500, (method, filled[:80], answer.text)
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json()["status"] == answer.status_code


BROKEN = (
    b"",
    b"{",
    b"[" * 100_000,
    b'{"name":' + b"[" * 100_000,
    b'{"name":' + b'{"a":' * 100_000,
    b'{"name": "\xff"}',
    b"\xff\xfe",
    b'{"name": "\\ud800"}',
    b'{"name": "a\\u0000b"}',
    b'{"name": "a\x00b"}',
    b'{"name": 1e999}',
    b'{"name": ' + b"9" * 10_000 + b"}",
    b'{"name": NaN}',
    b"null",
    b"[]",
    b'"text"',
    b'{"name": "x", "name": "y", "zz": 1}',
    b"\x1f\x8b\x08\x00",
)


def test_broken_bodies_are_4xx_everywhere(app: Litestar, admin: Client) -> None:
    takers = [(method, path) for method, path in calls(app) if method in {"POST", "PATCH", "PUT"}]
    assert len(takers) >= 8
    for method, path in takers:
        for body in BROKEN:
            answer = admin.request(method, path.replace("{queue_name}", "default"), content=body)
            assert 400 <= answer.status_code < 500, (path, body[:40], answer.text)
            assert answer.headers["content-type"] == "application/problem+json"


def test_a_missing_body_and_a_broken_one_say_so(admin: Client) -> None:
    for body, detail in ((b"", "A JSON body is needed."), (b"{", "The body is not valid JSON")):
        answer = admin.post("/v1/queues", content=body)
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/malformed-body")
        assert answer.json()["detail"].startswith(detail)
        assert [error["field"] for error in answer.json()["errors"]] == [""]


@pytest.mark.parametrize("body", [b'{"name": NaN}', b'{"name": "a",', b'{"name": "\xff"}'])
def test_what_is_no_json_says_what_is_wrong_with_the_body(admin: Client, body: bytes) -> None:
    answer = admin.post("/v1/groups", content=body)
    assert answer.status_code == 400
    assert answer.json()["errors"] == [{"field": "", "message": answer.json()["detail"]}]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"name": "g", "command": ["x", "\\ud800"]}', "command[1]"),
        (b'{"name": "g", "env": {"A": "\\ud83d and more"}}', "env.A"),
        (b'{"name": "g", "env": {"\\udc00": "x"}}', "env"),
    ],
)
def test_half_of_a_surrogate_pair_is_named(admin: Client, body: bytes, field: str) -> None:
    answer = admin.post("/v1/groups", content=body)
    told = "Holds half of a surrogate pair, which is no text."
    assert (answer.status_code, answer.json()["errors"]) == (422, [{"field": field, "message": told}])


def test_a_whole_surrogate_pair_is_text(admin: Client) -> None:
    answer = admin.post("/v1/groups", content=b'{"name": "\\ud83d\\ude00", "memry": 1, "command": ["x"]}')
    assert [each["field"] for each in answer.json()["errors"]] == ["memry"]


def test_where_no_body_is_expected_nothing_may_be_in_it(app: Litestar, admin: Client) -> None:
    seen = 0
    for route in app.routes:
        assert isinstance(route, HTTPRoute)
        for handler in route.route_handlers:
            method = min(handler.http_methods)
            if method in {"GET", "OPTIONS"} or handler.parsed_data_field is not None:
                continue
            path = route.path_format
            for name, value in SAMPLES.items():
                path = path.replace(f"{{{name}}}", value)
            for body, field in ((b'{"x": 1}', "x"), (b"[]", ""), (b'"text"', "")):
                answer = admin.request(method, path, content=body)
                assert answer.status_code == 422, (method, path, answer.text)
                assert [each["field"] for each in answer.json()["errors"]] == [field], (method, path)
            for body in (b"", b"{}", b" { } ", b"null"):
                assert admin.request(method, path, content=body).status_code == 404, (method, path)
            assert admin.request(method, path, content=b"{").status_code == 400, (method, path)
            seen += 1
    assert seen >= 8


def test_an_unknown_parameter_is_named(app: Litestar, admin: Client, anonymous: Client) -> None:
    for method, path in calls(app):
        if path.startswith("/v1"):
            answer = admin.request(method, path + "?statsu=Running&limt=3", content=b"{}")
            assert answer.status_code == 422, path
            assert [error["field"] for error in answer.json()["errors"]] == ["limt", "statsu"], path
    assert "status" in admin.get("/v1/groups?statsu=x").json()["detail"]
    assert anonymous.get("/v1/groups?statsu=x").status_code == 401
    assert anonymous.get("/healthz?from=balancer").status_code == 200


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("/v1/groups?limit=abc", "limit: Must be a whole number, not text."),
        ("/v1/groups?limit=0", "limit: Must be at least 1."),
        ("/v1/groups/0198c0de-0000-7000-8000-000000000000/events?cursor=x", "cursor: Must be a cursor that"),
    ],
)
def test_a_wrong_parameter_is_told_in_a_sentence(admin: Client, call: str, told: str) -> None:
    answer = admin.get(call)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(told)


def test_other_media_types_are_refused(admin: Client) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = admin.post("/v1/queues", content=b"name=q", headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (415, "/problems/unsupported-media-type")


def test_a_body_that_is_too_large_is_refused(admin: Client) -> None:
    answer = admin.post("/v1/queues", content=b'{"name": "' + b"x" * MAX_BODY_BYTES + b'"}')
    assert (answer.status_code, answer.json()["type"]) == (413, "/problems/body-too-large")


def test_a_nul_in_a_filter_names_the_filter(admin: Client) -> None:
    answer = admin.get("/v1/nodes?pool=a%00b")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "pool")
