"""Compiled models in files: what Python adds to the program, which the core writes (docs/program-format.md).

The arguments a model was compiled for and its options are one section, the module, its optimiser and the structure of
what it returned another. Both are pickled: who reads them runs what their writer put there, so load() only files that
you trust. The program itself holds no code.
"""

import dataclasses
import io
import pickle

import torch

from . import poptorch_core
from .errors import createPoptorchError

_VERSION, _CALL, _MODEL = "package", "python_call", "python_model"


@dataclasses.dataclass
class SavedCall:
    """What a model was compiled with."""

    options: object
    plan: dict  # of ArgumentPlan.stored()
    ipus: list  # of its blocks


@dataclasses.dataclass
class SavedModule:
    """The model itself; files may do without."""

    training: bool
    model: torch.nn.Module
    optimizer: object
    groupings: dict
    result: object  # a Result: what forward returned
    rng_state: list  # None: not saved


@dataclasses.dataclass
class PoptorchData:
    """What a file tells of the model in it. Without the model, that of `training` and what follows is None."""

    version: str
    options: object
    executable_inputs: list  # of the inputs: (name, shape, type)
    training: bool = None
    model: torch.nn.Module = None
    optimizer: object = None
    rng_state: list = None


def _package_version():
    import poptorch  # pylint: disable=import-outside-toplevel,cyclic-import  # it imports us

    return poptorch.__version__


def _pickled(what, value, who, way_out):
    buffer = io.BytesIO()
    try:
        torch.save(value, buffer)
    except Exception as error:  # pylint: disable=broad-except  # whatever the parts of a model raise
        raise createPoptorchError(f"[{who}] {what} cannot be pickled: {error}. {way_out}.") from error
    return buffer.getvalue()


def add_python(file, who, call, module):
    """Adds the sections of Python to those of the program. module: None if the file is to do without."""
    file.set(_VERSION, _package_version().encode())
    file.set(_CALL, _pickled("an argument of the model or an option", call, who, "Pass numbers, texts and tensors"))
    if module is not None:
        way_out = "Save with export_model=False, and wrap the model before you call loadExecutable"
        file.set(_MODEL, _pickled("the model", module, who, way_out))


def open_file(filename, who):
    return poptorch_core.ModelFile(str(filename), who)


def version_of(file):
    return file.get(_VERSION).decode(errors="replace")


def mismatch(file):
    """What is wrong with the version of the file; None: nothing."""
    if version_of(file) == _package_version():
        return None
    return f"it was written by version {version_of(file)} of poptorch, and this is {_package_version()}; export it again"


def _unpickled(file, section):
    try:
        return torch.load(io.BytesIO(file.get(section)))
    except (pickle.UnpicklingError, AttributeError, ImportError, RuntimeError, TypeError, EOFError) as error:
        file.refuse(f"its {section} cannot be unpickled: {error}; the classes of the model must be importable here")
        raise  # not reached


def call_of(file):
    return _unpickled(file, _CALL)


def has_module(file):
    return file.has(_MODEL)


def module_of(file):
    return _unpickled(file, _MODEL)


def importPoptorchMetadataFromFile(filename):
    """What a file written by save tells of the model in it: version, options, inputs, and if it has the model, that."""
    file = open_file(filename, "importPoptorchMetadataFromFile")
    if mismatch(file) is not None:
        file.refuse(mismatch(file))
    call = call_of(file)
    plan = call.plan
    inputs = [(name, tuple(shape), dtype) for name, (shape, dtype) in zip(plan["names"], plan["leaves"])]
    data = PoptorchData(version_of(file), call.options, inputs)
    if has_module(file):
        module = module_of(file)
        data.training, data.model, data.optimizer = module.training, module.model, module.optimizer
        data.rng_state = module.rng_state
    return data
