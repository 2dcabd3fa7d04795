"""Terraform, unchanged, locks its state. Ends with `N passed, N failed`.

The state is kept by a server of this test; the locks are the coordinator's. Without Terraform, its
requests are sent as it sends them.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

address, terraform = sys.argv[1:]
counts = {True: 0, False: 0}
state = None

RUN = """
terraform {
  backend "http" {
    address        = "http://127.0.0.1:%(port)d/state"
    lock_address   = "http://%(address)s/terraform/team%%2Fnet"
    unlock_address = "http://%(address)s/terraform/team%%2Fnet"
  }
}

resource "terraform_data" "step" {
  triggers_replace = timestamp()
  provisioner "local-exec" {
    command = "%(command)s"
  }
}
"""


class State(BaseHTTPRequestHandler):
    """The state of all runs."""

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, state) if state else self.answer(404)

    def do_POST(self):
        global state
        state = self.rfile.read(int(self.headers["content-length"]))
        self.answer(200)

    def log_message(self, *_):
        pass


def check(what, holds, shown=""):
    counts[bool(holds)] += 1
    print("ok" if holds else f"FAILED: {shown}", what)


def ask(method, body=""):
    connection = http.client.HTTPConnection(address, timeout=30)
    headers = {"content-type": "application/json"}
    connection.request(method, "/terraform/team%2Fnet", body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def info(run):
    return json.dumps({"ID": run, "Operation": "OperationTypeApply", "Who": "me@here"})


def by_protocol():
    check("a free lock is locked", ask("LOCK", info("a")) == (200, ""))
    status, holder = ask("LOCK", info("b"))
    check("another run is shown its holder", status == 423 and json.loads(holder)["ID"] == "a")
    check("another run cannot unlock", ask("UNLOCK", info("b"))[0] == 400)
    check("its run can", ask("UNLOCK", info("a")) == (200, ""))
    check("the next run locks it", ask("LOCK", info("b")) == (200, ""))
    check("force-unlock has no ID", ask("UNLOCK")[0] == 200)
    check("a state is refused", ask("GET")[0] == 405)


class Run:
    """One user of Terraform, in a folder of its own."""

    def __init__(self, folder, port, command):
        self.folder = Path(folder)
        self.folder.mkdir()
        text = RUN % {"port": port, "address": address, "command": command}
        (self.folder / "main.tf").write_text(text)
        self.environment = os.environ | {
            "TF_CLI_CONFIG_FILE": os.devnull,
            "CHECKPOINT_DISABLE": "1",
            "TF_IN_AUTOMATION": "1",
        }
        done = self.start("init").communicate(timeout=120)[0]
        check("terraform init", "successfully initialized" in done, done)

    def start(self, *arguments):
        command = [terraform, *arguments, "-no-color"]
        if arguments[0] != "force-unlock":
            command.append("-input=false")
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ends(self, *arguments):
        process = self.start(*arguments)
        said = process.communicate(timeout=120)[0]
        return process.returncode, said


def with_terraform():
    server = ThreadingHTTPServer(("127.0.0.1", 0), State)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        begun, end = Path(folder, "begun"), Path(folder, "end")
        # It also ends with this test.
        slow = f"touch {begun}; while [ -e {begun} ] && [ ! -e {end} ]; do sleep 0.1; done"
        one = Run(f"{folder}/one", server.server_port, slow)
        other = Run(f"{folder}/other", server.server_port, "true")
        applying = one.start("apply", "-auto-approve")
        try:
            deadline = time.monotonic() + 60
            while not begun.exists() and applying.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            code, said = other.ends("apply", "-auto-approve")
            locked = code != 0 and "Error acquiring the state lock" in said
            check("the second of two apply at once is refused", locked, said)
            shown = "OperationTypeApply" in said and "ID:" in said
            check("and is shown who holds it", shown, said)
            waiting = other.start("apply", "-auto-approve", "-lock-timeout=60s")
            end.touch()
            said = applying.communicate(timeout=120)[0]
            check("the first one is complete", "Apply complete!" in said, said)
            said = waiting.communicate(timeout=120)[0]
            check("with a timeout, the second one follows", "Apply complete!" in said, said)
        finally:
            applying.kill()
        check("both have unlocked", ask("LOCK", info("left")) == (200, ""))
        code, said = other.ends("apply", "-auto-approve")
        check("a run that never unlocks is in the way", code != 0 and "left" in said, said)
        code, said = other.ends("force-unlock", "-force", "left")
        check("force-unlock releases it", code == 0, said)
        code, said = other.ends("apply", "-auto-approve")
        check("then there is nothing in the way", code == 0, said)


by_protocol()
if terraform:
    with_terraform()
else:
    print("neither terraform nor tofu is installed: checked by the protocol only")
print(f"{counts[True]} passed, {counts[False]} failed")
sys.exit(counts[False] > 0)
