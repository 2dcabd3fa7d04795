"""What the checks of this folder share: helm, the chart rendered, and documents by their kind."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import yaml

HERE = pathlib.Path(__file__).parent
TREE = HERE.parent.parent
CHART = TREE / "deploy/helm/lockkeeper"
# The oldest that sleeps in preStop without a gate.
OLDEST = "1.30"
CLUSTER = ["--namespace", "here", "--kube-version", f"{OLDEST}.0"]
# By the scripts of this folder.
HELM, BINARY, PROMTOOL, CRANE = (
    os.environ.get(name, "") for name in ("HELM", "LOCKKEEPER", "PROMTOOL", "CRANE")
)
# Not of Kubernetes itself, but of the Prometheus operator.
FOREIGN_KINDS = ["ServiceMonitor", "PodMonitor", "PrometheusRule"]
# The least that the chart takes.
LEAST = {
    "auth.allowUnauthenticated": "true",
    "session.secret": "0123456789abcdef0123456789abcdef",
}


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def until_it_answers(address, process):
    """The text at an address, from a server that is starting."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        assert process.poll() is None, f"{process.args[0]} does not start"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return answer.read().decode()
        except urllib.error.URLError:
            time.sleep(0.05)
    raise AssertionError(f"{process.args[0]} does not answer")


def run(*command, **options):
    options = {"capture_output": True, "text": True, "timeout": 120} | options
    return subprocess.run(command, check=False, **options)


def helm(*arguments, **options):
    return run(HELM, *arguments, **options)


def template(*arguments, chart=CHART, **options):
    return helm("template", "release", str(chart), *CLUSTER, *arguments, **options)


def documents_of(answer):
    assert answer.returncode == 0, answer.stderr
    return [document for document in yaml.safe_load_all(answer.stdout) if document]


def rendered(values):
    return documents_of(template("-f", str(values)))


def flags(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def rendered_with(chart=CHART, **values):
    """The least, and values whose dots are written as two underscores."""
    values = LEAST | {key.replace("__", "."): value for key, value in values.items()}
    return documents_of(template(*flags(values), chart=chart))


def of_kind(documents, kind):
    return [document for document in documents if document["kind"] == kind]


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


def selects(selector, labels):
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def run_checks(todo):
    """Runs checks by their names, says how each went, and ends with how many failed."""
    failed = 0
    for name, check in todo:
        try:
            check()
            print(f"ok {name}")
        except Exception as problem:  # noqa: BLE001
            failed += 1
            print(f"FAILED {name}: {type(problem).__name__}: {problem}")
    print(f"{len(todo) - failed} passed, {failed} failed")
    sys.exit(failed != 0)
