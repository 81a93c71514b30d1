"""The exceptions of the public API. The native core raises the same classes."""

import os

LOG_FILE = "poptorch_error.log"
MAX_LINES = 80


def _pointer_to_file(text):
    """Text of more than MAX_LINES lines goes to a file, so that the end of a traceback stays readable."""
    num_lines = text.count("\n") + 1
    if num_lines <= MAX_LINES:
        return None
    path = os.path.abspath(LOG_FILE)
    with open(path, "w", encoding="utf-8") as log:
        log.write(text)
    return f"The message has {num_lines} lines; see {path}"


class Error(Exception):
    """Misuse of the API, or a model that cannot be compiled or run.

    message: the text alone. type: component and category. location: where in the model it happened, "" if it was
    raised in Python.
    """

    def __init__(self, message="", type="poptorch_py_error", location=""):  # pylint: disable=redefined-builtin
        super().__init__(message)
        self.message = str(message)
        self.type = type
        self.location = location
        self._pointer = _pointer_to_file(self.message)

    def __str__(self):
        if self._pointer is not None:
            return f"'{self.type}': {self._pointer}"
        location = f"\n  {self.location}" if self.location else ""
        return f"'{self.type}': {self.message}{location}"

    def __reduce__(self):
        return self.__class__, (self.message, self.type, self.location)


class RecoverableError(Error):
    """A device failed in a way that a reset repairs; recovery_action names the reset."""

    def __init__(self, message="", type="poptorch_cpp_error", location="", recovery_action="FULL_RESET"):
        super().__init__(message, type, location)
        self.recovery_action = recovery_action

    def __reduce__(self):
        return self.__class__, (self.message, self.type, self.location, self.recovery_action)


class UnrecoverableError(Error):
    """A device failed and is expected to fail again."""


class ConfigFileError(Error):
    """A file given to Options.loadFromFile is not well formed."""

    def __str__(self):
        return self.message


def createPoptorchError(msg):
    """Builds, but does not raise, an Error."""
    return Error(msg)
