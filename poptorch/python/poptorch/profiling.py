"""Trace points, which PVTI_OPTIONS={"enable": "true"} in the environment makes a file of: poptorch_<process>.json, in the
"directory" it names or the working directory, for viewers of Chrome's trace format. Otherwise they cost nothing."""

import contextlib
import functools

from . import poptorch_core

_NOTHING = contextlib.nullcontext()


class Channel:
    """A named stream of trace points."""

    def __init__(self, name):
        self._name = name

    def instrument(self, obj, *method_names):
        """Makes each call of these methods of obj a trace point; returns obj."""
        for name in method_names:
            if not hasattr(obj, name):
                raise AttributeError(f"{type(obj).__name__} has no method {name} to trace on channel {self._name}")
            if poptorch_core.is_tracing():
                setattr(obj, name, self._traced(getattr(obj, name), name))
        return obj

    def _traced(self, method, name):
        @functools.wraps(method)
        def call(*args, **kwargs):
            with self.tracepoint(name):
                return method(*args, **kwargs)

        return call

    def tracepoint(self, name):
        """Context manager of one trace point."""
        return poptorch_core.Tracepoint(self._name, name) if poptorch_core.is_tracing() else _NOTHING
