"""An S3 server on the loopback, as a process: prints its port, and ends when its standard input does."""

from __future__ import annotations

import os
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server


def main() -> None:
    application = DomainDispatcherApplication(create_backend_app)
    # One request at a time: the server checks a condition and writes in two steps, which S3 itself does in one.
    server = make_server("127.0.0.1", 0, application, threaded=False, request_handler=MotoRequestHandler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
