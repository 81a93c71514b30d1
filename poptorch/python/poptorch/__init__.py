"""PopTorch: train and run PyTorch models on virtual IPUs.

Wrap a torch.nn.Module with trainingModel or inferenceModel and call the result instead of the module.
"""

import builtins
import os

os.environ.setdefault("RDMAV_FORK_SAFE", "1")

# pylint: disable=wrong-import-position
import torch  # its libraries must be loaded before those of the core that link to them

from . import poptorch_core
from . import enums, errors, optim, options, ops, profiling  # sub-modules of the public API
from ._async_data_accessor import AsynchronousDataAccessor
from ._data_loader import DataLoader
from ._devices import MAX_IPUS as _MAX_IPUS, uses_ipu_model as _uses_ipu_model
from ._engine_limits import load
from ._impl import ICustomArgParser, registerCustomArgParser, registerPostCompileHook, registerPreCompileHook
from ._logging import initial_level as _initial_level
from ._logging import level_name as _level_name
from ._logging import set_python_level as _set_python_level
from ._option_groups import TensorLocationSettings
from ._poplar_executor import PoplarExecutor
from ._strategies import (
    BlockId,
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
)
from ._wrappers import inferenceModel, trainingModel
from .annotations import (
    Attribute,
    BeginBlock,
    Block,
    BlockFunction,
    MultiConv,
    NameScope,
    module_repr,
    removeBlocks,
)
from .enums import (
    AutoStage,
    CommGroupType,
    ConnectionType,
    DataLoaderMode,
    HalfFloatCastingBehavior,
    Liveness,
    MatMulSerializationMode,
    MeanReductionStrategy,
    MultiConvPlanType,
    OutputMode,
    OverlapMode,
    ReductionType,
    SharingStrategy,
    SyncPattern,
    VariableRetrievalMode,
)
from .errors import ConfigFileError, Error, RecoverableError, UnrecoverableError, createPoptorchError
from .ops import (
    CPU,
    cond,
    ctc_beam_search_decoder,
    custom_op,
    dynamic_slice,
    dynamic_update,
    for_loop,
    fps,
    identity_loss,
    ipu_print_tensor,
    nearest,
    nop,
    recomputationCheckpoint,
    serializedMatMul,
    set_available_memory,
    set_overlap_for_input,
    set_overlap_for_output,
)
from .options import Options

__version__ = "3.4.0+aspen.0.1.0"

poptorch_core.set_error_classes(errors)
poptorch_core.Error = Error


def setLogLevel(level):
    """How much is logged: TRACE, DEBUG, INFO, WARN, ERR or OFF."""
    name = _level_name(level)
    _set_python_level(name)
    poptorch_core.set_log_level({"TRACE_ALL": "TRACE", "DEBUG_IR": "DEBUG"}.get(name, name))


setLogLevel(_initial_level)


def isRunningOnIpu():
    """True while the forward of a wrapped model is captured."""
    return poptorch_core.is_capturing()


def ipuHardwareIsAvailable(num_ipus=1):
    """Whether there is a device of so many IPUs. Virtual IPUs are the hardware here."""
    return num_ipus <= _MAX_IPUS and not _uses_ipu_model()


def ipuHardwareVersion():
    """The generation the virtual IPUs stand for."""
    if not ipuHardwareIsAvailable():
        raise AssertionError("There is no IPU hardware: POPTORCH_IPU_MODEL or POPTORCH_SMALL_IPU_MODEL is set")
    return 2


def print(module):  # pylint: disable=redefined-builtin
    """Prints a module with the blocks that its modules start."""
    builtins.print(module_repr(module))
