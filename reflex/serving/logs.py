"""One JSON object a line on stderr. Sizes, timings and outcomes; with `serve.log_content` also what was asked
and answered."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """What is logged with `extra={"fields": {...}}` becomes keys of the object.

    One key of `extra` for all of them: logging itself refuses names that its records use, such as `name`.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        message = record.getMessage()
        if message:
            line["message"] = message
        line = (
            line | getattr(record, "fields", {}) | line
        )  # the record's own stay, and stay in front
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=True)


def configure(level: str) -> None:
    """Send everything of reflex and uvicorn through one handler; uvicorn's access log is replaced."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("reflex", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(level.upper())
    logging.getLogger("uvicorn.access").disabled = True
