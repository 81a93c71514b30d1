"""The smallest model with its blocks, devices or replicas wrong, and the message it earns."""

import poptorch
import pytest
import torch


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("count", torch.zeros(()))
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x):
        return self.function(self, x)


def run(function, options=None, rows=4, training=False):
    wrap = poptorch.trainingModel if training else poptorch.inferenceModel
    return wrap(Model(function), options or quiet())(torch.ones(rows, 3))


def error_of(*args, **kwargs):
    with pytest.raises(poptorch.Error) as error:
        run(*args, **kwargs)
    return error.value


def on_ipus(*ids):
    """One block after the other on these IPUs."""

    def forward(self, x):
        for index, ipu in enumerate(ids):
            with poptorch.Block(str(index), ipu_id=ipu):
                x = x + 1
        return x

    return forward


# -- blocks ---------------------------------------------------------------------------------------------------------
def test_op_after_the_end_of_a_block():
    def forward(self, x):
        with poptorch.Block("a", ipu_id=0):
            x = x + 1
        return x * 2

    error = error_of(forward)
    assert error.message == (
        "[aten::mul.Tensor] No active Block: the op comes after the end of a Block and is in no other, so it has no "
        "stage and no IPU. Put it into a Block; one with the user_id of an earlier block continues that block."
    )
    assert "test_partition_errors.py" in error.location and "forward" in error.location


def test_blocks_do_not_nest():
    def forward(self, x):
        with poptorch.Block("a", ipu_id=0):
            with poptorch.Block("b", ipu_id=0):
                x = x + 1
            return x * 2

    assert "No active Block" in error_of(forward).message


def test_views_and_new_tensors_need_a_block_too():
    def after(op):
        def forward(self, x):
            with poptorch.Block("a", ipu_id=0):
                x = x + 1
            return op(x)

        return error_of(forward).message

    assert after(lambda x: x.view(-1)).startswith("[aten::view] No active Block")
    assert "No active Block" in after(lambda x: x + torch.zeros(3, device=x.device))


def test_module_that_begins_two_blocks():
    layer = poptorch.BeginBlock(torch.nn.ReLU(), "a", ipu_id=0)
    with pytest.raises(poptorch.Error, match=r"ReLU already starts a block: BeginBlock\(user_id=a, ipu_id=0\)"):
        poptorch.BeginBlock(layer, "b")


@pytest.mark.parametrize("thing", [None, 3, torch.zeros(2)])
def test_begin_block_of_something_else(thing):
    with pytest.raises(poptorch.Error, match="expects a torch.nn.Module or a function"):
        poptorch.BeginBlock(thing)


def test_remove_blocks_of_something_else():
    with pytest.raises(AssertionError, match="removeBlocks expects a torch.nn.Module"):
        poptorch.removeBlocks([torch.nn.ReLU()])


def test_negative_ipu():
    assert 'block "0" is on IPU -1' in error_of(on_ipus(-1)).message


# -- strategies -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: poptorch.Stage("a", 1), "block ids, which are strings"),
        (lambda: poptorch.Stage("a").ipu("0"), "expects an int"),
        (lambda: poptorch.PipelinedExecution("a", ["b", "a"]), '"a" is in two stages'),
        (lambda: poptorch.ShardedExecution(poptorch.Stage("a"), poptorch.Stage("a")), '"a" is in two stages'),
        (lambda: poptorch.PipelinedExecution("a").stage("b"), 'Unknown block "b"'),
        (lambda: poptorch.PipelinedExecution(3), "Expected a Stage"),
        (lambda: poptorch.Phase("a", poptorch.Stage("b")), "not of both"),
        (lambda: poptorch.Phase("a").ipus(0, 1), "1 stages, but 2 IPUs"),
        (poptorch.SerialPhasedExecution, "there is no automatic mode"),
        (poptorch.ParallelPhasedExecution, "there is no automatic mode"),
        (lambda: poptorch.SerialPhasedExecution("a", "a"), '"a" is in two stages'),
        (lambda: poptorch.SerialPhasedExecution("a").setTensorsLiveness(1), "Expected a Liveness"),
        (lambda: poptorch.Options().setExecutionStrategy("pipelined"), "Expected a strategy"),
        (lambda: run(on_ipus(0), quiet().setExecutionStrategy(poptorch.PipelinedExecution("a"))),
         'Block "0" is not in any stage'),
        (lambda: run(on_ipus(None)), 'Block "0" has no ipu_id, which AutoStage.SameAsIpu needs'),
    ],
)
def test_mistakes_in_strategies(make, message):
    with pytest.raises(AssertionError, match=message):
        make()


def test_parallel_phases_on_the_wrong_devices():
    strategy = poptorch.ParallelPhasedExecution("0", "1")
    error = error_of(on_ipus(None, None), quiet().setExecutionStrategy(strategy))
    assert error.message.startswith(
        '[ParallelPhasedExecution] block "1" of phase 1 is on IPU 0; even phases run on even IPUs and odd phases on odd'
    )


# -- numbers of devices ---------------------------------------------------------------------------------------------
def sharded():
    return quiet().setExecutionStrategy(poptorch.ShardedExecution())


def test_too_many_ipus():
    assert error_of(on_ipus(0, 64), sharded()).message.startswith(
        "[compile] Too many IPUs: 65 per replica times 1 replicas are 65, and there are 64;"
    )
    options = sharded().replicationFactor(33)
    assert "2 per replica times 33 replicas are 66" in error_of(on_ipus(0, 1), options, rows=33).message


@pytest.mark.parametrize("ids,replicas,ipus", [((0, 1, 2), 1, 3), ((2,), 1, 3), ((0,), 3, 3), ((0, 1), 3, 6)])
def test_number_of_ipus_is_a_power_of_two(ids, replicas, ipus, capfd):
    options = sharded().replicationFactor(replicas)
    message = error_of(on_ipus(*ids), options.clone(), rows=replicas).message
    assert f"needs {ipus} IPUs" in message and "autoRoundNumIPUs(True)" in message
    run(on_ipus(*ids), options.clone().autoRoundNumIPUs(True), rows=replicas)
    assert f"needs {ipus} IPUs; {4 if ipus == 3 else 8} are taken" in capfd.readouterr().err
    run(on_ipus(*ids), options.clone().useIpuModel(True), rows=replicas)  # takes any number
    assert capfd.readouterr().err == ""


def test_offline_target_takes_any_number_of_ipus():
    poptorch.inferenceModel(Model(on_ipus(0, 1, 2)), sharded().useOfflineIpuTarget()).compile(torch.ones(4, 3))


def test_ipu_id_with_too_few_ipus(capfd):
    options = sharded().useIpuId(5)
    assert error_of(on_ipus(0, 1), options.clone()).message == (
        "[useIpuId] device 5 has 1 IPUs, but the model needs 2; device 64 has enough."
    )
    run(on_ipus(0, 1), sharded().useIpuId(64))
    assert capfd.readouterr().err == ""
    run(on_ipus(0), sharded().useIpuId(126))
    assert "device 126 has 64 IPUs, of which the model uses 1" in capfd.readouterr().err
    assert "no device 127; expected 0 <= id <= 126" in error_of(on_ipus(0), sharded().useIpuId(127)).message


# -- replicas -------------------------------------------------------------------------------------------------------
def counts(self, x):
    self.count.add_(1)
    return self.norm(x) + self.count


def test_buffer_changed_by_replicas():
    error = error_of(counts, quiet().replicationFactor(2))
    assert error.message == (
        '[compile] forward changes buffer "count", and 2 replicas with inputs of their own would each change it '
        "differently. options.broadcastBuffers(False) gives each replica a copy of its own."
    )
    run(counts, quiet().replicationFactor(2).broadcastBuffers(False))
    grouped = quiet().replicationFactor(2).inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    run(counts, grouped)  # all replicas see the same input


def test_batch_norm_may_change_its_statistics():
    run(lambda self, x: self.norm(x), quiet().replicationFactor(2))


def test_rows_that_do_not_divide_among_replicas():
    with pytest.raises(AssertionError, match="multiple of 1 device iterations x 1 gradient accumulation steps x 4 repl"):
        run(lambda self, x: x + 1, quiet().replicationFactor(4), rows=6)
    options = quiet().replicationFactor(4).inputReplicaGrouping(2, poptorch.CommGroupType.Orthogonal)
    with pytest.raises(AssertionError, match="x 2 groups of replicas"):
        run(lambda self, x: x + 1, options, rows=5)


def test_replication_factor_changed_after_the_grouping():
    options = quiet().replicationFactor(4).inputReplicaGrouping(4, poptorch.CommGroupType.Consecutive)
    options.replicationFactor(2)
    assert "input group size 4 does not divide the replication factor 2" in error_of(on_ipus(0), options).message


# -- grouped weights ------------------------------------------------------------------------------------------------
class Weight(torch.nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(shape))

    def forward(self, x):
        return x * self.w


ONE, ALL = poptorch.VariableRetrievalMode.OnePerGroup, poptorch.VariableRetrievalMode.AllReplicas
CONSECUTIVE = poptorch.CommGroupType.Consecutive


def grouped(shape, size, mode, replicas=4):
    executor = poptorch.inferenceModel(Weight(*shape), quiet().replicationFactor(replicas))
    executor.w.replicaGrouping(CONSECUTIVE, size, mode)
    return executor


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: grouped((), 2, ONE), 'parameter "w" is a single number'),
        (lambda: grouped((2, 3), 3, ONE)(torch.ones(4, 3)), "3 replicas in each group, which does not divide"),
        (lambda: grouped((3, 3), 2, ONE)(torch.ones(4, 3)), "there are 2 groups of replicas, so its first dimension"),
        (lambda: grouped((2, 3), 2, ALL)(torch.ones(4, 3)), "there are 4 replicas, so its first dimension must be 4"),
    ],
)
def test_grouped_weights(call, message):
    with pytest.raises(poptorch.Error, match=message):
        call()


def test_grouping_after_compilation():
    executor = grouped((2, 3), 2, ONE)
    executor(torch.ones(4, 3))
    with pytest.raises(poptorch.Error, match="compiled already"):
        executor.w.replicaGrouping(CONSECUTIVE, 2, ONE)


# -- overlapped transfers -------------------------------------------------------------------------------------------
MODE = poptorch.OverlapMode.OverlapAccumulationLoop


def overlapping():
    options = quiet().setExecutionStrategy(poptorch.ShardedExecution())
    options.TensorLocations.numIOTiles(32)
    return options


def mark_both(self, x):
    x = poptorch.set_overlap_for_input(x, MODE)
    return poptorch.set_overlap_for_output((x + 1, {"y": x * 2}), MODE)


def test_overlapped_transfers_change_nothing():
    first, second = run(mark_both, overlapping())
    assert first.eq(2).all() and second["y"].eq(2).all()


def used_twice(self, x):
    return poptorch.set_overlap_for_input(x, MODE) + x


def not_an_input(self, x):
    return poptorch.set_overlap_for_input(x + 1, MODE)


def not_returned(self, x):
    poptorch.set_overlap_for_output(x + 1, MODE)
    return x * 2


def returned_twice(self, x):
    y = poptorch.set_overlap_for_output(x + 1, MODE)
    return y, y


def returned_with_its_origin(self, x):
    y = x + 1
    return poptorch.set_overlap_for_output(y, MODE), y


def marked_twice(self, x):
    y = x + 1
    return poptorch.set_overlap_for_output(y, MODE), poptorch.set_overlap_for_output(y, MODE)


def test_overlapped_output_may_have_further_uses():
    def forward(self, x):
        y = poptorch.set_overlap_for_output(x + 1, MODE)
        return y, y * 3

    first, second = run(forward, overlapping())
    assert first.eq(2).all() and second.eq(6).all()


@pytest.mark.parametrize("function, expected", [(used_twice, "is used in 1 other places"), (returned_twice, "2 times"),
                                                (mark_both, "cannot overlap with a pipeline")])
def test_structure_of_overlapped_transfers_is_checked_before_strategy_and_tiles(function, expected):
    assert expected in error_of(function, quiet()).message  # a pipeline without IO tiles


@pytest.mark.parametrize(
    "function,change,message",
    [
        (returned_with_its_origin, lambda o: None, "or what it was made from, is returned 2 times"),
        (marked_twice, lambda o: None, "or what it was made from, is returned 2 times"),
        (mark_both, lambda o: o.setExecutionStrategy(poptorch.PipelinedExecution()), "cannot overlap with a pipeline"),
        (mark_both, lambda o: o.TensorLocations.deleteIfExists("numIOTiles"), "needs IO tiles"),
        (mark_both, lambda o: o.outputMode(poptorch.OutputMode.Final), "the output mode is Final"),
        (used_twice, lambda o: None, 'input "x" is used in 1 other places'),
        (not_an_input, lambda o: None, "is no input of the model"),
        (not_returned, lambda o: None, "is returned 0 times"),
        (returned_twice, lambda o: None, "is returned 2 times"),
        (lambda self, x: poptorch.set_overlap_for_input(x, 1), lambda o: None, "expects a poptorch.OverlapMode"),
    ],
)
def test_overlapped_transfers(function, change, message):
    options = overlapping()
    change(options)
    assert message in error_of(function, options).message
