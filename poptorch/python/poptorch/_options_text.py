"""Options from text: files of statements (Options.loadFromFile) and JSON (Options.from_json)."""

import json
import os

from . import enums
from .errors import ConfigFileError


def load_file(options, path):
    """Each line is what follows `options.` in Python; only `poptorch` and `options` are in scope."""
    import poptorch  # pylint: disable=import-outside-toplevel  # the package is complete by the time a file is read

    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    statements = [f"options.{line}" for line in lines if line and not line.startswith("#")]
    # Everything is compiled before anything is applied, so that a file with a typing error changes nothing.
    code = []
    for number, statement in enumerate(statements, start=1):
        try:
            code.append(compile(statement, os.fspath(path), "exec"))
        except SyntaxError as error:
            raise ConfigFileError(
                f"{type(error).__name__} at line {number} of {os.path.basename(path)}: {error.msg}\n> {statement}"
            ) from error
    scope = {"__builtins__": {}, "poptorch": poptorch, "options": options}
    for statement in code:
        exec(statement, scope)  # pylint: disable=exec-used


def _argument(value):
    """"OutputMode.All" names a member of a poptorch enumeration; anything else stands for itself."""
    if isinstance(value, str) and value.count(".") == 1:
        enum_name, member = value.split(".")
        enum_type = getattr(enums, enum_name, None)
        if isinstance(enum_type, type) and issubclass(enum_type, enums.enum.Enum) and member in enum_type.__members__:
            return enum_type[member]
    return value


def load_json(options, string):
    for accessor, value in json.loads(string).items():
        target = options
        for name in accessor.split("."):
            target = getattr(target, name)
        arguments = value if isinstance(value, list) else [value]
        target(*[_argument(argument) for argument in arguments])
