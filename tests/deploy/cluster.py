"""A Kubernetes API server on an etcd of its own: no kubelet, scheduler or controllers, so that what
is applied is admitted, validated and kept, and nothing runs."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time

import yaml

from support import HELM, free_ports, run

BINARIES = pathlib.Path(os.environ["KUBERNETES"])
TOKEN = "of-this-test-only"


def succeeded(answer):
    assert answer.returncode == 0, answer.stderr
    assert "Warning" not in answer.stderr, answer.stderr
    return answer.stdout


class Cluster:
    """What `kubectl` and `helm` reach; ended with the block that it is opened for."""

    def __init__(self):
        self._stack = contextlib.ExitStack()
        self._folder = None
        self._environment = {"PATH": os.environ["PATH"]}

    def __enter__(self):
        with self._stack:
            self._folder = pathlib.Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            self._start()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def kubectl(self, *arguments, **options):
        return run(str(BINARIES / "kubectl"), *arguments, env=self._environment, **options)

    def helm(self, *arguments):
        return run(HELM, *arguments, env=self._environment)

    def start(self, stack, *command):
        """Starts a program that reaches the server, and is ended with the stack."""
        log = self._folder / f"{pathlib.Path(command[0]).name}.log"
        output = stack.enter_context(log.open("wb"))
        server = subprocess.Popen(command, stdout=output, stderr=output, env=self._environment)
        stack.callback(server.wait)
        stack.callback(server.kill)
        return server

    def get(self, namespace, *what):
        """An object, or a list of them."""
        answer = self.kubectl("--namespace", namespace, "get", *what, "--output", "json")
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def apply(self, namespace, documents, verb="apply"):
        """Refuses what the server warns of, and fields that it does not know."""
        command = ["--namespace", namespace, "--warnings-as-errors", verb, "--validate=strict"]
        text = yaml.safe_dump_all(documents)
        return self.kubectl(*command, "--filename", "-", input=text)

    def namespace(self, name):
        """One in which Pod Security `restricted` is enforced and warned of, and with the account
        that a controller would make."""
        standards = {f"pod-security.kubernetes.io/{it}": "restricted" for it in ("enforce", "warn")}
        documents = [
            {"kind": "Namespace", "metadata": {"name": name, "labels": standards}},
            {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}},
        ]
        answer = self.apply(name, [{"apiVersion": "v1"} | document for document in documents])
        assert answer.returncode == 0, answer.stderr
        return name

    def _start(self):
        etcd, peer, port = free_ports(3)
        etcd, peer = (f"http://127.0.0.1:{it}" for it in (etcd, peer))
        self.start(
            self._stack,
            "etcd",
            *["--data-dir", str(self._folder / "etcd"), "--unsafe-no-fsync"],
            *["--listen-client-urls", etcd, "--advertise-client-urls", etcd],
            *["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer],
            *["--initial-cluster", f"default={peer}"],
        )
        key = self._folder / "accounts.pem"
        made = run("openssl", "genrsa", "-out", str(key), "2048")
        assert made.returncode == 0, made.stderr
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
        certificates = self._folder / "certificates"
        self.start(
            self._stack,
            str(BINARIES / "kube-apiserver"),
            *["--etcd-servers", etcd, "--secure-port", str(port), "--bind-address", "127.0.0.1"],
            *["--cert-dir", str(certificates), "--authorization-mode", "RBAC"],
            *["--token-auth-file", str(tokens), "--service-cluster-ip-range", "10.0.0.0/24"],
            *["--service-account-issuer", "https://kubernetes.default.svc"],
            *["--service-account-signing-key-file", str(key)],
            *["--service-account-key-file", str(key)],
        )
        self._reach(port, certificates / "apiserver.crt")
        self._await_ready(self._folder / "kube-apiserver.log")

    def _reach(self, port, authority):
        server = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority)}
        context = {"cluster": "it", "user": "it"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": server}],
            "users": [{"name": "it", "user": {"token": TOKEN}}],
            "contexts": [{"name": "it", "context": context}],
            "current-context": "it",
        }
        path = self._folder / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        # Neither of them reads or writes what the caller has in its home.
        home = {"HOME": str(self._folder), "KUBECONFIG": str(path)}
        self._environment |= home

    def _await_ready(self, log):
        until = time.monotonic() + 180
        while time.monotonic() < until:
            answer = self.kubectl("get", "--raw", "/readyz")
            if answer.returncode == 0:
                return
            time.sleep(0.2)
        end = log.read_text()[-3000:]
        raise AssertionError(f"the API server is not ready: {answer.stderr} {end}")
