"""A chat over HTTP against a local endpoint that delays, fails, drops connections and sends garbage."""

import email.utils
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jaxeval.errors import InputError, RunError
from jaxeval.judges.chat import Question, Reply, UnusableReply
from jaxeval.judges.http_chat import HttpChat, HttpSettings
from jaxeval.judges.http_chat import endpoint as full_address
from jaxeval.judges.protocol import Usage
from tests.judges.conftest import Endpoint, Response, Script, completion

ROOT = Path(__file__).resolve().parents[2]
QUICK: dict[str, Any] = {"model": "m", "first_wait": 0.01, "timeout": 5.0}


def chat(endpoint: Endpoint, **settings) -> HttpChat:
    return HttpChat(endpoint.url, HttpSettings(**(QUICK | settings)))


def question(text: str, check=lambda reply: None) -> Question:
    return Question([{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}], check)


def questions(count: int) -> list[Question]:
    return [question(f"question {index}") for index in range(count)]


def only_fine(reply: str) -> None:
    if reply != "fine":
        raise UnusableReply(f"{reply!r} is not fine")


def reason(reply: Reply) -> str:
    assert reply.text is None and reply.reason is not None
    return reply.reason


def slowly(seconds: float) -> Script:
    """A script that takes its time."""

    def script(prompt: str, before: int) -> Response:
        time.sleep(seconds)
        return completion("fine")

    return script


def cached(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


# --- What is sent


def test_a_request_is_what_such_endpoints_expect(endpoint, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", " sk-123\n")
    assert chat(endpoint, key_variable="SECRET_KEY")(question("Hi").messages) == "fine"
    assert endpoint.bodies == [
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
            "temperature": 0.0,
            "max_tokens": 192,
        }
    ]
    assert endpoint.headers[0]["path"] == "/v1/chat/completions"
    assert endpoint.headers[0]["Authorization"] == "Bearer sk-123"


def test_fields_of_the_body_can_be_added_and_removed(endpoint):
    chat(endpoint, extra={"max_tokens": None, "max_completion_tokens": 20, "seed": 1})(question("Hi").messages)
    assert endpoint.bodies[0].keys() == {"model", "messages", "temperature", "max_completion_tokens", "seed"}


def test_no_key_is_sent_unless_its_variable_is_named(endpoint, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-123")
    chat(endpoint)(question("Hi").messages)
    assert "Authorization" not in endpoint.headers[0]


def test_the_address_may_be_given_in_three_ways():
    for url in ("http://a:1", "http://a:1/", "http://a:1/v1", "http://a:1/v1/", "http://a:1/v1/chat/completions"):
        assert full_address(url) == "http://a:1/v1/chat/completions"
    assert full_address("https://a/openai/v1?version=2") == "https://a/openai/v1/chat/completions?version=2"


@pytest.mark.parametrize("url", ["a:1", "ftp://a", "http://", "http://user:pw@a", "http://a/v1?api-key=sk-123"])
def test_addresses_that_are_none_or_hold_a_secret_are_refused(url):
    with pytest.raises(InputError) as refused:
        HttpChat(url, HttpSettings(model="m"))
    assert "pw" not in str(refused.value) and "sk-123" not in str(refused.value)


def test_a_key_that_is_not_there_is_wrong_input(monkeypatch):
    monkeypatch.delenv("SECRET_KEY", raising=False)
    with pytest.raises(InputError, match="SECRET_KEY holds no API key"):
        HttpChat("http://a", HttpSettings(model="m", key_variable="SECRET_KEY"))


@pytest.mark.parametrize("wrong", [{"model": ""}, {"concurrency": 0}, {"attempts": 0}, {"requests_per_minute": 0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        HttpSettings(**{"model": "m", **wrong})


# --- What comes back


def test_replies_come_in_the_order_of_the_questions(endpoint):
    def slow_at_first(prompt, before):
        time.sleep(0.1 if prompt.endswith("0") else 0)
        return completion(prompt.upper())

    endpoint.script = slow_at_first
    seen: list[int] = []
    replies = chat(endpoint).ask(questions(20), progress=seen.append)
    assert [reply.text for reply in replies] == [f"QUESTION {index}" for index in range(20)]
    assert sum(seen) == 20


def test_equal_questions_are_asked_once(endpoint):
    replies = chat(endpoint).ask([question("a"), question("b"), question("a")])
    assert [reply.text for reply in replies] == ["fine"] * 3
    assert endpoint.asked == {"a": 1, "b": 1}
    assert [reply.cached for reply in replies] == [False, False, True]


TRANSIENT = {
    "429": Response(b'{"error": {"message": "slow down"}}', 429),
    "500": Response(b"oops", 500),
    "503": Response(b"", 503),
    "dropped before the response": Response(drop=True),
    "dropped within the response": Response(b'{"choices": [{"mess', drop=True),
    "garbage": Response(b"<html>\xff gateway"),
    "truncated JSON": Response(completion("fine").body[:-20]),
    "another JSON": Response(b'{"error": "?"}'),
    "an array": Response(b"[1, 2]"),
    "deep JSON": Response(b"[" * 100_000),
    "no choices": Response(b'{"choices": []}'),
    "an empty reply": completion("  "),
    "no text": completion(None),
    "a number for a text": completion(7),
    "cut off": completion("fine", finish="length"),
    "half a surrogate pair": completion("\ud83d"),
    "of no use": completion("not so"),
}


@pytest.mark.parametrize("name", TRANSIENT)
def test_what_failed_is_asked_again(endpoint, tmp_path, name):
    endpoint.script = lambda prompt, before: TRANSIENT[name] if before < 2 else completion("fine")
    one = chat(endpoint, cache=str(tmp_path / "cache"))
    reply = one.ask([question("a", only_fine)])[0]
    assert reply.text == "fine" and reply.reason is None
    assert reply.usage.requests == one.usage.requests == endpoint.asked["a"] == 3
    assert [entry["text"] for entry in cached(tmp_path / "cache")] == ["fine"]


@pytest.mark.parametrize("name", TRANSIENT)
def test_what_keeps_failing_ends_with_a_reason_and_is_not_remembered(endpoint, tmp_path, name):
    endpoint.script = lambda prompt, before: TRANSIENT[name]
    settings = {"attempts": 2, "cache": str(tmp_path / "cache")}
    reply = chat(endpoint, **settings).ask([question("a", only_fine)])[0]
    assert reply.text is None and reply.reason and "\n" not in reply.reason
    assert endpoint.asked["a"] == 2
    assert (tmp_path / "cache").read_bytes() == b""
    endpoint.script = lambda prompt, before: completion("fine")
    assert chat(endpoint, **settings).ask([question("a", only_fine)])[0].text == "fine"


@pytest.mark.parametrize(
    "response",
    [
        Response(b'{"error": {"message": "no such model"}}', 404),
        Response(b'{"error": "bad request"}', 400),
        Response(b'{"error": {"message": "pay first", "code": "insufficient_quota"}}', 429),
        Response(b"", 302, {"Location": "http://elsewhere"}),
        Response(b'{"choices": [{"message": {"content": null, "refusal": "I will not"}}]}'),
    ],
)
def test_what_will_not_change_is_asked_once(endpoint, response):
    endpoint.script = lambda prompt, before: response
    reply = chat(endpoint).ask([question("a")])[0]
    assert endpoint.asked["a"] == 1
    assert re.search("no such model|bad request|pay first|HTTP 302|refused: I will not", reason(reply))


def test_a_server_that_does_not_answer_is_not_waited_for_longer_than_the_timeout(endpoint):
    endpoint.script = slowly(5)
    began = time.monotonic()
    reply = chat(endpoint, timeout=0.1, attempts=2).ask([question("a")])[0]
    assert "within 0.1 s" in reason(reply) and time.monotonic() - began < 4


def test_a_server_that_is_not_there_is_a_reason_too():
    nobody = HttpChat("http://127.0.0.1:9", HttpSettings(**QUICK, attempts=2))
    assert "no response" in reason(nobody.ask([question("a")])[0])
    with pytest.raises(RunError, match="m: no response"):
        nobody(question("a").messages)


def test_a_server_that_is_down_is_given_up(endpoint):
    endpoint.script = lambda prompt, before: Response(b"down", 500)
    replies = chat(endpoint, attempts=1, give_up_after=3, concurrency=1).ask(questions(30))
    assert sum(endpoint.asked.values()) == 3
    assert [reply.reason for reply in replies[:3]] == ["HTTP 500: down"] * 3
    assert all("not asked: 3 questions in a row" in reason(reply) for reply in replies[3:])


def test_reasons_do_not_repeat_the_key(endpoint, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "sk-123")
    endpoint.script = lambda prompt, before: Response(b'{"error": {"message": "wrong key sk-123"}}', 401)
    reply = chat(endpoint, key_variable="SECRET_KEY").ask([question("a")])[0]
    assert reply.reason == "HTTP 401: wrong key ***"


def test_every_question_ends_with_a_reply_or_a_reason_whatever_the_server_does(endpoint, tmp_path):
    rng = random.Random(0)
    plans = {f"question {index}": [rng.choice([*TRANSIENT, "fine", "fine"]) for _ in range(3)] for index in range(60)}

    def unreliable(prompt, before):
        name = plans[prompt][before]
        time.sleep(0.005)
        return TRANSIENT.get(name, completion("fine"))

    endpoint.script = unreliable
    asked = [question(prompt, only_fine) for prompt in plans]
    replies = chat(endpoint, attempts=3, cache=str(tmp_path / "cache")).ask(asked)
    assert [reply.text for reply in replies] == ["fine" if "fine" in plan else None for plan in plans.values()]
    assert all((reply.text is None) == bool(reply.reason) for reply in replies)
    assert {entry["text"] for entry in cached(tmp_path / "cache")} == {"fine"}
    assert len(cached(tmp_path / "cache")) == sum("fine" in plan for plan in plans.values())


# --- Tokens and cost


def test_tokens_of_every_request_are_counted_and_priced(endpoint):
    endpoint.script = lambda prompt, before: completion("fine" if before else "not so")
    one = chat(endpoint, prompt_price=2.0, completion_price=10.0)
    reply = one.ask([question("a", only_fine)])[0]
    assert (reply.usage.requests, reply.usage.prompt_tokens, reply.usage.completion_tokens) == (2, 200, 20)
    assert one.usage == reply.usage and reply.usage.seconds > 0
    assert one.settings.cost(one.usage) == pytest.approx((200 * 2 + 20 * 10) / 1e6)
    assert HttpSettings(model="m").cost(one.usage) is None


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": "many"}, {"prompt_tokens": -1, "completion_tokens": True}])
def test_a_server_that_does_not_count_tokens_is_fine(endpoint, usage):
    endpoint.script = lambda prompt, before: completion("fine", usage=usage)
    reply = chat(endpoint).ask([question("a")])[0]
    assert reply.text == "fine" and reply.usage.prompt_tokens == reply.usage.completion_tokens == 0


# --- Pace


def test_no_more_requests_are_under_way_than_allowed(endpoint):
    endpoint.script = slowly(0.03)
    chat(endpoint, concurrency=3).ask(questions(12))
    assert endpoint.most == 3


def test_no_more_requests_start_in_a_minute_than_allowed(endpoint):
    endpoint.script = lambda prompt, before: completion("fine") if before else Response(b"", 500)
    chat(endpoint, requests_per_minute=3000, concurrency=8).ask(questions(10))
    assert len(endpoint.times) == 20
    assert endpoint.times[-1] - endpoint.times[0] >= 19 * 0.02 - 0.02


@pytest.mark.parametrize("in_words", [False, True])
def test_a_pause_that_the_server_asks_for_is_kept_by_all(endpoint, in_words):
    pause = 2.2 if in_words else 0.4
    value = email.utils.formatdate(time.time() + pause, usegmt=True) if in_words else str(pause)
    first = threading.Event()

    def busy(prompt, before):
        if not first.is_set():
            first.set()
            return Response(b"busy", 429, {"Retry-After": value})
        time.sleep(0.01)
        return completion("fine")

    endpoint.script = busy
    assert [reply.text for reply in chat(endpoint, concurrency=2).ask(questions(20))] == ["fine"] * 20
    gaps = [after - before for before, after in zip(endpoint.times, endpoint.times[1:], strict=False)]
    assert max(gaps) > (1 if in_words else 0.3)  # a date has whole seconds
    late = [at for at in endpoint.times if at - endpoint.times[0] > max(gaps) / 2]
    assert len(late) >= 10


def test_a_server_that_asks_for_a_very_long_pause_is_not_waited_for(endpoint):
    endpoint.script = lambda prompt, before: Response(b"busy", 429, {"Retry-After": "3600"})
    began = time.monotonic()
    assert chat(endpoint).ask([question("a")])[0].reason == "HTTP 429: busy"
    assert endpoint.asked["a"] == 1 and time.monotonic() - began < 30


@pytest.mark.parametrize("value", ["soon", "nan", "-5", "Thu, 99 Foo 2020"])
def test_a_malformed_pause_is_no_pause(endpoint, value):
    busy = Response(b"busy", 503, {"Retry-After": value})
    endpoint.script = lambda prompt, before: completion("fine") if before else busy
    assert chat(endpoint).ask([question("a")])[0].text == "fine"


# --- What is remembered


def test_nothing_is_paid_for_twice(endpoint, tmp_path):
    settings = {"cache": str(tmp_path / "cache")}
    first = chat(endpoint, **settings).ask(questions(5))
    again = chat(endpoint, **settings)
    second = again.ask(questions(5))
    assert [reply.text for reply in second] == [reply.text for reply in first]
    assert all(reply.cached for reply in second) and [reply.usage for reply in second] == [r.usage for r in first]
    assert again.usage == Usage() and sum(endpoint.asked.values()) == 5


def test_only_failures_are_asked_again(endpoint, tmp_path):
    settings = {"cache": str(tmp_path / "cache"), "attempts": 1}
    endpoint.script = lambda prompt, before: Response(b"", 500) if prompt.endswith("3") else completion("fine")
    assert [reply.text for reply in chat(endpoint, **settings).ask(questions(5))].count(None) == 1
    endpoint.script = lambda prompt, before: completion("fine")
    assert all(reply.text for reply in chat(endpoint, **settings).ask(questions(5)))
    assert endpoint.asked == {f"question {index}": 2 if index == 3 else 1 for index in range(5)}


@pytest.mark.parametrize("change", [{"model": "n"}, {"temperature": 0.5}, {"max_tokens": 20}, {"extra": {"seed": 1}}])
def test_other_settings_are_another_question(endpoint, tmp_path, change):
    cache = {"cache": str(tmp_path / "cache")}
    chat(endpoint, **cache)(question("a").messages)
    chat(endpoint, **cache | change)(question("a").messages)
    chat(endpoint, **cache | {"concurrency": 2, "timeout": 7.0})(question("a").messages)
    assert endpoint.asked["a"] == 2


def test_a_remembered_reply_that_is_of_no_use_any_more_is_asked_for_again(endpoint, tmp_path):
    cache = {"cache": str(tmp_path / "cache")}
    endpoint.script = lambda prompt, before: completion("fine" if before else "old")
    assert chat(endpoint, **cache)(question("a").messages) == "old"
    assert chat(endpoint, **cache)(question("a").messages, only_fine) == "fine"


RUN = """
import sys
from jaxeval.errors import exit_code
from jaxeval.judges.chat import Question
from jaxeval.judges.http_chat import HttpChat, HttpSettings

def main():
    chat = HttpChat(sys.argv[1], HttpSettings("m", concurrency=3, cache=sys.argv[2]))
    replies = chat.ask([Question([{"role": "user", "content": f"question {i}"}]) for i in range(12)])
    print([reply.text for reply in replies].count("fine"), chat.usage.requests)

sys.exit(exit_code(main))
"""


def start(endpoint: Endpoint, cache: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, endpoint.url, str(cache)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(condition, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Gate:
    """Answers the first seven requests and holds the others back until it is opened."""

    def __init__(self):
        self.open, self.mutex = threading.Event(), threading.Lock()
        self.held, self.answered = 0, []

    def __call__(self, prompt, before):
        with self.mutex:
            held = len(self.answered) >= 7 and not self.open.is_set()
            if held:
                self.held += 1
            else:
                self.answered.append(prompt)
        if held:
            self.open.wait(60)
        return completion("fine")


def test_a_killed_run_goes_on_without_paying_twice(endpoint, tmp_path):
    gate = endpoint.script = Gate()
    process = start(endpoint, tmp_path / "cache")
    wait_until(lambda: gate.held == 3)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    gate.open.set()
    out, _ = start(endpoint, tmp_path / "cache").communicate(timeout=60)
    assert out.split() == ["12", "5"]
    assert len(gate.answered) == len(set(gate.answered)) == 12
    assert all(endpoint.asked[prompt] == 1 for prompt in gate.answered[:7])
    assert sum(endpoint.asked.values()) == 12 + 3


def test_an_interruption_ends_a_run_at_once_and_keeps_what_was_paid_for(endpoint, tmp_path):
    gate = endpoint.script = Gate()
    process = start(endpoint, tmp_path / "cache")
    wait_until(lambda: gate.held == 3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    gate.open.set()  # requests under way are answered while the run comes to its end
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert err == "interrupted; run the same command again to go on\n"
    assert len(cached(tmp_path / "cache")) == 10
