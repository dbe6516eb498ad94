"""The processes of gateway pods, for what only a signal can do: found among those that the test run itself has started."""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import urlsplit

import psutil


def _started(which: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Those of this process's own; one that ends meanwhile is none of them."""
    found = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            if which(process):
                found.append(process)
        except psutil.Error:
            continue
    return found


def proxies(url: str) -> list[psutil.Process]:
    """HAProxy's master and workers behind a gateway's address, among the processes that this one has started; the master first."""
    address = urlsplit(url).hostname
    found = _started(lambda process: process.name() == "haproxy" and process.environ().get("POD_IP") == address)
    return sorted(found, key=lambda process: process.create_time())


def agents(namespace: str) -> list[psutil.Process]:
    """Agents of the namespace's gateways."""
    return _started(lambda process: {"gateway-agent", namespace} <= set(process.cmdline()))
