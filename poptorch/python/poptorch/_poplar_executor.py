"""PoplarExecutor: a wrapped model. Compiles it at its first call, runs it, and keeps weights in step with the host."""

import datetime
import os
import sys
import threading
import time

import torch

from . import _capture, _captured_torch, _measurements, _replica_grouping, _saved_models, _weight_sync
from . import annotations, poptorch_core
from ._args import ArgumentPlan, Signature
from ._compilation_output import ProgressBar
from ._compiled_parts import CompiledParts
from ._executor_optimizer import ExecutorOptimizer
from ._logging import logger
from .enums import ConnectionType
from .errors import createPoptorchError
from .options import Options


_SEED_MASK = (1 << 64) - 1
# Threads take turns. Each executor has a lock of its own, which its calls and the copies of its weights hold. Capture
# replaces parts of torch and of the modules for its duration, so this lock is for all of them. Whoever may need the
# lock of a training executor while holding that of another one (weights that both have are to be uploaded) takes this
# one first: that way nobody waits for somebody who waits for them.
_compilation = threading.RLock()


class PoplarExecutor(_measurements.Measurements):
    """Made by poptorch.trainingModel and poptorch.inferenceModel; called like the model it wraps."""

    def __init__(self, model, options, training, optimizer=None):
        options = Options() if options is None else options
        if not isinstance(options, Options):
            raise createPoptorchError(
                f"[{'trainingModel' if training else 'inferenceModel'}] options is a {type(options).__name__}; "
                "expected poptorch.Options."
            )
        options._freeze()
        options = options.clone()
        poptorch_core.resolve_output_mode(options._store, training)
        self._core = None
        self._lock = threading.RLock()
        self._runner = None  # the thread that runs the program now
        self._training = training
        self._optimizer = None
        self._plan = None
        self._result = None
        self._ipus = []  # of the blocks of the compiled model
        self._compilation_time = None
        self._groupings = {}  # of parameters that differ between replicas, by name
        self._executed = _weight_sync.plain_copy(model)
        self._user_model = model if training else self._executed
        tensors = _weight_sync.tensors_of(self._executed)
        turn, copy = _weight_sync.turn_of(self), _weight_sync.copy_of(self)
        if training:
            self._optimizer = ExecutorOptimizer(optimizer, options, turn)
        self._session = poptorch_core.Session(training, tensors, turn, copy, self._optimizer)
        if training:
            with _compilation:
                _weight_sync.hook(model, self._session.weights, self)
        options._freeze()
        self._options = options

    # -- the wrapped model ----------------------------------------------------------------------------------------
    @property
    def model(self):
        """The wrapped module."""
        return self._user_model

    @property
    def options(self):
        """The options it was wrapped with; frozen."""
        return self._options

    def __getattr__(self, name):
        # Only called when normal lookup fails; while unpickling there is no model yet.
        model = self.__dict__.get("_user_model")
        if model is None:
            raise AttributeError(name)
        value = getattr(model, name)
        if isinstance(value, torch.nn.Parameter) and name in getattr(model, "_parameters", ()):
            return _replica_grouping.ExecutorParameter(value, name, self)
        return value

    def __repr__(self):
        return annotations.module_repr(self._user_model)

    def __reduce__(self):
        self.copyWeightsToHostIfNeeded()
        optimizer = self._optimizer.optimizer if self._training else None
        return _restore, (self._user_model, self._options, self._training, optimizer, self._groupings)

    def load_state_dict(self, state_dict, strict=True):
        """Loads the wrapped module's state, and sends it to the device if there is one attached."""
        with _compilation, self._lock:
            result = self._user_model.load_state_dict(state_dict, strict)
            if self.isAttachedToDevice():
                self.copyWeightsToDevice()
            return result

    # -- running --------------------------------------------------------------------------------------------------
    def __call__(self, *args, **kwargs):
        if self._runner == threading.get_ident():
            raise createPoptorchError("[model call] the model is called by a function that it runs on the host itself.")
        while True:
            if not self._session.is_attached:
                self._prepare(args, kwargs)
            plan = self._plan
            # Not under the lock: arguments may be weights of another model, which are then copied from its device.
            inputs = plan.inputs(args, kwargs)
            with self._lock:
                if self._session.is_attached and plan is self._plan:  # no other thread has released the device meanwhile
                    return self._result.rebuild(self._run(inputs))

    def _prepare(self, args, kwargs):
        """Compiles and attaches, as far as that is still to be done."""
        poptorch_core.check_may_attach(self._options._store)
        self._compile(args, kwargs)
        self._reserve()
        with _compilation, self._lock:
            if self._core is not None and not self._session.is_attached:  # as far as other threads have left it
                self.attachToDevice()

    def _run(self, inputs):
        self._parts.warn_of_changes()
        if self._training:
            self._optimizer.count_step()
        self._runner = threading.get_ident()
        try:
            return self._session.run(inputs)
        finally:
            self._runner = None

    # -- compiling ------------------------------------------------------------------------------------------------
    def compile(self, *args, **kwargs):
        """Compiles the model for arguments like these, without running it."""
        if self._core is not None:
            logger.warning("compile() is ignored: the model is compiled already; call destroy() first")
            return
        self._compile(args, kwargs)

    def _compile(self, args, kwargs):
        self._build(lambda signature: ArgumentPlan(signature, args, kwargs))

    def _build(self, make_plan, load=None):
        """Makes the program, unless there is one. make_plan: of the signature of forward. load: see _build_alone."""
        if self._core is not None:
            return
        poptorch_core.check_options(self._options._store)
        if poptorch_core.attaches_when_compiled(self._options._store):
            self._reserve()  # first: to wait for the device after a long compilation may be in vain
        with _compilation, self._lock:
            if self._core is not None:  # another thread was first
                return
            try:
                self._build_alone(make_plan(Signature(self._executed.forward)), load)
            except BaseException:
                self._session.release_device()
                raise

    def _reserve(self):
        """Takes the device that the options name, if they do. Not while others could not compile or let go of theirs."""
        with self._lock:
            self._session.reserve(self._options._store)

    def _build_alone(self, plan, load):
        """load: of a file, the _Loading; None: the program is compiled."""
        begin = time.perf_counter()
        if self._training and not _weight_sync.is_wrapped(self._user_model):  # called again after destroy()
            _weight_sync.hook(self._user_model, self._session.weights, self)
        options = self._options
        inputs = plan.micro_batch(*poptorch_core.micro_batches(options._store, self._training))
        core = poptorch_core.Model(self._training)
        grouped = _replica_grouping.single_values(self._executed, self._groupings)
        self._session.sync_sources()
        self._add_tensors(core, grouped.values)
        with ProgressBar(options._show_compilation_progress_bar) as bar:
            if load is None or load.result is None:
                with grouped:
                    result, ipus = _capture.capture(core, self._executed, plan, inputs, options, self._training)
            else:
                result, ipus = load.result, load.ipus
            poptorch_core.required_ipus(options._store, set(ipus))
            poptorch_core.check_written_buffers(
                options._store, core.written_buffers(), _statistics_of_norms(self._executed)
            )
            optimizer = self._optimizer.compiled(core) if self._training else None
            told = (self._training, options._store, options._execution_strategy, set(ipus), optimizer)
            if load is None:
                with _captured_torch.recorded():  # backward passes and hooks of the user's run now
                    core.compile(*told, bar.update)
            else:
                poptorch_core.load_model(core, load.file, *told, with_contents=load.result is not None)
        self._core, self._plan, self._result, self._ipus = core, plan, result, list(ipus)
        self._session.adopt(core, options._store, self._training)
        self._parts = CompiledParts(self._executed)
        try:
            if poptorch_core.attaches_when_compiled(options._store):
                self.attachToDevice()
        finally:
            self._compilation_time = datetime.timedelta(seconds=time.perf_counter() - begin)

    def _add_tensors(self, core, grouped):
        """Registers parameters and buffers. grouped: one value of each parameter that differs between replicas."""
        with _weight_sync.suspended(self._executed):
            for name, parameter in self._executed.named_parameters():
                if name in grouped:
                    replicas = self._options.replication_factor
                    core.add_grouped_parameter(name, parameter, grouped[name], self._groupings[name], replicas)
                else:
                    core.add_tensor(name, parameter, True)
            for name, buffer in self._executed.named_buffers():
                core.add_tensor(name, buffer, False)
        poptorch_core.check_updatable_buffers(
            self._options._store, [name for name, _ in self._executed.named_buffers()]
        )

    def isCompiled(self):
        """Whether there is a program."""
        return self._core is not None

    def compilationTime(self):
        """How long capture and compilation took: a datetime.timedelta."""
        self._session.require_compiled("compilationTime")
        if not self._options._show_compilation_progress_bar:
            raise createPoptorchError("[compilationTime] is not measured while showCompilationProgressBar is off.")
        return self._compilation_time

    def getTensorNames(self):
        """Names of the tensors of the compiled graph, for options.anchorTensor."""
        if self._core is None:
            raise AssertionError("getTensorNames needs a compiled model; call it, or call compile() first")
        return self._session.tensor_names()

    def getAnchoredTensor(self, short_name):
        """The tensor that options.anchorTensor has named so, of the latest call: a copy of its own."""
        with self._lock:
            return self._session.anchored(self._options._store, short_name)

    def stageBlocks(self):
        """Of a compiled model with AutoPipeline: its cut, as lines that give the model blocks. With these it runs the same
        under PipelinedExecution."""
        with self._lock:
            self._session.require_compiled("stageBlocks")
            return self._core.stage_blocks()

    # -- files ----------------------------------------------------------------------------------------------------
    def save(self, filename, export_model=True, save_rng_state=True):
        """Writes the compiled model to a file: the program, weights, state of the optimiser and of the random ops. With
        export_model also the module and the optimiser, pickled, so that poptorch.load needs nothing but the file."""
        self._session.require_compiled("save")
        self._write("save", filename, export_model, save_rng_state)

    def compileAndExport(self, filename, *args, export_model=True, **kwargs):
        """Compiles the model for arguments like these and saves it."""
        with poptorch_core.Tracepoint(self._channel(), "compileAndExport"):
            if self._core is None:
                self._compile(args, kwargs)
            self._write("compileAndExport", filename, export_model, True)

    def loadExecutable(self, filename):
        """Takes the program out of a file that was saved of the same model with the same options, instead of compiling
        the model. Weights and optimiser are those of this executor."""
        if self._core is not None:
            raise createPoptorchError("[loadExecutable] the model is compiled already; call destroy() first.")
        file = _saved_models.open_file(filename, "loadExecutable")
        if _saved_models.mismatch(file) is not None:
            file.refuse(_saved_models.mismatch(file))
        plan = _saved_models.call_of(file).plan
        self._build(lambda signature: ArgumentPlan.restored(signature, plan), _Loading(file))

    def _write(self, who, filename, export_model, save_rng_state):
        with _compilation, self._lock:  # weights may have to be fetched from trainers
            self._session.require_compiled(who)
            file = poptorch_core.save_session(self._session, os.fspath(filename), who, save_rng_state)
            call = _saved_models.SavedCall(self._options, self._plan.stored(), self._ipus)
            _saved_models.add_python(file, who, call, self._saved_module(save_rng_state) if export_model else None)
        file.write()

    def _saved_module(self, save_rng_state):
        optimizer = self._optimizer.optimizer if self._training else None
        rng_state = list(self._core.random_state()) if save_rng_state else None
        return _saved_models.SavedModule(
            self._training, self._user_model, optimizer, self._groupings, self._result, rng_state
        )

    def _channel(self):
        return "poptorch.trainingModel" if self._training else "poptorch.inferenceModel"

    # -- devices --------------------------------------------------------------------------------------------------
    def isAttachedToDevice(self):
        """Whether it has a device."""
        return self._session.is_attached

    def attachToDevice(self):
        """Takes a device and uploads weights and optimiser state."""
        self._session.require_compiled("attachToDevice")
        poptorch_core.check_may_attach(self._options._store)
        self._reserve()
        with _compilation, self._lock:
            self._session.attach()

    def detachFromDevice(self):
        """Saves everything to the host and frees the device; the next call attaches again and continues."""
        with self._lock:
            self._session.detach()

    def destroy(self):
        """Saves everything to the host and releases the program. A later call compiles the model again."""
        with _compilation, self._lock:  # a capture must find the classes of its tensors as it left them
            if self._core is None:
                return
            if self._training:
                _weight_sync.unhook(self._user_model, self._session.weights)
            self._session.destroy()
            self._core = None

    def __del__(self):
        # A trainer that nobody holds any more leaves its weights and the state of its optimiser behind, and the module
        # as it found it; the session copies the weights and the state.
        if sys.is_finalizing() or self.__dict__.get("_session") is None or not self._training:
            return
        _weight_sync.unhook(self._user_model, self._session.weights)

    # -- weights --------------------------------------------------------------------------------------------------
    def copyWeightsToHost(self):
        """Copies the weights of the device to the module. A look at the module does so by itself."""
        with self._lock:
            self._session.copy_weights_to_host()

    def copyWeightsToHostIfNeeded(self):
        """Copies the weights to the host if they are out of date there; returns whether it did."""
        return self._session.copy_weights_to_host_if_needed()

    def copyWeightsToDevice(self):
        """Copies the weights of the module to the device. Call it after a change of the module."""
        with _compilation, self._lock:
            self._session.copy_weights_to_device()

    def copyNamedBuffersToDevice(self):
        """Uploads the buffers listed by options.updatableNamedBuffers, and nothing else."""
        with self._lock:
            self._session.copy_buffers_to_device(self._options._Popart.options.get("updatableNamedBuffers", []))

    # -- optimiser and random state -------------------------------------------------------------------------------
    def setOptimizer(self, optimizer):
        """Uses the current values of this optimiser from the next call on."""
        if not self._training:
            raise createPoptorchError("[setOptimizer] the model was wrapped by inferenceModel, which does not train.")
        with self._lock:
            if self._core is None:
                options = self._options.clone()
                self._optimizer.replace(optimizer, options)
                options._freeze()
                self._options = options
            else:
                self._optimizer.change(optimizer)

    @property
    def rng_state(self):
        """[seed, state...] of the random ops."""
        with self._lock:
            self._session.require_compiled("rng_state")
            return list(self._core.random_state())

    @rng_state.setter
    def rng_state(self, state):
        if not state or len(state) > 2 or not all(isinstance(word, int) for word in state):
            raise createPoptorchError(f"[rng_state] expected [seed] or [seed, step], not {state!r}.")
        with self._lock:
            self._session.require_compiled("rng_state")
            self._core.set_random_state(state[0] & _SEED_MASK, state[1] if len(state) > 1 else 0)


def _statistics_of_norms(module):
    """Names of the buffers that batch norm layers keep: each replica has its own, that of the first is read back."""
    return {
        f"{path}.{name}" if path else name
        for path, child in module.named_modules()
        if isinstance(child, torch.nn.modules.batchnorm._NormBase)
        for name in child._buffers
    }


class _Loading:
    """A file that a program is taken from. With the result of forward and the IPUs of its blocks, forward need not be
    captured, and everything else is taken from the file, too."""

    def __init__(self, file, result=None, ipus=()):
        self.file = file
        self.result = result
        self.ipus = ipus


def load(filename, edit_opts_fn=None):
    """The model of a file written by save, compiled, with the weights, optimiser and random state it was saved with.
    edit_opts_fn: may change its options, as far as they are not a part of the program. The file is unpickled, which can
    run any code: load only what you trust."""
    file = _saved_models.open_file(filename, "load")
    mismatch = _saved_models.mismatch(file)
    if mismatch is not None:
        raise AssertionError(f'"{file.path}" cannot be loaded: {mismatch}')
    if not _saved_models.has_module(file):
        raise AssertionError(
            f'"{file.path}" holds no model: it was saved with export_model=False. Wrap the model and call loadExecutable'
        )
    call, saved = _saved_models.call_of(file), _saved_models.module_of(file)
    options = call.options.clone()
    options.deleteIfExists("ipu_version")
    if options.connection_type == ConnectionType.Never.value:
        options.connectionType(ConnectionType.Always)
    if edit_opts_fn is not None:
        edit_opts_fn(options)
    executor = _restore(saved.model, options, saved.training, saved.optimizer, saved.groupings)
    loading = _Loading(file, saved.result, call.ipus)
    executor._build(lambda signature: ArgumentPlan.restored(signature, call.plan), loading)
    return executor


def _restore(model, options, training, optimizer, groupings):
    executor = PoplarExecutor(model, options, training, optimizer)
    executor._groupings = groupings
    return executor
