"""What servers on loopback may do to a request: drip, flood, pack, nest and lie, on any status and in any part."""

import gzip
import json
import socket
import threading
import time
import zlib

import pytest

from comlrl_envs import InfrastructureError, OptionError
from comlrl_envs.model_client import ModelClient, close_clients

from .model_server import chat, first, says, serving

pytest.importorskip("openai")

MIB = 2**20


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield
    close_clients()


def client(server, **settings):
    return ModelClient("stub", **{"base_url": server.url, "key_variable": "", "timeout": 5.0, **settings})


def failure(answer):
    assert isinstance(answer, InfrastructureError), answer
    return str(answer)


def head(code, *lines):
    return "\r\n".join((f"HTTP/1.1 {code} X", "content-type: application/json", *lines, "", "")).encode()


def slow_headers(handler, body, number):
    handler.send_raw(b"HTTP/1.1 200 OK\r\n", *[b"x"] * 60, pause=0.1)


def slow_early_hints(handler, body, number):
    handler.send_raw(*[b"HTTP/1.1 103 Early Hints\r\n\r\n"] * 60, pause=0.1)


def slow_body(code):
    return lambda handler, body, number: handler.send_raw(head(code, "content-length: 1000"), *[b" "] * 60, pause=0.1)


def slow_chunks(code):
    chunks = [b"1\r\n \r\n"] * 60
    return lambda handler, body, number: handler.send_raw(head(code, "transfer-encoding: chunked"), *chunks, pause=0.1)


DRIPS = [slow_headers, slow_early_hints] + [slow(code) for slow in (slow_body, slow_chunks) for code in (200, 429, 500)]


@pytest.mark.parametrize("rule", DRIPS)
@pytest.mark.parametrize("limits", [{"timeout": 0.5, "max_retries": 0}, {"timeout": 60.0, "total_timeout": 0.7}])
def test_whatever_drips_is_a_time_out(rule, limits):
    with serving(rule) as server:
        began = time.monotonic()
        text = failure(client(server, **limits).complete_many(["abc"])[0])
        assert time.monotonic() - began < 2.0
    assert "time-out" in text


def test_a_drip_costs_one_attempt_and_the_next_may_succeed():
    with serving(first(1, slow_body(500), says("ok"))) as server:
        assert client(server, timeout=0.5).complete("abc").attempts == 2


def test_a_server_that_does_not_read_is_a_time_out():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = []
        threading.Thread(target=lambda: taken.append(listener.accept()), daemon=True).start()
        one = ModelClient(
            "stub", f"http://127.0.0.1:{listener.getsockname()[1]}/v1", key_variable="", timeout=0.5, max_retries=0
        )
        began = time.monotonic()
        assert "time-out" in failure(one.complete_many(["x" * 30 * MIB])[0])
        assert time.monotonic() - began < 3.0


def flood(code, framing):
    def rule(handler, body, number):
        size = b"100000\r\n" if framing == "chunked" else b""
        lines = {"chunked": "transfer-encoding: chunked", "length": f"content-length: {400 * MIB}", "close": "x: y"}
        part = size + b" " * MIB + (b"\r\n" if size else b"")
        handler.send_raw(head(code, lines[framing]), *[part] * 400)

    return rule


@pytest.mark.parametrize("code", [200, 400, 500])
@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_an_answer_without_end_is_refused_at_the_cap(code, framing):
    with serving(flood(code, framing)) as server:
        began = time.monotonic()
        assert "larger than 16 MiB" in failure(client(server, timeout=30.0).complete_many(["abc"])[0])
        assert time.monotonic() - began < 10
        assert len(server.bodies) == 1


def packed(plain, packing, code=200):
    data = gzip.compress(plain) if packing == "gzip" else zlib.compress(plain)
    lines = f"content-encoding: {packing}", f"content-length: {len(data)}"
    return lambda handler, body, number: handler.send_raw(head(code, *lines), data)


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
def test_a_packed_answer_is_read_though_none_was_asked_for(packing):
    with serving(packed(json.dumps(chat("hello")).encode(), packing)) as server:
        assert client(server).complete("abc").text == "hello"
    assert server.headers[0]["accept-encoding"] == "identity"


@pytest.mark.parametrize("code", [200, 500])
def test_a_packed_answer_that_unpacks_beyond_the_cap_is_refused(code):
    with serving(packed(b" " * 64 * MIB, "gzip", code)) as server:
        assert "larger than 16 MiB" in failure(client(server).complete_many(["abc"])[0])


def test_an_answer_just_below_the_cap_is_read():
    text = "x" * (16 * MIB - 2000)
    with serving(says(text)) as server:
        assert client(server, timeout=30.0).complete("abc").text == text


def test_headers_without_end_are_no_answer():
    lines = [f"x-{i}: {'y' * 1000}\r\n".encode() for i in range(40_000)]
    with serving(lambda handler, body, number: handler.send_raw(b"HTTP/1.1 200 OK\r\n", *lines)) as server:
        failure(client(server, max_retries=0).complete_many(["abc"])[0])


NESTED = b"[" * 200_000
GARBAGE = [
    NESTED,
    b'{"choices": ' + NESTED,
    b'{"a":' * 200_000,
    b"9" * 100_000,
    b'{"choices": [{"message": {"content": 1' + b"0" * 10_000 + b"}}]}",
    b"\xff\xfe\x00",
    b"\x00" * 1000,
    b'{"error": [[[]]]}',
    b'{"error": true}',
    b'{"error": {"code": [], "type": {}, "message": []}}',
    b'{"object": "error"}',
]


@pytest.mark.parametrize("code", [200, 400])
@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_one_failed_request(garbage, code):
    lines = head(code, f"content-length: {len(garbage)}")
    with serving(lambda handler, body, number: handler.send_raw(lines, garbage)) as server:
        assert len(failure(client(server).complete_many(["abc"])[0])) < 600
        assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 99999 X\r\n\r\n",
        b"HTTP/1.1 302 X\r\nlocation: nowhere://\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 302 X\r\nlocation: http://[::1\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 307 X\r\nlocation: /v1\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 204 X\r\n\r\n",
        b"HTTP/1.1 304 X\r\n\r\n",
        b"HTTP/1.1 200 X\r\ncontent-length: -4\r\n\r\n",
        b"HTTP/1.1 200 X\r\ncontent-encoding: br\r\ncontent-length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 X\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 X\r\ncontent-type: application/json; charset=nonsense\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 500 X\r\ncontent-type: application/json; charset=nonsense\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 503 X\r\nretry-after: Mon, 01 Jan 0001 00:00:00 -0000\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 503 X\r\nretry-after: " + b"9" * 500 + b"\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 503 X\r\nretry-after: nan\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_an_answer_that_is_no_http_or_odd_http_is_one_failed_request(answer):
    with serving(lambda handler, body, number: handler.send_raw(answer)) as server:
        failure(client(server, max_retries=0).complete_many(["abc"])[0])


@pytest.mark.parametrize(
    ("counted", "known"),
    [("0", 0), ("7", 7), ("1" + "0" * 400, None), ("-1", None), ("true", None), ("2.0", None), ('"7"', None),
     ("1" + "0" * 12, 10**12), ("1" + "0" * 13, None), ("[]", None), ("null", None)],
)  # fmt: skip
def test_a_count_of_tokens_is_a_count_or_unknown(counted, known):
    text = json.dumps(chat("ok")).replace('"completion_tokens": 3', f'"completion_tokens": {counted}')
    with serving(lambda handler, body, number: handler.send(text)) as server:
        answer = client(server).complete("abc")
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("ok", 7, known)


@pytest.mark.parametrize(
    "error",
    [
        {"message": "no credit left", "code": "insufficient_quota"},
        {"message": "no credit left", "type": "insufficient_quota", "code": None},
        {"message": "no credit left", "code": 402},
    ],
)
def test_no_credit_with_status_200_is_a_refusal(error):
    with serving(lambda handler, body, number: handler.send({"error": error})) as server:
        with pytest.raises(OptionError, match=r"no credit left.*has no credit"):
            client(server, concurrency=1).complete_many(["abc"] * 20)
        assert len(server.bodies) <= 2


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"message": "the model sleeps"}},
        {"error": "the model sleeps"},
        {"error": {"message": "the model sleeps"}, "choices": []},
        {"error": {"message": "the model sleeps"}, "choices": [{"message": {"content": None}}]},
        {"object": "error", "message": "the model sleeps", "code": 400},
    ],
)
def test_an_error_with_status_200_keeps_the_servers_words(answer):
    with serving(lambda handler, body, number: handler.send(answer)) as server:
        assert "the model sleeps" in failure(client(server).complete_many(["abc"])[0])
        assert len(server.bodies) == 1


def test_an_error_with_status_200_that_may_pass_is_tried_again():
    busy = {"error": {"message": "overloaded", "code": 503}}
    with serving(first(1, lambda handler, body, number: handler.send(busy), says("ok"))) as server:
        assert client(server).complete("abc").attempts == 2


def test_connections_are_kept_and_used_again():
    ports = []

    def rule(handler, body, number):
        ports.append(handler.client_address[1])
        handler.send(chat("ok"))

    with serving(rule) as server:
        one = client(server)
        for _ in range(3):
            one.complete("abc")
    assert len(set(ports)) == 1


def test_the_proxy_of_the_environment_is_used(monkeypatch):
    def rule(handler, body, number):
        handler.send(chat(handler.path))

    with serving(rule) as server:
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
        one = ModelClient("stub", "http://model.invalid/v1", key_variable="")
        assert one.complete("abc").text == "http://model.invalid/v1/chat/completions"
