"""The processes of gateway pods, for what only a signal can do: found among those that the test run itself has started."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import psutil


def proxies(url: str) -> list[psutil.Process]:
    """HAProxy's master and workers behind a gateway's address, among the processes that this one has started; the master first."""
    found = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            if process.name() == "haproxy" and process.environ().get("POD_IP") == urlsplit(url).hostname:
                found.append(process)
        except psutil.Error:
            continue
    return sorted(found, key=lambda process: process.create_time())


def agents(namespace: str) -> list[psutil.Process]:
    """Agents of the namespace's gateways."""
    found = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if "gateway-agent" in command and namespace in command:
            found.append(process)
    return found
