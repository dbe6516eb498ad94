"""What the demo shows while it runs: a live table on a terminal, plain lines elsewhere.

Both say the same; the plain form is what a CI log keeps.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from e2e.demo.parameters import Parameters
from e2e.demo.timeline import Mark
from e2e.demo.watching import Watcher

_MARKS_SHOWN = 12
_LINE_SECONDS = 5.0
_BAR = 30


def bar(value: float, full: float, width: int = _BAR) -> str:
    """A bar of `width` characters, filled up to value/full."""
    filled = 0 if full <= 0 else min(width, max(0, round(width * value / full)))
    return "█" * filled + "░" * (width - filled)


class TokenRate:
    """Tokens/s of completed answers over the last seconds, from running totals."""

    def __init__(self, span_seconds: float = 4.0) -> None:
        self._span, self._points = span_seconds, [(0.0, 0)]

    def add(self, at: float, total: int) -> None:
        """Take a total; a smaller one than before means that a new run began."""
        if total < self._points[-1][1]:
            self._points.clear()
        self._points.append((at, total))
        while len(self._points) > 2 and self._points[0][0] < at - self._span:
            self._points.pop(0)

    @property
    def per_second(self) -> float:
        (first, low), (last, high) = self._points[0], self._points[-1]
        return (high - low) / (last - first) if last > first and len(self._points) > 1 else 0.0


class View(Protocol):
    """How the demo speaks."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def phase(self, text: str) -> None:
        """A new part of the demo begins."""

    def attach(self, watcher: Watcher) -> None:
        """There is a cluster to look at from now on."""

    def counters(self, counters: dict[str, Any]) -> None:
        """Totals of the load generator."""

    def mark(self, mark: Mark) -> None:
        """The operator decided, held or did something."""


class _State:
    """What both views know."""

    def __init__(self, console: Console, parameters: Parameters) -> None:
        self.console, self.parameters = console, parameters
        self.watcher: Watcher | None = None
        self.load: dict[str, Any] = {}
        self.rate = TokenRate()
        self.marks: list[tuple[float, Mark]] = []
        self.started = time.monotonic()
        self.title = ""

    def attach(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def counters(self, counters: dict[str, Any]) -> None:
        self.load = counters
        self.rate.add(time.monotonic(), counters["output_tokens"])

    @property
    def clock(self) -> float:
        return time.monotonic() - self.started

    def mix(self) -> str:
        """`3 mtp · 0 batch · 1 draining`, empty before there is a pod."""
        watcher = self.watcher
        last = next((sample for sample in reversed(watcher.timeline.fleet) if sample.service == watcher.focus), None) if watcher else None
        if last is None:
            return ""
        extra = [f"{count} {name}" for count, name in ((last.draining, "draining"), (last.loading, "loading")) if count]
        return " · ".join([f"{last.mtp} mtp", f"{last.batch} batch", *extra])

    def waiting(self) -> int:
        """Requests without a slot, in engines and at the gateway."""
        engines = self.watcher.timeline.engines if self.watcher else []
        return round(engines[-1].queued + engines[-1].gateway_queued) if engines else 0


class PlainView(_State):
    """Lines with a time; one every few seconds while load runs."""

    _last_line = -_LINE_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def _line(self, text: str) -> None:
        self.console.print(f"{self.clock:6.1f}s  {text}", highlight=False, markup=False, soft_wrap=True)

    def phase(self, text: str) -> None:
        self._line(f"== {text}")

    def mark(self, mark: Mark) -> None:
        self._line(f"   {mark.reason}: {mark.message}")

    def counters(self, counters: dict[str, Any]) -> None:
        super().counters(counters)
        if self.clock - self._last_line >= _LINE_SECONDS:
            self._last_line = self.clock
            self._line(
                f"   sent {counters['sent']}, answered {counters['completed']}, failed {counters['failed'] + counters['incomplete']}, "
                f"in flight {counters['in_flight']}, waiting {self.waiting()}, {self.rate.per_second:,.0f} tok/s, {self.mix()}"
            )


class LiveView(_State):
    """Redrawn twice a second by rich."""

    def __enter__(self) -> Self:
        self._live = Live(get_renderable=self._render, console=self.console, refresh_per_second=2)
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()

    def phase(self, text: str) -> None:
        self.title = text
        self._live.console.print(f"[dim]{self.clock:6.1f}s[/dim]  {text}", highlight=False)

    def mark(self, mark: Mark) -> None:
        self.marks = [*self.marks, (self.clock, mark)][-_MARKS_SHOWN:]

    def _load_table(self) -> Table:
        parameters, load = self.parameters, self.load
        table = Table.grid(padding=(0, 2))
        tokens = self.rate.per_second
        table.add_row("tokens/s", Text(bar(tokens, parameters.batch_tokens_per_second), style="green"), f"{tokens:,.0f}")
        in_flight = load.get("in_flight", 0)
        table.add_row("in flight", Text(bar(in_flight, 400), style="cyan"), f"{in_flight}")
        waiting = self.waiting()
        table.add_row("waiting", Text(bar(waiting, 400), style="red"), f"{waiting}")
        failed = load.get("failed", 0) + load.get("incomplete", 0) + load.get("leaked", 0)
        table.add_row(
            "requests",
            f"{load.get('completed', 0)} of {load.get('sent', 0)} answered",
            Text(f"{failed} failed", "red" if failed else "green"),
        )
        table.add_row("replicas", self.mix(), "")
        return table

    def _slots_table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("slot", "mode", "phase"):
            table.add_column(column)
        status = (self.watcher.services.get(self.watcher.focus, {}) if self.watcher else {}).get("status", {})
        for slot in status.get("slots") or ():
            wanted = slot.get("desiredMode")
            mode = f"{slot['mode']} → {wanted}" if wanted and wanted != slot["mode"] else slot["mode"]
            table.add_row(slot["name"], Text(mode, "blue" if slot["mode"] == "mtp" else "yellow"), slot["phase"])
        return table

    def _render(self) -> Group:
        lines = [Text.assemble((f"{at:6.1f}s ", "dim"), (f"{mark.reason} ", "bold"), mark.message) for at, mark in self.marks]
        body = Table.grid(padding=(0, 4))
        body.add_row(self._load_table(), self._slots_table())
        return Group(
            Panel(body, title=self.title or "mtpilot demo", title_align="left", subtitle=f"{self.clock:.0f}s", subtitle_align="right"),
            Panel(Group(*lines), title="decisions, holds and events", title_align="left"),
        )


def view_for(console: Console, parameters: Parameters, *, plain: bool) -> View:
    """Live on a terminal, plain elsewhere or on request."""
    return PlainView(console, parameters) if plain or not console.is_terminal else LiveView(console, parameters)
