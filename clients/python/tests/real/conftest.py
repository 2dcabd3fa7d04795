"""Real coordinators and stores for the tests."""

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import grpc
import pytest

from lockkeeper.v1 import admin_pb2

BINARY = Path(
    os.environ.get("LOCKKEEPER")
    or Path(__file__).parents[4] / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/lockkeeper"
)
LIMIT = 20


class Coordinator:
    """A coordinator, ended by its process id."""

    def __init__(self, *settings, listen="127.0.0.1:0"):
        self._settings = settings
        self.process = None
        self.start(listen)

    def start(self, listen):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LOCKKEEPER")}
        kept.pop("RUST_LOG", None)
        command = [BINARY, "serve", "--listen", listen, "--set", "log.format=json"]
        command += self._settings
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=kept)
        for line in self.process.stderr:
            event = json.loads(line) if line.startswith("{") else {}
            if "address" in event:
                self.address = event["address"]
                break
        else:
            raise RuntimeError(f"the coordinator ended with {self.process.wait()}")
        # Nothing reads its log from here on, but it must be able to go on writing.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        """Start it again at the same address."""
        self.start(self.address)

    def drain(self):
        self.process.terminate()
        self.process.wait(LIMIT)

    def force_release(self, name, reason="maintenance"):
        with grpc.insecure_channel(self.address) as channel:
            call = channel.unary_unary(
                "/lockkeeper.v1.LockAdminService/ForceRelease",
                admin_pb2.ForceReleaseRequest.SerializeToString,
                admin_pb2.ForceReleaseResponse.FromString,
            )
            request = admin_pb2.ForceReleaseRequest(name=name, reason=reason)
            assert call(request, timeout=LIMIT).released


@pytest.fixture
def serve():
    """Start coordinators with settings; they are killed at the end."""
    started = []

    def start(*settings):
        flags = [part for it in settings for part in ("--set", it)]
        started.append(Coordinator(*flags))
        return started[-1]

    yield start
    for coordinator in started:
        coordinator.kill()


@pytest.fixture
def coordinator(serve):
    return serve()


@pytest.fixture
def redis(tmp_path):
    """Start a Redis on a free port, and return its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [shutil.which("redis-server"), "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--save", "", "--appendonly", "no", "--dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    eventually(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), "redis")
    yield f"redis://127.0.0.1:{port}"
    process.kill()
    process.wait()


@pytest.fixture
def certificate(tmp_path):
    """Make a certificate, signed by itself or by another: its file, and that of its key."""

    def make(name, *names, authority=None):
        key, cert = tmp_path / f"{name}.key", tmp_path / f"{name}.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
        command += ["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        command += ["-keyout", key, "-out", cert, "-addext", f"subjectAltName={','.join(names)}"]
        if authority:
            command += ["-CA", authority[0], "-CAkey", authority[1]]
            command += ["-addext", "basicConstraints=critical,CA:FALSE"]
        subprocess.run(command, check=True, capture_output=True)
        return cert, key

    return make


def eventually(is_so, what):
    until = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < until, f"not in time: {what}"
        time.sleep(0.01)
