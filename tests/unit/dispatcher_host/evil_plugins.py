"""Dispatchers that do what nobody should: the tests install them as a package."""

import contextlib
import ctypes
import fcntl
import os
import resource
import socket
import threading
import time
from pathlib import Path
from typing import ClassVar

from multiqueue.plugins import Nomination


def send(data: bytes) -> None:
    """Write to whatever is open: one of it leads to the manager."""
    for handle in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(handle, data)
    time.sleep(30)


def call(name: str, *arguments: int) -> None:
    """Call a function of the C library that Python has no name for."""
    if ctypes.CDLL(None, use_errno=True)[name](*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def signal_when_written(pid: int) -> None:
    """Have somebody else get the signal that a pipe can be read."""
    ends = os.pipe()
    try:
        fcntl.fcntl(ends[0], fcntl.F_SETOWN, pid)
    finally:
        os.close(ends[0])
        os.close(ends[1])


class Plugin:
    name = "plugin"

    def nominate(self, view):
        self.act(view)
        return Nomination(clusters=("a",), note=self.tell())

    def act(self, view): ...
    def tell(self):
        return ""


class Good(Plugin): ...


class Spins(Plugin):
    def act(self, view):
        while True:
            ...


class Fills(Plugin):
    held: ClassVar[list[bytearray]] = []

    def act(self, view):
        while True:
            self.held.append(bytearray(1 << 24))


class Exits(Plugin):
    def act(self, view):
        os._exit(3)


class Crashes(Plugin):
    def act(self, view):
        ctypes.string_at(0)


class Raises(Plugin):
    def act(self, view):
        raise SystemExit("enough")


class Dials(Plugin):
    def act(self, view):
        socket.socket()


class Changes(Plugin):
    def act(self, view):
        view.clusters[0].labels["gpu"] = "mine"


class HangsUp(Plugin):
    def act(self, view):
        os.closerange(3, 256)
        time.sleep(30)


class SendsNonsense(Plugin):
    def act(self, view):
        send(bytes(4) + b"nonsense" * 8)


class SendsDepths(Plugin):
    def act(self, view):
        body = b"\x81\xa1x" + bytes([0x91]) * 100_000 + bytes([0xC0])
        send(len(body).to_bytes(4, "big") + body)


class SendsMuch(Plugin):
    def act(self, view):
        send(bytes([255] * 8))


class Lies:
    name = "lies"

    def nominate(self, view):
        return Nomination(clusters=("a", 7))


class NamesStrangers:
    name = "names-strangers"

    def nominate(self, view):
        return Nomination(clusters=("moon", "b"))


class Counts(Plugin):
    count = 0

    def tell(self):
        self.count += 1
        return str(self.count)


class Prints(Plugin):
    def act(self, view):
        for _ in range(3):
            print("x" * 1_000_000)  # noqa: T201


class ForksAndReturns(Plugin):
    def tell(self):
        return "parent" if os.fork() else "child"


class Pid(Plugin):
    def tell(self):
        return str(os.getpid())


class Limit(Plugin):
    def tell(self):
        return f"{os.getpid()} {resource.getrlimit(resource.RLIMIT_AS)[1]}"


class Reaches(Plugin):
    def tell(self):
        boss, here = os.getppid(), Path(__file__).parent
        tries = {
            "environment": lambda: os.environ["SECRET"],
            "manager's": Path(f"/proc/{boss}/environ").read_bytes,
            "file": (here.parent / "secret").read_bytes,
            "write": (here / "mine").touch,
            "content": lambda: (here / "mine").write_text("mine"),
            "network": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            "program": lambda: os.execv("/bin/true", ["true"]),
            "process": lambda: os.fork() or os._exit(0),
            "limits": lambda: resource.prlimit(boss, resource.RLIMIT_CPU),
            "signal": lambda: os.kill(boss, 0),
            "signal of a pipe": lambda: signal_when_written(boss),
            "number": lambda: os.pidfd_open(boss),
            "niceness": lambda: os.setpriority(os.PRIO_PROCESS, boss, 19),
            "processors": lambda: os.sched_setaffinity(boss, {0}),
            "file in memory": lambda: os.memfd_create("mine"),
            "shared memory": lambda: call("shmget", 0, 4096, 0o1600),
        }
        thread = threading.Thread(target=tries.get, args=("",))
        thread.start()  # that it may
        thread.join()
        os.kill(os.getpid(), 0)
        handles = {each.name for each in Path("/proc/self/fd").iterdir()} - {"0", "1", "2"}
        told = []
        for what, work in tries.items():
            with contextlib.suppress(OSError, KeyError):
                work()
                told.append(what)
        return f"{','.join(told)}; {len(handles)} handles"


class Picky(Plugin):
    def check_arguments(self, arguments):
        return [f"argument {name}: no" for name in arguments]
