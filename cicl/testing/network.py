"""A guard that no network is touched."""

import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Lock
from typing import Any

__all__ = ["NetworkTouched", "no_network"]


class NetworkTouched(AssertionError):
    """Code under test reached for a host that is not this machine."""


_METHODS = ("connect", "connect_ex", "sendto", "sendmsg")
"""Of `socket.socket`."""
_FUNCTIONS = ("create_connection", "getaddrinfo", "gethostbyaddr", "gethostbyname", "gethostbyname_ex")
"""Of the module `socket`."""
_LOCAL_NAMES = frozenset({"", "localhost", "0.0.0.0", "::"})

_LOCK = Lock()
_OPEN: list[list[NetworkTouched]] = []
"""What each open guard has seen: `socket` belongs to the whole process, and so do its guards."""
_REPLACED: list[tuple[Any, str, Any]] = []
"""Holder, name and what stood there itself; None for what was inherited."""


@contextmanager
def no_network() -> Iterator[None]:
    """Raise `NetworkTouched` where this process reaches for anything but loopback and Unix sockets.

    It is raised in the code that does it, in any thread. Where that code swallows it, or its thread ends with
    it, it is raised once more at the end. Child processes, and libraries with sockets of their own in C or
    Rust, are not seen.
    """
    seen: list[NetworkTouched] = []
    _enter(seen)
    try:
        yield
    finally:
        _leave(seen)
    if seen:
        raise NetworkTouched(f"{seen[0]}; the code under test swallowed this") from seen[0]


# An audit hook would see more and could never be taken out again: it would slow the process down for good.
# So names of `socket` are replaced while a guard is open, and put back when the last one closes.


def _enter(seen: list[NetworkTouched]) -> None:
    with _LOCK:
        if not _OPEN:
            for name in _METHODS:
                _replace(socket.socket, name, _guard_method)
            for name in _FUNCTIONS:
                _replace(socket, name, _guard_function)
        _OPEN.append(seen)


def _leave(seen: list[NetworkTouched]) -> None:
    with _LOCK:
        _OPEN[:] = [other for other in _OPEN if other is not seen]
        while not _OPEN and _REPLACED:
            holder, name, own = _REPLACED.pop()
            if own is None:
                delattr(holder, name)
            else:
                setattr(holder, name, own)


def _replace(holder: Any, name: str, guard: Callable[[str, Callable[..., Any]], Any]) -> None:
    if hasattr(holder, name):  # Windows has no `sendmsg`
        _REPLACED.append((holder, name, vars(holder).get(name)))
        setattr(holder, name, guard(name, getattr(holder, name)))


def _guard_method(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def guarded(self: socket.socket, *arguments: Any) -> Any:
        address = _address(name, arguments)
        is_inet = self.family in (socket.AF_INET, socket.AF_INET6)
        if is_inet and isinstance(address, tuple) and not _is_local(address[0]):
            _refuse(name, address)
        return original(self, *arguments)

    return guarded


def _address(name: str, arguments: tuple[Any, ...]) -> object:
    """`sendmsg` takes an address as its fourth argument, if at all; the others as their last."""
    if name == "sendmsg":
        return arguments[3] if len(arguments) > 3 else None
    return arguments[-1] if arguments else None


def _guard_function(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def guarded(*arguments: Any, **options: Any) -> Any:
        target = arguments[0] if arguments else options.get("host", options.get("address"))
        if not _is_local(target[0] if isinstance(target, tuple) else target):
            _refuse(name, target)
        return original(*arguments, **options)

    return guarded


def _refuse(name: str, target: object) -> None:
    error = NetworkTouched(f"the network was touched: {name} to {target!r}")
    with _LOCK:
        if not _OPEN:
            return  # a module that was imported under a guard has kept the guarded name
        _OPEN[-1].append(error)
    raise error


def _is_local(host: object) -> bool:
    if host is None:
        return True  # a passive address, to listen on
    name = host.decode("ascii", "replace") if isinstance(host, bytes | bytearray) else str(host)
    if name in _LOCAL_NAMES or name == socket.gethostname():
        return True  # servers on this machine ask for its own name
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # is_loopback sees through it from Python 3.13 on
    return bool((mapped or address).is_loopback)
