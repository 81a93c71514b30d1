"""The optimiser of a training executor: reads the user's object for the C++ side, which has all the rules."""

import torch

from . import optim, poptorch_core
from ._logging import logger
from .enums import MeanReductionStrategy

# Those of ours come first: they are subclasses of torch's.
_CLASSES = (
    optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.LAMB,
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop,
)


def _known_class(optimizer):
    for known in _CLASSES:
        if isinstance(optimizer, known):
            return known
    raise AssertionError(
        f"Unsupported optimiser {type(optimizer).__name__}; supported are SGD, Adam, AdamW and RMSprop of torch.optim, "
        "and those and LAMB of poptorch.optim"
    )


class ExecutorOptimizer(poptorch_core.DeviceOptimizer):
    """Adds the user's optimiser object to what the device has of it."""

    def __init__(self, optimizer, options, turn):
        """turn: of the executor, for those who read the state from another thread."""
        super().__init__(
            turn, options._relax_optimizer_checks, poptorch_core.scales_loss_automatically(options._store))
        self._reported_types = set()
        self.replace(optimizer, options)

    def _described(self, optimizer):
        known = _known_class(optimizer)
        if type(optimizer) is not known and type(optimizer) not in self._reported_types:
            self._reported_types.add(type(optimizer))
            logger.warning(
                "%s is trained as its base class %s: poptorch does not run Python optimizer code directly, so that its "
                "own step() has no effect",
                type(optimizer).__name__, known.__name__,
            )
        own = (optimizer.variable_attrs, optimizer._device_state) if issubclass(known, optim.Optimizer) else (None, None)
        return poptorch_core.describe_optimizer(known.__name__.lower(), optimizer, *own)

    def replace(self, optimizer, options):
        """Takes another optimiser. options: not frozen; half-precision accumulators need a running mean."""
        super().replace(self._described(optimizer))
        if self.needs_running_mean():
            options.Training.setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy.Running)
        self.optimizer = optimizer

    def compiled(self, core):
        super().replace(self._described(self.optimizer))  # it may have been changed since
        return super().compiled(core)

    def count_step(self):
        """Schedulers of torch look here to warn those who forgot step(), which the device does."""
        self.optimizer._step_count = getattr(self.optimizer, "_step_count", 0) + 1

    def change(self, optimizer):
        """setOptimizer on a compiled model."""
        super().change(self._described(optimizer))
        self.optimizer = optimizer
