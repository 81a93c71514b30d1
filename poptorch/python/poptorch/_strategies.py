"""Execution strategies: which stage, phase and device each block of a model belongs to."""

from .enums import AutoStage, Liveness
from .errors import createPoptorchError

BlockId = str


class Stage:
    """Blocks that run together on one device."""

    def __init__(self, *block_ids):
        if not all(isinstance(block, BlockId) for block in block_ids):
            raise AssertionError(f"A Stage is made of block ids, which are strings: {block_ids!r}")
        self._blocks = list(block_ids)
        self._ipu = None

    @property
    def blocks(self):
        return self._blocks

    def ipu(self, ipu):
        """The device of the stage; by default the one of its blocks, or the number of the stage."""
        if not isinstance(ipu, int):
            raise AssertionError(f"Stage.ipu expects an int, not {ipu!r}")
        self._ipu = ipu
        return self

    def __repr__(self):
        text = f"Stage({', '.join(map(repr, self._blocks))})"
        return text if self._ipu is None else f"{text}.ipu({self._ipu})"


class Phase:
    """Stages that run in parallel in one phase."""

    def __init__(self, *args):
        if args and all(isinstance(arg, Stage) for arg in args):
            self._stages = list(args)
        else:
            if not all(isinstance(arg, BlockId) for arg in args):
                raise AssertionError(f"A Phase is made of Stages or of block ids, not of both: {args!r}")
            self._stages = [Stage(*args)]

    def stage(self, index):
        return self._stages[index]

    def ipus(self, *ipus):
        """One device per stage."""
        if len(ipus) != len(self._stages):
            raise AssertionError(f"Phase has {len(self._stages)} stages, but {len(ipus)} IPUs were given")
        for stage, ipu in zip(self._stages, ipus):
            stage.ipu(ipu)

    def __repr__(self):
        return f"Phase({', '.join(map(repr, self._stages))})"


def _as_stage(arg):
    if isinstance(arg, Stage):
        return arg
    if isinstance(arg, BlockId):
        return Stage(arg)
    if not isinstance(arg, (list, tuple)):
        raise AssertionError(f"Expected a Stage, a block id or a list of block ids, not {arg!r}")
    return Stage(*arg)


class _Strategy:
    """Maps blocks to places; the executor asks it while a model is captured."""

    def __init__(self):
        self._places = {}  # block id -> (stage number, phase number, Stage)

    def _add(self, stage, stage_id, phase_id):
        for block in stage.blocks:
            if block in self._places:
                raise AssertionError(f'Block "{block}" is in two stages; a block belongs to one stage')
            self._places[block] = (stage_id, phase_id, stage)

    def stage(self, block_id):
        if block_id not in self._places:
            raise AssertionError(f'Unknown block "{block_id}"; known: {sorted(self._places)}')
        return self._places[block_id][2]

    def _begin_capture(self):
        """Forgets what an earlier capture of the same strategy found."""

    def _place(self, block_id, ipu_id):
        """Stage, phase and device of a block that starts now."""
        if block_id not in self._places:
            raise AssertionError(
                f'Block "{block_id}" is not in any stage of {type(self).__name__}; its stages have the blocks '
                f"{sorted(self._places)}. Add the block to a stage."
            )
        stage_id, phase_id, stage = self._places[block_id]
        if stage._ipu is not None:
            return stage_id, phase_id, stage._ipu
        return stage_id, phase_id, stage_id if ipu_id is None else ipu_id


class _StagedStrategy(_Strategy):
    """A list of stages, or a rule that finds the stage of each block."""

    def __init__(self, *args):
        super().__init__()
        self._auto = None
        self._stages = []
        if not args:
            self._auto = AutoStage.SameAsIpu
        elif len(args) == 1 and isinstance(args[0], AutoStage):
            self._auto = args[0]
        else:
            self._stages = [_as_stage(arg) for arg in args]
            for index, stage in enumerate(self._stages):
                self._add(stage, index, 0)

    def _begin_capture(self):
        if self._auto is not None:
            self._places = {}

    def _place(self, block_id, ipu_id):
        if self._auto == AutoStage.SameAsIpu:
            if ipu_id is None:
                raise AssertionError(
                    f'Block "{block_id}" has no ipu_id, which AutoStage.SameAsIpu needs to find its stage. Give it an '
                    "ipu_id, use AutoStage.AutoIncrement, or list the stages in the strategy."
                )
            if block_id not in self._places:
                self._add(Stage(block_id), ipu_id, 0)
            return ipu_id, 0, ipu_id
        if self._auto == AutoStage.AutoIncrement and block_id not in self._places:
            # Stage 0 is kept for what runs before the first block.
            self._add(Stage(block_id), len(self._places) + 1, 0)
        return super()._place(block_id, ipu_id)

    def __repr__(self):
        inside = [f"AutoStage.{self._auto.name}"] if self._auto is not None else map(repr, self._stages)
        return f"{type(self).__name__}({', '.join(inside)})"


class PipelinedExecution(_StagedStrategy):
    """Stages work at the same time on different micro-batches."""


class ShardedExecution(_StagedStrategy):
    """Stages work one after the other."""


class _PhasedExecution(_Strategy):
    """Phases run one after the other; what they do not need is kept off the device in between."""

    def __init__(self, *phases):
        super().__init__()
        if len(phases) == 1 and isinstance(phases[0], (list, tuple)) and all(
            isinstance(phase, Phase) for phase in phases[0]
        ):
            phases = tuple(phases[0])
        if not phases:
            raise AssertionError(f"{type(self).__name__} needs its phases: there is no automatic mode")
        self._phases = [self._as_phase(phase) for phase in phases]
        for phase_id, phase in enumerate(self._phases):
            for stage_id, stage in enumerate(phase._stages):
                self._add(stage, stage_id, phase_id)
        self._separate_backward_phase = False

    @staticmethod
    def _as_phase(arg):
        if isinstance(arg, Phase):
            return arg
        return Phase(*arg) if isinstance(arg, (list, tuple)) else Phase(arg)

    def phase(self, index):
        return self._phases[index]

    def useSeparateBackwardPhase(self, use=True):
        if not isinstance(use, bool):
            raise AssertionError(f"useSeparateBackwardPhase expects a bool, not {use!r}")
        self._separate_backward_phase = use
        return self

    def _settings(self):
        return [f"separate_backward_phase={self._separate_backward_phase}"]

    def __repr__(self):
        return f"{type(self).__name__}({', '.join([*map(repr, self._phases), *self._settings()])})"


class SerialPhasedExecution(_PhasedExecution):
    """All phases on the same devices."""

    def __init__(self, *phases):
        super().__init__(*phases)
        self._liveness = Liveness.AlwaysLive

    def setTensorsLiveness(self, liveness):
        if not isinstance(liveness, Liveness):
            raise AssertionError(f"Expected a Liveness, not {liveness!r}")
        self._liveness = liveness
        return self

    def _settings(self):
        return [*super()._settings(), f"liveness={self._liveness.name}"]


class ParallelPhasedExecution(_PhasedExecution):
    """Even phases on even devices, odd phases on odd ones."""

    def __init__(self, *phases):
        super().__init__(*phases)
        self._off_chip_after_fwd = False

    def _place(self, block_id, ipu_id):
        stage, phase, ipu = super()._place(block_id, ipu_id)
        if ipu % 2 != phase % 2:
            raise createPoptorchError(
                f'[ParallelPhasedExecution] block "{block_id}" of phase {phase} is on IPU {ipu}; even phases run on '
                f"even IPUs and odd phases on odd ones. Choose them with strategy.phase({phase}).ipus(...)."
            )
        return stage, phase, ipu

    def sendTensorsOffChipAfterFwd(self, off_chip=True):
        if not isinstance(off_chip, bool):
            raise AssertionError(f"sendTensorsOffChipAfterFwd expects a bool, not {off_chip!r}")
        self._off_chip_after_fwd = off_chip
        return self

    def _settings(self):
        return [*super()._settings(), f"off_chip_after_fwd={self._off_chip_after_fwd}"]
