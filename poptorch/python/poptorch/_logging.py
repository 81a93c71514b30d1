"""The logger of the Python layer: "poptorch::python", lines shaped `[HH:MM:SS.mmm] [name] [level] text` on stderr."""

import logging
import os
import sys

from . import poptorch_core

TRACE = 5  # below logging.DEBUG, which has no such level
logging.addLevelName(TRACE, "TRACE")

# By name and by legacy number; the core checks what a program asks for.
_LEVELS = {
    "TRACE_ALL": TRACE, "TRACE": TRACE, "DEBUG": logging.DEBUG, "DEBUG_IR": logging.DEBUG, "INFO": logging.INFO,
    "WARN": logging.WARNING, "ERR": logging.ERROR, "OFF": logging.CRITICAL + 10,
    0: TRACE, 1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR, 6: logging.CRITICAL + 10,
}
_SHOWN_NAMES = {"WARNING": "warning", "ERROR": "error", "INFO": "info", "DEBUG": "debug", "TRACE": "trace"}
_COLOURS = {"warning": "\033[33m\033[1m", "error": "\033[31m\033[1m", "info": "\033[32m", "debug": "\033[36m"}


class _Formatter(logging.Formatter):
    def format(self, record):
        level = _SHOWN_NAMES.get(record.levelname, record.levelname.lower())
        if sys.stderr.isatty() and level in _COLOURS:
            level = f"{_COLOURS[level]}{level}\033[0m"
        time = self.formatTime(record, "%H:%M:%S")
        return f"[{time}.{int(record.msecs):03d}] [{record.name}] [{level}] {record.getMessage()}"


class _StderrHandler(logging.StreamHandler):
    """Follows sys.stderr when it is replaced, as notebooks and test runners do."""

    def __init__(self):
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stderr


def _create_logger():
    created = logging.getLogger("poptorch::python")
    created.propagate = False
    if not created.handlers:
        created.addFilter(lambda record: poptorch_core.is_wanted_in_log(record.getMessage()))
        handler = _StderrHandler()
        handler.setFormatter(_Formatter())
        created.addHandler(handler)
    return created


logger = _create_logger()


def set_python_level(level):
    logger.setLevel(_LEVELS[level])


initial_level = os.environ.get("POPTORCH_LOG_LEVEL", "WARN")
if initial_level not in _LEVELS:
    initial_level = "WARN"
set_python_level(initial_level)
