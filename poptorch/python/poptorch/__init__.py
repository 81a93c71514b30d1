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
from ._impl import ICustomArgParser, registerCustomArgParser, registerPostCompileHook, registerPreCompileHook
from ._logging import initial_level as _initial_level
from ._logging import set_python_level as _set_python_level
from ._poplar_executor import PoplarExecutor, load
from ._saved_models import importPoptorchMetadataFromFile
from ._wrappers import inferenceModel, trainingModel
from .annotations import BeginBlock, Block, BlockFunction, module_repr, removeBlocks
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
    accessAttributes,
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
from .options import Options, TensorLocationSettings
from .poptorch_core import (
    Attribute,
    AutoPipeline,
    MultiConv,
    NameScope,
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
    getIpuTensorId,
    ipuHardwareIsAvailable,
    ipuHardwareVersion,
    isRunningOnIpu,
)

BlockId = str
__version__ = "3.4.0+aspen.0.1.0"

poptorch_core.set_error_classes(errors)
poptorch_core.Error = Error


def setLogLevel(level):
    """How much is logged: TRACE, DEBUG, INFO, WARN, ERR or OFF."""
    poptorch_core.set_log_level(level)
    _set_python_level(level)


setLogLevel(_initial_level)


def print(module):  # pylint: disable=redefined-builtin
    """Prints a module with the blocks that its modules start."""
    builtins.print(module_repr(module))
