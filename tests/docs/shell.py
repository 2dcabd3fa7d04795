"""A clone of the tree with the coordinator under test in it, and shells that run in it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve()
# The ports that pages name; each page runs with free ones instead.
PORTS = ("7625", "7626", "6379")
SECONDS_MAX = 600
# Some programs colour what they print although it is no terminal.
COLOURS = re.compile("\x1b\\[[0-9;]*m")


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [str(it.getsockname()[1]) for it in sockets]
    for it in sockets:
        it.close()
    return ports


class Clone:
    """The tracked files in a folder of their own, with the binary where `make run` puts it."""

    def __init__(self, lockkeeper):
        self.folder = Path(tempfile.mkdtemp(prefix="lockkeeper-docs-"))
        self.ports = dict(zip(PORTS, free_ports(len(PORTS))))
        self.tree = self.folder / "clone"
        self.logs = self.folder / "logs"
        self.logs.mkdir()
        self.tree.mkdir()
        copy = "git ls-files -z | tar --null --ignore-failed-read -T - -cf - | tar -xf - -C "
        subprocess.run(copy + str(self.tree), shell=True, cwd=ROOT, check=True)
        makefile = self.tree / "Makefile"
        makefile.write_text(self.with_free_ports(makefile.read_text()))
        release = self.tree / "target" / "release"
        release.mkdir(parents=True)
        # Commands without an address ask the free port. Programs must be given the address, so it is
        # in the environment of the binary only.
        program = release / "lockkeeper"
        address = f"http://127.0.0.1:{self.ports['7625']}"
        program.write_text(
            "#!/bin/sh\n"
            f': "${{LOCKKEEPER_SERVER={address}}}"\n'
            "export LOCKKEEPER_SERVER\n"
            f"exec '{lockkeeper}' \"$@\"\n"
        )
        program.chmod(0o755)

    def with_free_ports(self, text):
        for named, free in self.ports.items():
            text = text.replace(named, free)
        return text

    def with_named_ports(self, text):
        for named, free in self.ports.items():
            text = text.replace(free, named)
        return text

    def environment(self):
        dropped = ("LOCKKEEPER", "CARGO", "MAKE", "RUST_LOG", "OTEL", "VIRTUAL_ENV")
        kept = {key: it for key, it in os.environ.items() if not key.startswith(dropped)}
        release, stand_ins = self.tree / "target" / "release", ROOT / "tests" / "docs" / "bin"
        return kept | {
            # `cargo` finds the binary in a terminal that has not set PATH.
            "PATH": f"{stand_ins}:{kept['PATH']}:{release}",
            "LOCKKEEPER__SERVER__LISTEN": f"127.0.0.1:{self.ports['7625']}",
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            # What a page installs there stays out of the user's repository of Maven.
            "MAVEN_OPTS": f"-Dmaven.repo.local={TARGET / 'docs' / 'maven'}",
        }

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Shell:
    """One terminal of a reader. Its processes end with it."""

    def __init__(self, clone):
        self.clone = clone
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=clone.tree,
            env=clone.environment(),
            start_new_session=True,
            text=True,
        )

    def start(self, command, log):
        """Starts a command, whose output and status go to files."""
        source = log.with_suffix(".sh")
        source.write_text(self.clone.with_free_ports(command) + "\n")
        status = log.with_suffix(".status")
        self.process.stdin.write(
            f". {source} >{log} 2>&1 </dev/null; echo $? >{status}.new; mv {status}.new {status}\n"
        )
        self.process.stdin.flush()
        return Started(self, log, status)

    def end(self):
        """TERM to all that was started here, and KILL to what is left 20 s later."""
        group = self.process.pid
        for number, seconds in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
            try:
                os.killpg(group, number)
            except ProcessLookupError:
                break
            wait_until(lambda: self.process.poll() is not None and not has_members(group), seconds)
        self.process.stdin.close()
        self.process.wait()


class Started:
    def __init__(self, shell, log, status):
        self.shell, self.log, self.status_file = shell, log, status

    def output(self):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return self.shell.clone.with_named_ports(COLOURS.sub("", text))

    def status(self):
        """None while it runs."""
        return int(self.status_file.read_text()) if self.status_file.exists() else None

    def has_ended(self):
        return self.status() is not None or self.shell.process.poll() is not None


def has_members(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(is_true, seconds=SECONDS_MAX):
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
