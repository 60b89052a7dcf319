"""Dispatchers that do what nobody should: the tests install them as a package."""

import contextlib
import ctypes
import os
import resource
import socket
import subprocess
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


class Forks(Plugin):
    def tell(self):
        child = os.fork()
        if not child:
            with contextlib.suppress(PermissionError):
                os.setsid()
            time.sleep(300)
        return str(child)


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
            "network": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            "program": lambda: subprocess.run(["/bin/true"], check=False),
            "limits": lambda: resource.prlimit(boss, resource.RLIMIT_CPU),
            "signal": lambda: os.kill(boss, 0),
        }
        told = []
        for what, work in tries.items():
            with contextlib.suppress(OSError, KeyError):
                work()
                told.append(what)
        handles = {each.name for each in Path("/proc/self/fd").iterdir()} - {"0", "1", "2"}
        return f"{','.join(told)}; {len(handles)} handles"


class Picky(Plugin):
    def check_arguments(self, arguments):
        return [f"argument {name}: no" for name in arguments]
