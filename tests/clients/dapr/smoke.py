"""What programs do with the lock calls of Dapr's SDK. Ends with `N passed, N failed`.

The SDK waits for the health of its sidecar over HTTP, which no lock needs; a server of this test
answers that. Everything else is the coordinator's.
"""

import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


health = HTTPServer(("127.0.0.1", 0), Healthy)
threading.Thread(target=health.serve_forever, daemon=True).start()
os.environ["DAPR_HTTP_ENDPOINT"] = f"http://127.0.0.1:{health.server_port}"

# The SDK reads its settings when it is imported.
from dapr.clients import DaprClient  # noqa: E402
from dapr.clients.grpc._response import UnlockResponseStatus  # noqa: E402

counts = {True: 0, False: 0}


def check(what, holds):
    counts[holds] += 1
    print("ok" if holds else "FAILED", what)


with DaprClient(sys.argv[1]) as client:
    with client.try_lock("orders", "order-7", "worker-1", 60) as lock:
        check("a free lock is locked", lock.success)
        with client.try_lock("orders", "order-7", "worker-2", 60) as other:
            check("another owner does not get it", not other.success)
        with client.try_lock("orders", "order-7", "worker-1", 60) as again:
            check("nor does its owner, a second time", not again.success)
        with client.try_lock("payments", "order-7", "worker-2", 60) as other:
            check("another store has another lock", other.success)
        status = client.unlock("orders", "order-7", "worker-2").status
        check("a stranger cannot unlock", status == UnlockResponseStatus.lock_belongs_to_others)
    status = client.unlock("orders", "order-7", "worker-1").status
    check("the block has unlocked it", status == UnlockResponseStatus.lock_does_not_exist)
    with client.try_lock("orders", "order-7", "worker-2", 60) as lock:
        check("then it is free", lock.success)
    try:
        client.try_lock("orders", "order-7", "worker-1", 0)
        check("an expiry of zero is refused", False)
    except Exception as refused:  # The SDK has kinds of its own.
        check("an expiry of zero is refused", "expiry_in_seconds" in str(refused))

print(f"{counts[True]} passed, {counts[False]} failed")
sys.exit(counts[False] > 0)
