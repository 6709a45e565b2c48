"""What the studio's tests share: small sources written on the spot, plans over them, a model server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import pytest_socket

from examples.studio.planning import make_plan, tasks_of
from examples.studio.reading import read_document
from examples.studio.shapes import Plan, Reading

BARRELS = """# Oak barrels

[![build](https://example.org/badge.svg)](https://example.org)

An oak barrel is a wooden container in which a winery stores its wine for years. It consists of staves and hoops.

## How coopers make one

When the fire has softened the staves, the cooper bends them until the oak barrel closes. Then the hoops are driven on.

## Use

To open an oak barrel, you can remove the bung with a mallet and insert a tap. See https://example.org for pictures.

```python
barrel = OakBarrel(size=225)
barrel.open(mallet=True)
barrel.close()
```

## Options

- `size` (int): The volume of the oak barrel in litres. Default: 225.
- `toast` (str): How long the oak barrel was held over the fire, one of light, medium and heavy. Default: medium.

## Pitfalls

An oak barrel must not dry out: if its staves shrink, the barrel leaks and the wine is lost.

Unlike a steel tank, an oak barrel lets air through its wood, so an alternative is needed for white wine.

## Sponsors

Please donate to the oak barrel foundation, it is awesome.

## Changelog

- Fixed oak barrel bug #123 in version 2.0.
"""
CELLARS = """<!doctype html><html><head><title>Cellars</title><script>track("oak barrel")</script></head>
<body><nav>Oak barrel menu <a href="/">Home</a></nav>
<main><h1>Cellars</h1>
<p>A cellar keeps every oak barrel at a steady temperature while the wine matures in it for several years.</p>
<p>If the cellar gets too warm, the wine in an oak barrel can fail to mature and must be thrown away.</p>
<pre>cellar.add(OakBarrel())
cellar.cool(to=12)
cellar.lock()</pre></main>
<footer>Copyright by the oak barrel people</footer></body></html>
"""


@pytest.fixture
def cellar(tmp_path: Path) -> Path:
    """A folder with two good documents about oak barrels and one about something else."""
    folder = tmp_path / "cellar"
    (folder / "pages").mkdir(parents=True)
    (folder / "barrels.md").write_text(BARRELS, encoding="utf-8")
    (folder / "pages" / "cellars.html").write_text(CELLARS, encoding="utf-8")
    (folder / "trains.txt").write_text(
        "A train is a row of cars that runs on rails.\n\nIt stops at stations.\n", encoding="utf-8"
    )
    return folder


@pytest.fixture
def researched() -> Callable[..., tuple[Plan, list[Reading]]]:
    """`researched(topic, sources)`: the plan and the readings of all its documents."""

    def research(topic: str, *sources: Path) -> tuple[Plan, list[Reading]]:
        plan, documents = make_plan(topic, [str(source) for source in sources])
        return plan, [read_document(task) for task in tasks_of(plan, documents)]

    return research


@dataclass
class ModelServer:
    """A chat completions server: `answers` are handed out in order, the last one for ever; requests are kept."""

    url: str
    answers: list[tuple[int, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def says(self, *texts: str) -> None:
        """Answers with these texts, each as a chat completion."""
        self.answers = [(200, {"choices": [{"message": {"role": "assistant", "content": text}}]}) for text in texts]

    def take(self) -> tuple[int, Any]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def model_server(_no_network: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A real HTTP server on loopback; sockets to anywhere else stay refused."""
    pytest_socket.enable_socket()
    pytest_socket.socket_allow_hosts(["127.0.0.1"])
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.requests.append(json.loads(body))
            state.headers.append({"path": self.path, **dict(self.headers)})
            status, answer = state.take()
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = ModelServer(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
        pytest_socket._remove_restrictions()
