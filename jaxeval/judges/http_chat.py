"""A chat behind an OpenAI-compatible endpoint (vLLM, llama.cpp, SGLang, a hosted model …): `POST /v1/chat/completions`.

Asks several questions at a time, tries again what failed, keeps to a rate, counts tokens, and remembers usable replies
in a cache. Whatever the server does, each question ends with a reply or with the reason why there is none.
"""

from __future__ import annotations

import dataclasses
import email.utils
import hashlib
import json
import math
import os
import random
import re
import threading
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import httpx2

from jaxeval.errors import InputError, RunError
from jaxeval.judges.cache import ReplyCache
from jaxeval.judges.chat import Check, Message, Question, Reply, UnusableReply, any_reply
from jaxeval.judges.protocol import Progress, Usage, no_progress
from jaxeval.judges.workers import Pace, run_threads

COMPLETIONS = "/chat/completions"
WORTH_RETRYING = frozenset({408, 409, 425, 429})
"""Statuses below 500 that may be gone the next time."""
MAX_REPLY = 10_000_000
"""Bytes of a response; more is no reply."""
_SECRET = re.compile(r"key|token|secret|sig|password", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class HttpSettings:
    """How a model is asked, wherever its endpoint is. Holds no secret, so it can be written beside the results.

    Attributes:
        model: as the endpoint calls it.
        key_variable: environment variable that holds the API key; None if the endpoint needs none.
        temperature, max_tokens: of a reply.
        extra: more fields of the request body, such as `{"seed": 1}`; a null removes a field, which helps where an
            endpoint wants `{"max_tokens": null, "max_completion_tokens": 192}`.
        concurrency: requests under way at once. requests_per_minute: the most that are started; None for no limit.
        timeout: seconds that one request may take in all.
        attempts: times a question is asked before it is given up.
        first_wait: seconds before the second attempt, doubled from one to the next, less some jitter. longest_wait: no
            wait is longer; a server that asks for more is not waited for.
        give_up_after: questions in a row without any answer from the server after which the rest is not asked.
        cache: file of the replies so far; None for no cache.
        prompt_price, completion_price: of a million tokens, in whatever currency; None if not known.
    """

    model: str
    key_variable: str | None = None
    temperature: float = 0.0
    max_tokens: int = 192
    extra: dict = dataclasses.field(default_factory=dict)
    concurrency: int = 8
    requests_per_minute: float | None = None
    timeout: float = 120.0
    attempts: int = 4
    first_wait: float = 1.0
    longest_wait: float = 60.0
    give_up_after: int = 50
    cache: str | None = None
    prompt_price: float | None = None
    completion_price: float | None = None

    def __post_init__(self):
        if not self.model:
            raise InputError("model: the name of a model is needed")
        for name in ("max_tokens", "concurrency", "timeout", "attempts", "give_up_after"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} is {getattr(self, name)}, expected more than 0")
        if self.requests_per_minute is not None and self.requests_per_minute <= 0:
            raise InputError(f"requests_per_minute is {self.requests_per_minute}, expected more than 0")

    def cost(self, usage: Usage) -> float | None:
        """What so many tokens cost; None without prices."""
        if self.prompt_price is None or self.completion_price is None:
            return None
        return (usage.prompt_tokens * self.prompt_price + usage.completion_tokens * self.completion_price) / 1e6


class _Answer(NamedTuple):
    """What a server said, and the tokens it counted."""

    text: str
    cut_off: bool
    usage: Usage


class _Failure(Exception):
    """No answer. `wait` is what the server asks for, in seconds."""

    def __init__(self, reason: str, *, retry: bool = True, wait: float | None = None):
        super().__init__(reason)
        self.retry, self.wait = retry, wait


class HttpChat:
    """The chat; see the module docstring. May be used from several threads.

    Args:
        url: `http://host:8000`, with or without `/v1` or `/v1/chat/completions`.
        settings: how its model is asked.

    Attributes:
        settings: as given.
        usage: what was spent since this was made, on failures too.
    """

    def __init__(self, url: str, settings: HttpSettings):
        self.settings, self.name, self.usage = settings, settings.model, Usage()
        self._url = endpoint(url)
        self._key = _api_key(settings.key_variable)
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=settings.timeout,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=settings.concurrency),
        )
        self._cache = ReplyCache(settings.cache) if settings.cache else None
        self._pace = Pace(settings.requests_per_minute)
        self._mutex = threading.Lock()
        self._unanswered = 0

    def ask(self, questions: Sequence[Question], *, progress: Progress = no_progress) -> list[Reply]:
        """One reply a question, in their order; equal questions are asked once.

        An interruption lets requests under way finish for a few seconds, and keeps what they bring.
        """
        bodies = [self._body(question.messages) for question in questions]
        first: dict[str, int] = {}
        for index, body in enumerate(bodies):
            first.setdefault(_key(body), index)
        indices = list(first.values())
        progress(len(questions) - len(indices))
        replies = run_threads(
            lambda at, stop: self._reply(bodies[indices[at]], questions[indices[at]].check, stop),
            len(indices),
            self.settings.concurrency,
            progress,
        )
        by_index = dict(zip(indices, replies, strict=True))
        return [
            by_index[index] if index in by_index else dataclasses.replace(by_index[first[_key(body)]], cached=True)
            for index, body in enumerate(bodies)
        ]

    def __call__(self, messages: Sequence[Message], check: Check = any_reply) -> str:
        """The reply to one conversation.

        Raises:
            RunError: there is none; the message says why.
        """
        reply = self.ask([Question(messages, check)])[0]
        if reply.text is None:
            raise RunError(f"{self.name}: {reply.reason}")
        return reply.text

    def _body(self, messages: Sequence[Message]) -> dict[str, Any]:
        settings = self.settings
        body = {
            "model": settings.model,
            "messages": list(messages),
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            **settings.extra,
        }
        return {name: value for name, value in body.items() if value is not None}

    def _reply(self, body: dict[str, Any], check: Check, stop: threading.Event) -> Reply:
        """From the cache, or else from the server, in as many attempts as it may take."""
        key = _key(body)
        if remembered := self._remembered(key, check):
            return remembered
        if self._unanswered >= self.settings.give_up_after:
            return Reply(None, f"not asked: {self._unanswered} questions in a row got no answer")
        spent, reason = Usage(), ""
        for attempt in range(self.settings.attempts):
            self._pace.wait(stop)
            began = time.monotonic()
            try:
                answer = self._send(body)
                spent += self._count(answer.usage, began)
                _check(answer, check)
            except UnusableReply as error:
                reason = str(error)
            except _Failure as error:
                spent += self._count(Usage(), began)
                reason = self._clean(str(error))
                wait = self._wait(attempt, error)
                if wait is None:
                    break
                stop.wait(wait)
            else:
                if self._cache:
                    self._cache.put(key, {"model": body["model"], "text": answer.text, **dataclasses.asdict(spent)})
                return Reply(answer.text, usage=spent)
        return Reply(None, reason, spent)

    def _remembered(self, key: str, check: Check) -> Reply | None:
        entry = self._cache.get(key) if self._cache else None
        if entry is None:
            return None
        try:
            usage = Usage(**{field.name: entry[field.name] for field in dataclasses.fields(Usage)})
            check(entry["text"])
        except (TypeError, KeyError, UnusableReply):  # damaged, or usable only to an earlier version
            return None
        return Reply(entry["text"], usage=usage, cached=True)

    def _count(self, usage: Usage, began: float) -> Usage:
        """Add one request to the total, and give it back."""
        usage = dataclasses.replace(usage, requests=1, seconds=time.monotonic() - began)
        with self._mutex:
            self.usage += usage
        return usage

    def _wait(self, attempt: int, failure: _Failure) -> float | None:
        """Seconds until the next attempt; None if there shall be none."""
        settings = self.settings
        longest = settings.longest_wait
        if failure.wait is not None and failure.wait <= longest:
            self._pace.pause(failure.wait)
        if not failure.retry or attempt + 1 == settings.attempts or (failure.wait or 0) > longest:
            with self._mutex:
                self._unanswered += 1
            return None
        return min(longest, settings.first_wait * 2**attempt) * random.uniform(0.5, 1)

    def _send(self, body: dict[str, Any]) -> _Answer:
        """One request.

        Raises:
            _Failure: there is no answer.
        """
        content, deadline = bytearray(), time.monotonic() + self.settings.timeout
        try:
            with self._client.stream("POST", self._url, json=body) as response:
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > MAX_REPLY:
                        raise _Failure("the response does not end")
                    if time.monotonic() > deadline:
                        raise _Failure(f"no complete response within {self.settings.timeout:g} s")
        except httpx2.TimeoutException:
            raise _Failure(f"no response within {self.settings.timeout:g} s") from None
        except httpx2.HTTPError as error:
            raise _Failure(f"no response ({error or type(error).__name__})") from None
        if response.status_code != 200:
            raise _status_failure(response, bytes(content))
        answer = _read_answer(bytes(content))
        with self._mutex:
            self._unanswered = 0
        return answer

    def _clean(self, reason: str) -> str:
        """A reason fit for a table: one line of bearable length, without the key, which some servers repeat."""
        line = " ".join(reason.split())
        return (line.replace(self._key, "***") if self._key else line)[:300]


def endpoint(url: str) -> str:
    """The full address of an endpoint's chat completions.

    Raises:
        InputError: it is no such address, or holds a password or key, which would end up in files.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{url}: not the address of an endpoint (http://host:port/v1)")
    if parts.username or parts.password or _SECRET.search(parts.query):
        raise InputError(f"{parts.hostname}: keep keys out of the address; name an environment variable that holds it")
    path = parts.path.rstrip("/")
    if not path.endswith(COMPLETIONS):
        path = (path or "/v1") + COMPLETIONS
    return urllib.parse.urlunsplit(parts._replace(path=path, fragment=""))


def _api_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(f"the environment variable {variable} holds no API key")
    if not key.isascii() or not key.isprintable():
        raise InputError(f"the environment variable {variable} holds something that is no API key")
    return key


def _key(body: Mapping[str, Any]) -> str:
    """Of the cache: model, prompt and settings, wherever the endpoint is."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _status_failure(response: httpx2.Response, content: bytes) -> _Failure:
    """What a status other than 200 means."""
    status = response.status_code
    text = content.decode("utf-8", "replace")
    code = None
    try:
        error = json.loads(text)["error"]
        text, code = (error["message"], error.get("code")) if isinstance(error, dict) else (str(error), None)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass  # not the form of OpenAI: the text as it is
    retry = (status in WORTH_RETRYING or status >= 500) and code != "insufficient_quota"
    wait = _retry_after(response.headers.get("retry-after"))
    return _Failure(f"HTTP {status}: {text}", retry=retry, wait=wait)


def _retry_after(value: str | None) -> float | None:
    """Seconds, from either form of the header (RFC 9110, 10.2.3); None where it is missing or malformed."""
    try:
        seconds = float(value or "")
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value or "").timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _read_answer(content: bytes) -> _Answer:
    """The text of a response, and what it cost.

    Raises:
        _Failure: it is not what such an endpoint sends.
    """
    try:
        response = json.loads(content)
        choice = response["choices"][0]
        text, refusal = choice["message"].get("content"), choice["message"].get("refusal")
        cut_off = choice.get("finish_reason") == "length"
        counted = response.get("usage") or {}
        prompt, completion = (_tokens(counted.get(f"{name}_tokens")) for name in ("prompt", "completion"))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        start = content[:80].decode("utf-8", "replace")
        raise _Failure(f"the response is no chat completion: {start!r}") from None
    if not isinstance(text, str):
        text = ""
        if refusal:
            raise _Failure(f"refused: {refusal}", retry=False)
    return _Answer(text, cut_off, Usage(prompt_tokens=prompt, completion_tokens=completion))


def _tokens(count: Any) -> int:
    return count if type(count) is int and count >= 0 else 0


def _check(answer: _Answer, check: Check) -> None:
    if answer.cut_off:
        raise UnusableReply("cut off at the limit of tokens")
    if not answer.text.strip():
        raise UnusableReply("an empty reply")
    try:
        answer.text.encode()
    except UnicodeEncodeError:
        raise UnusableReply("half of a surrogate pair, which is no text") from None
    check(answer.text)
