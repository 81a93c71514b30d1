"""The optimiser side of a training executor: what is compiled in, what changes later, where its state is."""

import weakref

from . import _optimizer_streams, optim, poptorch_core
from ._logging import logger
from ._optimizer_lowering import (
    LoweredOptimizer,
    kind_of,
    needs_running_mean,
    unexpected_attributes,
    warn_about_half_state,
    warn_about_maximize,
)
from .enums import MeanReductionStrategy
from .errors import createPoptorchError


class ExecutorOptimizer:
    """Holds the user's optimiser and the values of it that the device has."""

    def __init__(self, optimizer, options, lock):
        """lock: of the executor, for those who read the state from another thread."""
        self.optimizer = None
        self._lock = lock
        self._lowered = None     # as it was compiled, or set last; None before compilation
        self._values = {}        # attributes of each parameter that the device has, by its name
        self._loss_scaling = 1.0
        self._names = {}
        self._core = None        # weak reference to the compiled model
        self._state_is_stale = False
        self._known_extras = None
        self._relaxed = options._relax_optimizer_checks
        self.replace(optimizer, options)

    # -- before compilation ---------------------------------------------------------------------------------------
    def replace(self, optimizer, options):
        """Takes another optimiser. options: not frozen; half-precision accumulators need a running mean."""
        kind = kind_of(optimizer)
        if needs_running_mean(optimizer):
            options.Training.setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy.Running)
        self.optimizer = optimizer
        LoweredOptimizer(optimizer, {})  # reports attributes of the wrong kind now rather than at compilation
        self._check_extras(optimizer, kind)

    def _check_extras(self, optimizer, kind):
        extras = unexpected_attributes(optimizer, kind)
        if self._known_extras is None:
            self._known_extras = extras
        for name in sorted(extras - self._known_extras):
            log = logger.debug if self._relaxed else logger.warning
            log("Ignoring unexpected optimiser attribute %s: it has no meaning on the device", name)
        self._known_extras |= extras

    # -- compilation ----------------------------------------------------------------------------------------------
    def compiled(self, names):
        """The specification for the compiler. names: the name of each trainable parameter by its id."""
        self._names = names
        self._lowered = LoweredOptimizer(self.optimizer, names)
        self._take_values(self._lowered)
        warn_about_half_state(self.optimizer)
        warn_about_maximize(self.optimizer)
        listed = {name for group in self._lowered.parameters for name in group}
        if names and not listed:
            raise createPoptorchError(
                "[compile] none of the parameters of the optimiser belongs to the model, so nothing would be trained; "
                "create the optimiser with parameters of the model that is wrapped."
            )
        missing = [name for name in names.values() if name not in listed]
        if missing:
            names = poptorch_core.summary(missing)
            logger.warning("Parameters that are in no group of the optimiser keep their values: %s", names)
        return self._lowered.specification()

    def attached(self, core):
        """The device is ready: connects the optimiser's state to it."""
        self._core = weakref.ref(core)
        if isinstance(self.optimizer, optim.Optimizer):
            self.optimizer._state_reader = _StateReader(self)
        self._upload_state(core)

    def released(self):
        """The program is gone; the optimiser keeps the state that was read last."""
        if isinstance(self.optimizer, optim.Optimizer):
            self.optimizer._disconnect()
            self.optimizer.has_state_to_upload = self.optimizer.ipu_state is not None
        self._core = None
        self._lowered = None

    # -- running --------------------------------------------------------------------------------------------------
    def before_run(self, core):
        self._state_is_stale = True
        # Schedulers of torch look here to warn those who forgot step(), which the device does.
        self.optimizer._step_count = getattr(self.optimizer, "_step_count", 0) + 1
        if getattr(self.optimizer, "has_state_to_upload", False):
            self._upload_state(core)

    def _upload_state(self, core):
        if not getattr(self.optimizer, "has_state_to_upload", False):
            return
        self.optimizer.has_state_to_upload = False
        loaded = self.optimizer.ipu_state
        if loaded is not None:
            names = core.state_names()
            for name in names:
                if name in loaded:
                    core.write_state(name, loaded[name])
            self._warn_about_missing([name for name in names if name not in loaded])
            self._state_is_stale = True
        if self.optimizer._has_param_to_upload:
            self.optimizer._has_param_to_upload = False
            self._upload_param(core, self.optimizer.ipu_param or {})

    @staticmethod
    def _warn_about_missing(names):
        if names:
            summary = poptorch_core.summary(names)
            logger.warning("The loaded optimiser state has no %s: the device keeps its values", summary)

    def _upload_param(self, core, loaded):
        """Sends the loaded numbers, each parameter its own."""
        lowered = LoweredOptimizer(self.optimizer, self._names)
        current = _optimizer_streams.entries(self._lowered, self._values, self._loss_scaling)
        self._warn_about_missing([key for key in current if key not in loaded])
        if _optimizer_streams.LOSS_SCALING in loaded:
            self._loss_scaling = float(loaded[_optimizer_streams.LOSS_SCALING])
        lowered.loss_scaling = self._loss_scaling
        for name, attributes in self._values.items():
            values = _optimizer_streams.read(lowered, loaded, name, attributes, self._loss_scaling)
            self._values[name] = values
            core.set_parameter_settings(name, lowered.settings(values))

    def read_state(self):
        """State and parameters of the device, read again only if a call was made since."""
        with self._lock:
            core = self._core() if self._core is not None else None
            if core is None or self.optimizer.has_state_to_upload:
                return self.optimizer.ipu_state, self.optimizer.ipu_param
            if self._state_is_stale or self.optimizer.ipu_state is None:
                self.optimizer.ipu_state = {name: core.read_state(name) for name in core.state_names()}
                self._state_is_stale = False
            param = _optimizer_streams.entries(self._lowered, self._values, self._loss_scaling)
            return self.optimizer.ipu_state, param

    def save_state(self, core):
        """Brings the state to the host, for an optimiser that can hold it."""
        if isinstance(self.optimizer, optim.Optimizer):
            self._core = weakref.ref(core)
            self.optimizer._read_device_state()

    # -- changes --------------------------------------------------------------------------------------------------
    def change(self, optimizer, core):
        """setOptimizer on a compiled model."""
        if needs_running_mean(optimizer) and not self._lowered.needs_running_mean:
            raise ValueError(
                "The new optimiser has accum_type=torch.float16, which needs MeanReductionStrategy.Running, but the "
                "model is compiled already; give such an optimiser to trainingModel"
            )
        new = LoweredOptimizer(optimizer, self._names)
        self._check_extras(optimizer, new.kind)
        forbidden = self._lowered.forbidden_change(new)
        if forbidden is not None:
            raise createPoptorchError(f"[setOptimizer] {forbidden}.")
        self._connect(optimizer)
        self._upload_state(core)  # what was loaded before is replaced by what is set now
        new.constant = self._lowered.constant  # fixed at compilation
        if new.by_parameter() == self._values and new.loss_scaling == self._loss_scaling:
            return
        self._lowered = new
        self._take_values(new)
        for group, attributes in enumerate(new.groups):
            core.set_settings(group, new.settings(attributes))

    def _take_values(self, lowered):
        self._values = lowered.by_parameter()
        self._loss_scaling = lowered.loss_scaling

    def _connect(self, optimizer):
        if optimizer is self.optimizer:
            return
        if isinstance(self.optimizer, optim.Optimizer):
            self.optimizer._read_device_state()
            self.optimizer._disconnect()
        self.optimizer = optimizer
        if isinstance(optimizer, optim.Optimizer):
            self._state_is_stale = True
            optimizer._state_reader = _StateReader(self)


class _StateReader:
    """Given to the optimiser, which must not keep the executor alive."""

    def __init__(self, owner):
        self._owner = weakref.ref(owner)

    def __call__(self):
        owner = self._owner()
        return None if owner is None else owner.read_state()
