"""poptorch.Options: everything a program may choose about how its models are compiled and run.

Settings, their checks and what follows from them are those of the C++ library (poptorch/api/option_setters.cpp). The
classes here give them attributes, methods, freezing and pickling.
"""

import collections.abc
import copy
import enum
import functools
import inspect
import os

import torch

from . import poptorch_core
from .enums import OutputMode
from .errors import ConfigFileError, Error
from .poptorch_core import ExecutionStrategy, PipelinedExecution

__all__ = ["Options", "TensorLocationSettings"]


def _method(name, parameters, documentation):
    """A setter that checks in C++; its signature is for those who read it."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [inspect.Parameter("self", kind)]
        + [
            inspect.Parameter(parameter, kind, default=inspect.Parameter.empty if default is None else default[0])
            for parameter, default in parameters
        ]
    )

    def method(self, *args, **kwargs):
        self._check_not_frozen()
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        self._store.apply(self._group, name, list(bound.arguments.values())[1:])
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = documentation
    method.__signature__ = signature
    return method


class _Group:
    """Settings are read as attributes or by calling the object, written by assignment or set(). Once frozen nothing
    changes. Attributes that start with an underscore are ordinary ones, set in __init__."""

    _group = ""  # its name in the store

    def __init_subclass__(cls):
        if "_group" in cls.__dict__:  # not a refinement of a program's
            for group, name, parameters, documentation in poptorch_core.option_setters():
                if group == cls._group and name not in cls.__dict__:
                    setattr(cls, name, _method(name, parameters, documentation))

    def __init__(self, store):
        self.__dict__.update(_store=store, _is_frozen=False)

    def _check_not_frozen(self):
        if self.__dict__.get("_is_frozen", False):
            raise AttributeError(
                "Can't modify frozen Options: they were given to a model or a data loader. "
                "Make a copy with clone() and change that."
            )

    # -- settings by name -----------------------------------------------------------------------------------------
    def set(self, **kwargs):
        """Sets settings that exist, by name."""
        self._check_not_frozen()
        for key, value in kwargs.items():
            self._store.set(self._group, key, value)
        return self

    def createOrSet(self, **kwargs):
        """Sets settings by name, new ones too."""
        self._check_not_frozen()
        for key, value in kwargs.items():
            self._store.create_or_set(self._group, key, value)
        return self

    def exists(self, key):
        """Whether there is a setting of this name."""
        return self._store.exists(self._group, key)

    def deleteIfExists(self, key):
        """Forgets a setting."""
        self._check_not_frozen()
        self._store.erase(self._group, key)
        return self

    def __call__(self, key):
        return self._store.get(self._group, key)

    def __getattr__(self, name):
        # Only called when normal lookup fails. While unpickling, there is no store yet.
        store = self.__dict__.get("_store")
        if store is not None and store.exists(self._group, name):
            return store.get(self._group, name)
        raise AttributeError(f"{type(self).__name__} has no option {name}, or it was not set")

    def __setattr__(self, name, value):
        self._check_not_frozen()
        if name == "__class__":  # programs refine a group by giving it a subclass
            object.__setattr__(self, name, value)
        elif name in self.__dict__:
            self.__dict__[name] = value
        elif name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        else:
            self._assign(name, value)

    def _assign(self, name, value):
        self._store.set(self._group, name, value)

    # -- freezing, copies, text -----------------------------------------------------------------------------------
    def _freeze(self, frozen=True):
        self.__dict__["_is_frozen"] = frozen

    @property
    def is_frozen(self):
        """Whether a model or a data loader was made with these settings: they do not change any more."""
        return self._is_frozen

    def __deepcopy__(self, memo):
        other = self.__class__.__new__(self.__class__)
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo), _is_frozen=False)
        return other

    def __getstate__(self):
        return self.__dict__.copy()

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __repr__(self):
        return f"{self._group}({', '.join(self._store.entries(self._group))})"

    def toDict(self):
        """A plain copy of the values, enumerations as integers."""
        values = self._store.group(self._group)
        return {key: int(value) if isinstance(value, enum.IntEnum) else value for key, value in values.items()}


class TensorLocationSettings(_Group):
    """Where one kind of tensors is kept: given to the setters of opts.TensorLocations."""

    _group = "TensorLocationSettings"

    def __init__(self):
        super().__init__(poptorch_core.OptionStore())

    def _location_entries(self):
        return self._store.location_entries()


class _TrainingOptions(_Group):
    """How gradients are accumulated and reduced."""

    _group = "Training"


class _PrecisionOptions(_Group):
    """Number formats and floating-point behaviour of the device."""

    _group = "Precision"


class _TensorLocationOptions(_Group):
    """Where activations, weights, optimiser state and accumulators are kept."""

    _group = "TensorLocations"


class _JitOptions(_Group):
    """Only the deprecated choice of a front end."""

    _group = "Jit"


class _DistributedOptions(_Group):
    """Which of several processes this one is."""

    _group = "Distributed"

    @property
    def processId(self):
        """The number of this process."""
        return self.distributed_process_id

    @property
    def numProcesses(self):
        """How many processes there are."""
        return self.num_distributed_processes


class _PopartOptions(_Group):
    """Settings passed to the compiler by name; they are checked when a model is compiled."""

    _group = "_Popart"

    @property
    def options(self):
        """The settings as a dictionary."""
        return _PopartDict(self)

    def _assign(self, name, value):
        raise AttributeError(f'_Popart has no attribute {name}; write _Popart.set("{name}", value)')


class _PopartDict(collections.abc.MutableMapping):
    """opts._Popart as a dictionary."""

    def __init__(self, group):
        self._group = group

    def __getitem__(self, key):
        if not self._group.exists(key):
            raise KeyError(key)
        return self._group(key)

    def __setitem__(self, key, value):
        self._group.set(key, value)

    def __delitem__(self, key):
        self[key]  # a KeyError if there is none
        self._group.deleteIfExists(key)

    def __iter__(self):
        return iter(self._group.toDict())

    def __len__(self):
        return len(self._group.toDict())

    def __repr__(self):
        return repr(self._group.toDict())


_GROUPS = {
    "_distributed": _DistributedOptions,
    "_jit": _JitOptions,
    "_precision": _PrecisionOptions,
    "_tensor_locations": _TensorLocationOptions,
    "_training": _TrainingOptions,
    "_popart": _PopartOptions,
}


class Options(_Group):
    """Set through chained calls; read-only once a model or a data loader uses it. clone() gives a copy to change."""

    _group = ""

    Distributed = property(lambda self: self._distributed)
    Jit = property(lambda self: self._jit)
    Precision = property(lambda self: self._precision)
    TensorLocations = property(lambda self: self._tensor_locations)
    Training = property(lambda self: self._training)
    _Popart = property(lambda self: self._popart)

    def __init__(self):
        store = poptorch_core.OptionStore.with_defaults()
        super().__init__(store)
        self.__dict__.update({name: group(store) for name, group in _GROUPS.items()})
        self.__dict__["_execution_strategy"] = PipelinedExecution()
        self.sourceLocationExcludes([os.path.dirname(torch.__file__), os.path.dirname(__file__)])

    def _freeze(self, frozen=True):
        super()._freeze(frozen)
        for name in _GROUPS:
            self.__dict__[name]._freeze(frozen)

    def __getattr__(self, name):
        # What concerns the host alone: _show_compilation_progress_bar and others.
        store = self.__dict__.get("_store")
        if store is not None and name.startswith("_") and store.exists("Host", name[1:]):
            return store.get("Host", name[1:])
        return super().__getattr__(name)

    def defaultOutputMode(self):
        """Whether the mode of outputs is still to be chosen: when a model is wrapped."""
        return self.output_mode == OutputMode.Default

    def anchorTensor(self, short_name, long_name, output_mode=None, output_return_period=1):
        """Returns a tensor of the graph to the host after each call; also of options that are in use already."""
        self._store.apply("", "anchorTensor", [short_name, long_name, output_mode, output_return_period])

    def setExecutionStrategy(self, strategy):
        """How the blocks of the model are placed and run."""
        self._check_not_frozen()
        if not isinstance(strategy, ExecutionStrategy):
            raise AssertionError(f"Expected a strategy such as poptorch.PipelinedExecution(), not {strategy!r}")
        self._execution_strategy = strategy
        return self

    def appendToLocationExcludes(self, *excludes):
        """More texts of sourceLocationExcludes."""
        self._check_not_frozen()
        self._store.apply("", "appendToLocationExcludes", [excludes])
        return self

    # -- text, copies ---------------------------------------------------------------------------------------------
    def loadFromFile(self, path):
        """Applies a file of statements, one per line, e.g. `Training.gradientAccumulation(8)`: what follows `options.`
        in Python, with only `poptorch` and `options` in scope."""
        import poptorch  # pylint: disable=import-outside-toplevel  # the package is complete by now

        self._check_not_frozen()
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
        code = []  # everything is compiled before anything is applied: a file with a typing error changes nothing
        for statement in (f"options.{line}" for line in lines if line and not line.startswith("#")):
            try:
                code.append(compile(statement, os.fspath(path), "exec"))
            except SyntaxError as error:
                raise ConfigFileError(
                    f"{type(error).__name__} at line {len(code) + 1} of {os.path.basename(path)}: {error.msg}\n"
                    f"> {statement}"
                ) from error
        for number, statement in enumerate(code, start=1):
            try:
                exec(statement, {"__builtins__": {}, "poptorch": poptorch, "options": self})  # pylint: disable=exec-used
            except Error as error:  # of JSON, in the file or in the environment
                raise ConfigFileError(f"Error at line {number} of {os.path.basename(path)}: {error.message}") from error
        return self

    def from_json(self, string):
        """Applies a JSON object that maps setters to their arguments."""
        self._check_not_frozen()
        for accessor, arguments in poptorch_core.json_calls(string):
            *path, name = accessor.split(".")
            method = getattr(functools.reduce(getattr, path, self), name, None)
            if callable(method):  # maybe one that a program has refined
                method(*arguments)
            else:
                self._store.apply_accessor(accessor, arguments)
        return self

    def clone(self):
        """A copy that is not frozen."""
        return copy.deepcopy(self)

    def toDict(self):
        """All settings in one flat dictionary. The output mode must have been chosen."""
        if self.defaultOutputMode():
            raise AssertionError("The output mode is still Default: it is chosen when a model is wrapped")
        flat = super().toDict()
        flat["execution_strategy"] = repr(self._execution_strategy)
        for name in _GROUPS:
            prefix = "popart." if name == "_popart" else ""
            flat.update({prefix + key: value for key, value in self.__dict__[name].toDict().items()})
        return flat

    def __repr__(self):
        return self._store.to_string(repr(self._execution_strategy))
