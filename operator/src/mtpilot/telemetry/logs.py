"""Logs of the whole process in one format: JSON lines, or text for a person.

Standard library loggers (kopf's among them) go through the same renderer, so that a log collector needs one parser. Nothing
is logged at steady state above debug: what a decision was stands in status and events.
"""

import logging
import sys
from enum import StrEnum
from typing import Any

import structlog

# NB: kopf says "Handler succeeded" for every watch event.
_QUIET = ("urllib3", "aiohttp.access", "asyncio", "kopf.activities", "kopf.objects")


class LogFormat(StrEnum):
    JSON = "json"
    TEXT = "text"


def configure_logs(log_format: LogFormat, level: str = "INFO") -> None:
    """Send structlog and the standard library's loggers to stderr; may be called again.

    Args:
        log_format: JSON lines, or coloured text.
        level: name of the lowest level to show.
    """
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _kopf_object],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(log_format)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _renderers(log_format: LogFormat) -> list[structlog.types.Processor]:
    if log_format is LogFormat.TEXT:
        return [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), timestamp_key="time", exception_formatter=structlog.dev.plain_traceback
            )
        ]
    return [structlog.processors.format_exc_info, structlog.processors.EventRenamer("message"), structlog.processors.JSONRenderer()]


def _kopf_object(_logger: Any, _name: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Kopf names the object that a line is about in the record itself."""
    record = event.get("_record")
    reference = getattr(record, "k8s_ref", None)
    if isinstance(reference, dict):
        event.update({key: reference[key] for key in ("namespace", "name") if reference.get(key)})
    return event
