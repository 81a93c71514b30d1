"""The optimiser side of a training executor: what is compiled in, what changes later, where its state is."""

import weakref

from . import optim
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

    def __init__(self, optimizer, options):
        self.optimizer = None
        self._lowered = None     # as on the device; None before compilation
        self._names = {}
        self._core = None        # weak reference to the compiled model
        self._pending = None     # values to send when the device is attached
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
            logger.warning(
                "Parameters that are in no group of the optimiser keep their values: %s", ", ".join(missing)
            )
        return self._lowered.specification()

    def attached(self, core):
        """The device is ready: connects the optimiser's state to it."""
        self._core = weakref.ref(core)
        if self._pending is not None:
            self._send(core, self._pending)
            self._pending = None
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
        loaded = self.optimizer.ipu_state or {}
        for name in core.state_names():
            if name in loaded:
                core.write_state(name, loaded[name])
            else:
                logger.warning("The loaded optimiser state has no %s: the device keeps its value", name)

    def read_state(self):
        """State and parameters of the device, read again only if a call was made since."""
        core = self._core() if self._core is not None else None
        if core is None or self.optimizer.has_state_to_upload:
            return self.optimizer.ipu_state, self.optimizer.ipu_param
        if self._state_is_stale or self.optimizer.ipu_state is None:
            self.optimizer.ipu_state = {name: core.read_state(name) for name in core.state_names()}
            self._state_is_stale = False
        return self.optimizer.ipu_state, self._lowered.device_parameters()

    def save_state(self, core):
        """Brings the state to the host, for an optimiser that can hold it."""
        if isinstance(self.optimizer, optim.Optimizer):
            self._core = weakref.ref(core)
            self.optimizer._read_device_state()

    # -- changes --------------------------------------------------------------------------------------------------
    def change(self, optimizer, core, is_attached):
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
        new.constant = self._lowered.constant  # fixed at compilation
        if new.groups == self._lowered.groups and new.loss_scaling == self._lowered.loss_scaling:
            return
        self._lowered = new
        if is_attached:
            self._send(core, new)
        else:
            self._pending = new

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

    @staticmethod
    def _send(core, lowered):
        for group in range(len(lowered.groups)):
            core.set_settings(group, lowered.settings(group))


class _StateReader:
    """Given to the optimiser, which must not keep the executor alive."""

    def __init__(self, owner):
        self._owner = weakref.ref(owner)

    def __call__(self):
        owner = self._owner()
        return None if owner is None else owner.read_state()
