"""The enumerations of the public API. Integer values are part of the contract: programs see them through options."""

import enum


class OutputMode(enum.IntEnum):
    """Which micro-batches of an output a call returns."""

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3
    Default = 4  # resolved when a model is wrapped: Final for training, All for inference


class ConnectionType(enum.IntEnum):
    """When the executor attaches to a device."""

    Always = 0
    OnDemand = 1
    Never = 2


class DataLoaderMode(enum.IntEnum):
    """Where a DataLoader prepares its batches."""

    Sync = 0
    Async = 1
    AsyncRebatched = 2


class SharingStrategy(enum.IntEnum):
    """How the process of an AsynchronousDataAccessor is started and receives its dataset."""

    SharedMemory = 0
    FileSystem = 1
    Fork = 2
    ForkServer = 3


class ReductionType(enum.IntEnum):
    """How gradients (or losses) of several micro-batches become one."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class MeanReductionStrategy(enum.IntEnum):
    """When the division of a mean reduction happens."""

    Running = 0
    Post = 1
    PostAndLoss = 2  # deprecated


class SyncPattern(enum.IntEnum):
    """Which devices synchronise with each other: a scheduling hint."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class AutoStage(enum.IntEnum):
    """How blocks find their stage when no stages are listed."""

    SameAsIpu = 0
    AutoIncrement = 1


class Liveness(enum.IntEnum):
    """When tensors of a phase leave the device."""

    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class MultiConvPlanType(enum.IntEnum):
    """How the convolutions of a MultiConv are planned."""

    Parallel = 0
    Serial = 1


class CommGroupType(enum.IntEnum):
    """How replicas form groups."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    NoGrouping = 3


class VariableRetrievalMode(enum.IntEnum):
    """Which replicas a grouped variable is read from."""

    OnePerGroup = 0
    AllReplicas = 2


class HalfFloatCastingBehavior(enum.IntEnum):
    """Deprecated: mixed operands always promote as in PyTorch."""

    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class MatMulSerializationMode(enum.Enum):
    """The dimension along which serializedMatMul splits its work."""

    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class OverlapMode(enum.Enum):
    """How host transfers overlap with computation."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"
