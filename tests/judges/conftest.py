"""An endpoint on this machine that does what a test tells it to, and keeps count."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True)
class Response:
    """What the endpoint sends. `drop` closes the connection after the bytes of `body`, whatever was announced."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False


Script = Callable[[str, int], Response]
"""Gets the last message of a request, and how often it was asked before."""


def completion(text: Any, *, finish: str = "stop", usage: Any = None) -> Response:
    """A chat completion; it takes 100 prompt tokens and 10 completion tokens."""
    usage = {"prompt_tokens": 100, "completion_tokens": 10} if usage is None else usage
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return Response(json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode())


class Endpoint(ThreadingHTTPServer):
    """The server.

    Attributes:
        script: decides on responses; may sleep.
        asked: how often each last message has come; bodies, headers, times: of every request.
        most: requests that were under way at once, at most.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: Script = lambda prompt, before: completion("fine")
        self.asked: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.active = self.most = 0
        self.mutex = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no reason to print anything."""


class Handler(BaseHTTPRequestHandler):
    """Answers requests by the endpoint's script."""

    server: Endpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        server = self.server
        with server.mutex:
            before = server.asked[prompt]
            server.asked[prompt] += 1
            server.bodies.append(body)
            server.headers.append({**dict(self.headers), "path": self.path})
            server.times.append(time.monotonic())
            server.active += 1
            server.most = max(server.most, server.active)
        try:
            response = server.script(prompt, before)
        finally:
            with server.mutex:
                server.active -= 1
        if response.drop and not response.body:
            self.close_connection = True
            return
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body) + 1000 * response.drop))
        self.end_headers()
        self.wfile.write(response.body)
        self.close_connection = response.drop

    def log_message(self, *args: Any) -> None:
        """Quietly."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
