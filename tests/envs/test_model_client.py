"""The client against a server on loopback: what is an answer, what is tried again, what stops everything."""

import asyncio
import email.utils
import logging
import multiprocessing
import os
import pickle
import threading
import time

import pytest

from comlrl_envs import InfrastructureError, OptionError
from comlrl_envs.model_client import ModelClient, close_clients
from comlrl_envs.redaction import Redactor

from .model_server import chat, first, says, serving, status

pytest.importorskip("openai")

KEY = 'sk-canary-0123456789/"abc'
VARIABLE = "TEST_MODEL_KEY"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield
    close_clients()


def client(server, **settings):
    return ModelClient("stub", **{"base_url": server.url, "key_variable": VARIABLE, "timeout": 5.0, **settings})


def failure(answer):
    assert isinstance(answer, InfrastructureError), answer
    return str(answer)


def test_a_chat_goes_out_as_it_is_and_comes_back_with_its_cost():
    with serving(says("hello")) as server:
        turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "é\x00🙂"}]
        answer = client(server, parameters={"temperature": 0.5}).complete(turns, {"max_tokens": 9, "vendor": [1]})
    assert (answer.text, answer.finish_reason, answer.attempts) == ("hello", "stop", 1)
    assert (answer.prompt_tokens, answer.completion_tokens) == (7, 3)
    assert answer.seconds > 0
    assert server.bodies == [{"model": "stub", "messages": turns, "temperature": 0.5, "max_tokens": 9, "vendor": [1]}]
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_plain_completions_send_one_text():
    def rule(handler, body, number):
        handler.send({"choices": [{"text": body["prompt"].upper(), "finish_reason": "length"}]})

    with serving(rule) as server:
        answer = client(server, chat=False).complete("abc")
    assert (answer.text, answer.finish_reason, answer.prompt_tokens) == ("ABC", "length", None)
    assert server.paths == ["/v1/completions"]


def test_an_empty_text_is_an_answer():
    with serving(says("")) as server:
        assert client(server).complete("abc").text == ""


def test_32_requests_fly_at_once_and_no_more():
    with serving(says("x", seconds=0.3)) as server:
        began = time.monotonic()
        answers = client(server).complete_many([str(i) for i in range(64)])
        seconds = time.monotonic() - began
    assert [answer.text for answer in answers] == ["x"] * 64
    assert server.most_flying == 32
    assert seconds < 5


def test_answers_come_in_the_order_of_the_prompts():
    def rule(handler, body, number):
        text = body["messages"][0]["content"]
        time.sleep(0.05 * (int(text) % 3))
        handler.send(chat(text))

    with serving(rule) as server:
        answers = client(server, concurrency=5).complete_many([str(i) for i in range(20)])
        assert server.most_flying <= 5
    assert [answer.text for answer in answers] == [str(i) for i in range(20)]


@pytest.mark.parametrize("code", [408, 409, 429, 500, 503, 529])
def test_what_may_pass_is_tried_again(code):
    with serving(first(2, status(code), says("ok"))) as server:
        answer = client(server).complete("abc")
    assert (answer.text, answer.attempts) == ("ok", 3)


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(form):
    asked = "1.2" if form == "seconds" else email.utils.formatdate(time.time() + 3, usegmt=True)
    with serving(first(1, status(429, retry_after=asked), says("ok"))) as server:
        began = time.monotonic()
        assert client(server).complete("abc").text == "ok"
        assert 1.1 < time.monotonic() - began < 5


def test_a_wait_beyond_the_total_ends_the_request_at_once_and_says_so():
    with serving(status(429, retry_after="3600")) as server:
        began = time.monotonic()
        text = failure(client(server, total_timeout=30.0).complete_many(["abc"])[0])
    assert time.monotonic() - began < 5
    assert "total_timeout=30 s" in text and "3.6e+03 s" in text and "429" in text


def test_attempts_are_counted_and_named():
    with serving(status(503, "busy bees")) as server:
        text = failure(client(server, max_retries=1).complete_many(["abc"])[0])
        assert len(server.bodies) == 2
    assert "2 attempts" in text and "max_retries=1" in text and "busy bees" in text


def test_a_time_out_is_tried_again_and_then_no_answer():
    with serving(first(1, says("late", seconds=1.5), says("ok"))) as server:
        assert client(server, timeout=0.4).complete("abc").attempts == 2
    with serving(says("late", seconds=1.5)) as server:
        text = failure(client(server, timeout=0.3, max_retries=1).complete_many(["abc"])[0])
    assert "time-out after 0.3 s" in text and "2 attempts" in text


def test_an_answer_that_drips_is_a_time_out():
    def drip(handler, body, number):
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", "1000")
        handler.end_headers()
        for _ in range(40):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)

    with serving(drip) as server:
        began = time.monotonic()
        text = failure(client(server, timeout=0.5, max_retries=0).complete_many(["abc"])[0])
    assert time.monotonic() - began < 2.5
    assert "time-out" in text


def test_a_reset_is_tried_again():
    with serving(first(2, lambda handler, body, number: handler.hang_up(), says("ok"))) as server:
        assert client(server).complete("abc").attempts == 3


def test_an_answer_that_breaks_off_is_tried_again():
    def half(handler, body, number):
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"choices"')
        handler.wfile.flush()
        handler.hang_up()

    with serving(first(1, half, says("ok"))) as server:
        assert client(server).complete("abc").attempts == 2


def test_nobody_listens():
    with serving(says("x")) as server:
        gone = client(server, max_retries=1)
    assert "no connection" in failure(gone.complete_many(["abc"])[0])


@pytest.mark.parametrize(
    "garbage",
    ["<html>hi</html>", "", "null", "[]", "{}", '{"choices": []}', '{"choices": [null]}', '{"choices": 3}',
     '{"choices": [{"message": {"content": null}}]}', '{"choices": [{"message": {"content": 5}}]}', "\ud7ff" * 3],
)  # fmt: skip
def test_garbage_is_no_answer_and_is_not_asked_for_again(garbage):
    with serving(lambda handler, body, number: handler.send(garbage)) as server:
        assert "the answer" in failure(client(server).complete_many(["abc"])[0])
        assert len(server.bodies) == 1


def test_a_model_that_ran_out_of_tokens_before_it_wrote_is_told_apart():
    with serving(lambda handler, body, number: handler.send(chat(None, "length"))) as server:
        assert "raise max_tokens" in failure(client(server).complete_many(["abc"])[0])


def test_a_bad_request_costs_one_answer_not_the_batch():
    def rule(handler, body, number):
        if body["messages"][0]["content"] == "long":
            handler.send({"error": {"message": "context length exceeded"}}, 400)
        else:
            handler.send(chat("ok"))

    with serving(rule) as server:
        answers = client(server).complete_many(["a", "long", "b"])
        assert len(server.bodies) == 3
    assert answers[0].text == answers[2].text == "ok"
    assert "context length exceeded" in failure(answers[1])


@pytest.mark.parametrize(
    ("code", "mend"), [(401, VARIABLE), (402, "credit"), (403, "another key"), (404, "no model 'stub'")]
)
def test_a_refusal_stops_everything_with_the_mend(code, mend):
    def rule(handler, body, number):
        if number == 3:
            handler.send({"error": {"message": f"refused {KEY}"}}, code)
        else:
            time.sleep(0.05 if number < 3 else 3)
            handler.send(chat("ok"))

    with serving(rule) as server:
        began = time.monotonic()
        with pytest.raises(OptionError, match=mend) as caught:
            client(server, concurrency=4).complete_many([str(i) for i in range(500)])
        assert time.monotonic() - began < 2.5
        assert len(server.bodies) < 20
    assert KEY not in str(caught.value)


def test_429_without_credit_is_a_refusal():
    error = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    with serving(lambda handler, body, number: handler.send(error, 429)) as server:
        with pytest.raises(OptionError, match="credit"):
            client(server).complete("abc")
        assert len(server.bodies) == 1


def test_a_mended_key_works_in_the_same_process(monkeypatch):
    def rule(handler, body, number):
        good = handler.headers["authorization"] == "Bearer good"
        handler.send(chat("ok"), 200) if good else handler.send({"error": {}}, 401)

    with serving(rule) as server:
        one = client(server)
        with pytest.raises(OptionError):
            one.complete("abc")
        monkeypatch.setenv(VARIABLE, " good\n")
        assert one.complete("abc").text == "ok"


def test_no_key_is_an_error_before_anything_is_sent(monkeypatch):
    with serving(says("ok")) as server:
        monkeypatch.delenv(VARIABLE)
        with pytest.raises(OptionError, match=VARIABLE):
            client(server).complete("abc")
        assert server.bodies == []
        assert client(server, key_variable="").complete("abc").text == "ok"


def echo_key(handler, body, number):
    """A server that repeats the key wherever it can."""
    secret = handler.headers["authorization"]
    if number == 0:
        handler.send({"error": {"message": f"try later, {secret}"}}, 500, x_request_id=secret)
    elif number == 1:
        handler.send(f"<html>{secret} {'y' * 400}", 503, retry_after="0")
    elif number == 2:
        handler.send(chat(f"The key is {secret}.", finish=secret), x_request_id=secret)
    elif number == 3:
        handler.send("y" * 70 + secret)
    else:
        handler.send({"error": {"message": "x" * 285 + KEY}}, 400)


def test_the_key_is_nowhere(caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    log = tmp_path / "all.log"
    handler = logging.FileHandler(log, encoding="utf-8")
    logging.getLogger().addHandler(handler)
    try:
        with serving(echo_key) as server:
            one = client(server)
            answer = one.complete("abc")
            garbage, bad = one.complete_many(["abc"]) + one.complete_many(["abc"])
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
    # The text is a player's and stays as it was written.
    assert answer.text == f"The key is Bearer {KEY}."
    shown = [answer.finish_reason, failure(garbage), failure(bad), repr(one), str(one.settings())]
    shown += [log.read_text(encoding="utf-8"), caplog.text, repr(pickle.dumps(one))]
    # Half a key is a key's beginning all the same.
    for text in shown:
        assert "sk-canary" not in text
    assert log.stat().st_size > 1000


@pytest.mark.parametrize("short", ["x", "EMPTY", "none"])
def test_a_reply_is_scored_as_written_whatever_the_key(short, monkeypatch):
    monkeypatch.setenv(VARIABLE, short)
    text = "An EMPTY box is next to none: x = [1]."
    with serving(says(text)) as server:
        assert client(server).complete("abc").text == text
    with serving(status(400, text)) as server:
        assert text in failure(client(server).complete_many(["abc"])[0])


def test_an_error_carries_no_request_in_its_context():
    with serving(status(500, KEY)) as server, pytest.raises(InfrastructureError) as caught:
        client(server, max_retries=0).complete("abc")
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_equal_settings_share_a_connection_and_pickles_are_settings():
    with serving(says("ok", seconds=0.2)) as server:
        one = client(server, concurrency=2, parameters={"a": 1})
        other = pickle.loads(pickle.dumps(one))
        assert one == other and hash(one) == hash(other)
        threads = [threading.Thread(target=c.complete_many, args=(["x"] * 4,)) for c in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.most_flying == 2


def test_it_works_from_inside_a_running_event_loop():
    async def cell(one):
        return one.complete("abc").text

    with serving(says("ok")) as server:
        assert asyncio.run(cell(client(server))) == "ok"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_it_works_after_a_fork():
    with serving(says("ok")) as server:
        one = client(server)
        one.complete("abc")
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply_async(one.complete, ("abc",)).get(20).text == "ok"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"base_url": "localhost:8000"}, "base_url"),
        ({"base_url": "http://me:hush@host/v1"}, "user name"),
        ({"base_url": "http://host/v1?api_key=hush"}, "query"),
        ({"base_url": "http://host:99999999/v1"}, "base_url"),
        ({"model": ""}, "model"),
        ({"concurrency": 0}, "concurrency"),
        ({"max_retries": -1}, "max_retries"),
        ({"timeout": 0}, "timeout"),
        ({"parameters": {"stream": True}}, "stream"),
        ({"timeout": float("inf")}, "timeout"),
        ({"total_timeout": 1e308}, "a week"),
        ({"timeout": 10**5000}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"concurrency": 10**400}, "concurrency"),
        ({"key_variable": 5}, "key_variable"),
        ({"base_url": 5}, "base_url"),
        ({"chat": []}, "chat"),
        ({"parameters": 5}, "parameters"),
        ({"parameters": {"x": object()}}, "JSON"),
    ],
)
def test_bad_settings_are_named_and_keys_in_them_are_not_repeated(settings, named):
    with pytest.raises(OptionError, match=named) as caught:
        ModelClient(**{"model": "m", **settings})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        (None, "prompt=None"),
        (["x"], "turn 'x'"),
        ([], "turns"),
        (b"x", "prompt"),
        ([{"content": "x"}], "role"),
        ([{"role": "user", "content": object()}], "JSON"),
        ([{"role": "user", "content": float("nan")}], "JSON"),
        ("\ud800", "surrogates"),
    ],
)
def test_a_prompt_that_cannot_be_sent_is_named_before_anything_is_sent(prompt, named):
    with serving(says("ok")) as server:
        with pytest.raises(OptionError, match=named):
            client(server).complete(prompt)
        for prompts in ("abc", None, 5):
            with pytest.raises(OptionError, match="prompts="):
                client(server).complete_many(prompts)
        with pytest.raises(OptionError, match="no text"):
            client(server, chat=False).complete([{"role": "user", "content": None}])
        with pytest.raises(OptionError, match="parameters=5"):
            client(server).complete("abc", 5)
        assert server.bodies == []
        assert client(server).complete_many([]) == []


def test_the_address_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1/")
    assert ModelClient("m").base_url == "http://localhost:1/v1"
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert ModelClient("m").base_url.startswith("https://api.openai.com")


def test_a_key_with_characters_that_no_header_takes(monkeypatch):
    monkeypatch.setenv(VARIABLE, "schlüssel-hush")
    with serving(says("ok")) as server, pytest.raises(OptionError, match=VARIABLE) as caught:
        client(server).complete("abc")
    assert "hush" not in str(caught.value)


def test_the_redactor_knows_the_forms_of_a_key():
    redact = Redactor('sk-a/b"c')
    assert redact('1 sk-a/b"c 2 sk-a%2Fb%22c 3 sk-a/b\\"c') == "1 [key hidden] 2 [key hidden] 3 [key hidden]"
    assert Redactor("")("abc") == "abc"
    assert "a/b" not in repr(redact)
