"""Weights trained on a device reach the host when somebody looks at them.

After a training call the tensors of the user's module are out of date. They carry a class of ours whose
__torch_function__ first copies the weights back, once, whatever is then done with them. The classes are made per
executor and refer to it weakly; a tensor hooked by several executors has a class that lists them all.
Only PoplarExecutor uses this file.
"""

import copy
import copyreg
import threading
import weakref

import torch

from .errors import createPoptorchError


def turn_of(executor):
    """How others come to do something in the executor's turn: see HostWeights::Turn in poptorch/model."""
    reference = weakref.ref(executor)

    def turn(body):
        alive = reference()
        if alive is None or _is_part_of_call(alive):
            return False
        with alive._lock:
            return body()

    return turn


def copy_of(executor):
    """Copies the weights of the executor to the host, the way its users do."""
    reference = weakref.ref(executor)
    return lambda: reference().copyWeightsToHost()  # in a turn, which it is alive for


def _is_part_of_call(executor):
    """Whether this thread does something for the program that the executor is running. The workers of a program with
    several devices are no threads of Python's."""
    runner = executor._runner
    if runner is None:
        return False
    return runner == threading.get_ident() or isinstance(threading.current_thread(), threading._DummyThread)


def sources(tensor):
    """The HostWeights (poptorch/model/host_weights.h) that a tensor follows."""
    return getattr(type(tensor), "_poptorch_sources", ())


def _plain_class(tensor):
    return getattr(type(tensor), "_poptorch_plain", type(tensor))


def sync(tensor):
    """Copies the weights that a tensor is part of from their devices, where they are out of date."""
    if sources(tensor):
        _sync_all(type(tensor))


def _sync_all(cls):
    for source in cls._poptorch_sources:
        if source.is_stale:
            source.sync()


class _Following:
    """Mixed into the class of a hooked tensor."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        for tensor_type in types:
            if hasattr(tensor_type, "_poptorch_sources"):
                _sync_all(tensor_type)
        with torch._C.DisableTorchFunction():
            return func(*args, **(kwargs or {}))

    def _plain(self):
        """The same storage in a tensor without hooks."""
        _sync_all(type(self))
        with torch._C.DisableTorchFunction(), torch.no_grad():
            return self.as_subclass(torch.Tensor)


class _FollowingBuffer(_Following):
    def __deepcopy__(self, memo):
        result = copy.deepcopy(self._plain(), memo)
        memo[id(self)] = result
        return result

    def __reduce_ex__(self, protocol):
        return self._plain().__reduce_ex__(protocol)


class _FollowingParameter(_Following):
    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)._poptorch_plain(self._plain().clone(), self.requires_grad)
        memo[id(self)] = result
        return result


class _Classes:
    """Makes the classes of hooked tensors, one for each plain class and list of sources."""

    def __init__(self):
        self._made = {}

    def get(self, plain, sources_):
        if not sources_:
            return plain
        key = (plain, sources_)
        if key not in self._made:
            is_parameter = issubclass(plain, torch.nn.Parameter)
            mixin, name = (
                (_FollowingParameter, "PoptorchParameter") if is_parameter else (_FollowingBuffer, "PoptorchBuffer")
            )
            attributes = {"_poptorch_sources": sources_, "_poptorch_plain": plain}
            self._made[key] = type(plain)(name, (mixin, plain), attributes)
        return self._made[key]


class _FollowingModule:
    """Mixed into the class of the user's module while a training executor lives. A copy of the module has the class,
    too, but the device has none of its tensors: what is done with it concerns nobody else."""

    def destroy(self):
        """Releases the training executor of this module and gives the module its own class back."""
        if is_wrapped(self):
            type(self)._poptorch_executor().destroy()
        else:
            _set_class(self, type(self)._poptorch_plain)

    def copyWeightsToHostIfNeeded(self):
        return is_wrapped(self) and type(self)._poptorch_source.sync()

    def named_parameters(self, *args, **kwargs):
        self.copyWeightsToHostIfNeeded()
        return super().named_parameters(*args, **kwargs)

    def named_buffers(self, *args, **kwargs):
        self.copyWeightsToHostIfNeeded()
        return super().named_buffers(*args, **kwargs)

    def state_dict(self, *args, **kwargs):
        self.copyWeightsToHostIfNeeded()
        return super().state_dict(*args, **kwargs)

    def _get_name(self):
        return type(self)._poptorch_plain.__name__

    def __copy__(self):
        result = type(self).__new__(type(self))
        result.__dict__.update(self.__dict__)
        return result

    def __deepcopy__(self, memo):
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    def __reduce_ex__(self, protocol):
        self.copyWeightsToHostIfNeeded()
        plain = type(self)._poptorch_plain
        unwrapped = plain.__new__(plain)
        unwrapped.__dict__.update(self.__dict__)
        function, *rest = unwrapped.__reduce_ex__(protocol)
        # pickle insists that __newobj__ makes an object of the class it was asked to pickle.
        return (_new_object if function is copyreg.__newobj__ else function, *rest)


def _new_object(cls, *args):
    return cls.__new__(cls, *args)


def tensors_of(module):
    """Every parameter and buffer below module, once, without touching any of them."""
    seen = {}
    for child in _modules(module):
        for tensor in (*child._parameters.values(), *child._buffers.values()):
            if tensor is not None:
                seen[id(tensor)] = tensor
    return list(seen.values())


def _modules(module, seen=None):
    seen = {} if seen is None else seen
    if id(module) not in seen:
        seen[id(module)] = module
        for child in module._modules.values():
            if child is not None:
                _modules(child, seen)
    return list(seen.values())


def _check_buffers(module):
    for child in _modules(module):
        for name, buffer in child._buffers.items():
            if buffer is not None and _plain_class(buffer) is not torch.Tensor:
                raise createPoptorchError(
                    f'[trainingModel] buffer "{name}" of {type(child).__name__} is a {type(buffer).__name__}; '
                    "buffers must be plain torch.Tensor. Register parameters with register_parameter."
                )


def is_wrapped(module):
    """Whether a live training executor is around this very module."""
    executor = getattr(type(module), "_poptorch_executor", lambda: None)()
    # A copy of a wrapped module has its class, but no executor of its own.
    return executor is not None and executor._user_model is module


def plain_copy(module):
    """A shallow copy: it shares sub-modules, parameters and buffers, and follows nobody."""
    if hasattr(type(module), "__copy__"):
        result = copy.copy(module)
    else:
        # Not copy.copy, which copies as pickle does: parametrised modules and others refuse that.
        result = type(module).__new__(type(module))
        result.__dict__.update(module.__dict__)
    if hasattr(type(module), "_poptorch_source"):
        _set_class(result, type(module)._poptorch_plain)
    return result


def _set_class(obj, cls):
    """Not obj.__class__ = cls: a traced module of torch.jit hands what is assigned to it on to another module."""
    object.__setattr__(obj, "__class__", cls)


def hook(module, source, executor):
    """Makes the module, its parameters and its buffers follow a training executor."""
    _check_buffers(module)
    classes = _Classes()
    for tensor in tensors_of(module):
        tensor.__class__ = classes.get(_plain_class(tensor), (*sources(tensor), source))
    plain = getattr(type(module), "_poptorch_plain", type(module))
    attributes = {"_poptorch_source": source, "_poptorch_executor": weakref.ref(executor), "_poptorch_plain": plain,
                  "__module__": plain.__module__}
    _set_class(module, type(plain)(f"Poptorch{plain.__name__}", (_FollowingModule, plain), attributes))


def unhook(module, source):
    """Undoes hook(); other executors that share tensors keep theirs."""
    classes = _Classes()
    for tensor in tensors_of(module):
        if source in sources(tensor):
            remaining = tuple(other for other in sources(tensor) if other is not source)
            tensor.__class__ = classes.get(_plain_class(tensor), remaining)
    if getattr(type(module), "_poptorch_source", None) is source:
        _set_class(module, type(module)._poptorch_plain)


class suspended:
    """Context in which the tensors of a module have their plain classes: capture must not see ours."""

    def __init__(self, module):
        self._hooked = [(tensor, type(tensor)) for tensor in tensors_of(module) if sources(tensor)]

    def __enter__(self):
        for tensor, hooked in self._hooked:
            tensor.__class__ = hooked._poptorch_plain

    def __exit__(self, *exception):
        for tensor, hooked in self._hooked:
            tensor.__class__ = hooked


def unwrap(module):
    """Plain classes for a module until rewrap(); nothing happens to a module that is not wrapped."""
    if getattr(type(module), "_poptorch_source", None) is None:
        return
    type(module)._poptorch_source.sync()
    wrapped = [(obj, type(obj)) for obj in (module, *tensors_of(module)) if hasattr(type(obj), "_poptorch_plain")]
    module.__dict__["_poptorch_unwrapped"] = wrapped
    for obj, cls in wrapped:
        _set_class(obj, cls._poptorch_plain)


def rewrap(module):
    for obj, cls in module.__dict__.pop("_poptorch_unwrapped", ()):
        _set_class(obj, cls)
