"""poptorch.Options: checked values, chaining, freezing, copies, text sources."""

import copy
import inspect
import json
import pickle

import poptorch
import pytest
import torch


@pytest.fixture
def opts():
    return poptorch.Options()


# -- the store ------------------------------------------------------------------------------------------------------
def test_defaults_are_readable_as_attributes_and_by_call(opts):
    assert opts.device_iterations == 1
    assert opts("device_iterations") == 1
    assert opts.output_mode == poptorch.OutputMode.Default == 4
    assert opts.input_cgt == poptorch.CommGroupType.Consecutive
    assert opts.available_memory_proportion == {}


def test_values_keep_their_type(opts):
    opts.replication_factor = 4
    assert opts.replication_factor == 4
    opts.set(replication_factor=True)  # a bool is an int
    with pytest.raises(AssertionError, match="replication_factor"):
        opts.set(replication_factor=1.5)
    with pytest.raises(AssertionError):
        opts.deviceIterations("4")


def test_undeclared_names_are_refused(opts):
    with pytest.raises(AssertionError, match="no_such_option"):
        opts.set(no_such_option=1)
    with pytest.raises(AttributeError):
        opts.random_seed  # only exists once it is set
    with pytest.raises(AttributeError):
        opts._no_such_attribute = 1
    assert not opts.exists("random_seed")
    assert opts.randomSeed(3).exists("random_seed")
    opts.createOrSet(mine=1).deleteIfExists("mine")
    assert not opts.exists("mine")


def test_setters_return_what_they_were_called_on(opts):
    assert opts.deviceIterations(4).replicationFactor(2).useIpuModel(True) is opts
    assert opts.Training.gradientAccumulation(4) is opts.Training
    assert opts._Popart.set("outlineThreshold", 10.0) is opts._Popart
    assert opts.anchorTensor("a", "b") is None


def test_group_may_get_a_subclass(opts):
    class Mine(type(opts.Distributed)):
        pass

    opts.Distributed.__class__ = Mine
    assert isinstance(opts.Distributed, Mine)
    opts._freeze()
    with pytest.raises(AttributeError):
        opts.Distributed.__class__ = Mine


@pytest.mark.parametrize(
    "change",
    [
        lambda o: o.deviceIterations(2),
        lambda o: setattr(o, "device_iterations", 2),
        lambda o: o.Training.gradientAccumulation(2),
        lambda o: o._Popart.set("outlineThreshold", 1.0),
        lambda o: o.Precision.enableStochasticRounding(True),
        lambda o: o.Distributed.configureProcessId(0, 2),
        lambda o: o.TensorLocations.numIOTiles(32),
        lambda o: o.showCompilationProgressBar(False),
        lambda o: o.setExecutionStrategy(poptorch.ShardedExecution()),
    ],
)
def test_frozen_options_refuse_changes(opts, change):
    poptorch.DataLoader(opts, torch.utils.data.TensorDataset(torch.zeros(4, 1)))
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        change(opts)
    change(opts.clone())  # a copy is free again


def test_copies_are_independent_and_keep_their_inner_links(opts):
    opts.deviceIterations(3).Training.gradientAccumulation(5)
    for other in (opts.clone(), copy.deepcopy(opts), pickle.loads(pickle.dumps(opts))):
        assert other.device_iterations == 3 and other.Training.gradient_accumulation == 5
        other.Precision.enableStochasticRounding(True)
        assert other._Popart.options["enableStochasticRounding"] is True
        assert "enableStochasticRounding" not in opts._Popart.options
        other.deviceIterations(7)
    assert opts.device_iterations == 3


def test_pickle_keeps_the_frozen_flag(opts):
    opts.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.Stage("a").ipu(0), "b"))
    opts._freeze()
    other = pickle.loads(pickle.dumps(opts))
    with pytest.raises(AttributeError):
        other.deviceIterations(2)
    assert repr(other) == repr(opts)


def test_text_is_stable_and_complete(opts):
    other = poptorch.Options()
    assert repr(opts) == str(other) and repr(opts).startswith("Options(")
    for group in ("Distributed", "Jit", "Precision", "TensorLocations", "Training", "_Popart"):
        assert f"{group}=" in repr(opts)
    assert "device_iterations=1" in repr(opts) and " at 0x" not in repr(opts)
    other.deviceIterations(2)
    assert repr(opts) != repr(other)


def test_to_dict_needs_an_output_mode(opts):
    with pytest.raises(AssertionError):
        opts.toDict()
    flat = opts.outputMode(poptorch.OutputMode.All).toDict()
    assert flat["output_mode"] == 2 and flat["gradient_accumulation"] == 1


# -- single options -------------------------------------------------------------------------------------------------
def test_output_mode(opts):
    assert opts.defaultOutputMode()
    with pytest.raises(AssertionError):
        opts.outputMode(2)
    with pytest.raises(AssertionError):
        opts.outputMode(poptorch.OutputMode.EveryN)
    opts.outputMode(poptorch.OutputMode.EveryN, 5)
    assert (opts.output_mode, opts.output_return_period) == (1, 5)
    opts.outputMode(poptorch.OutputMode.Sum, 5)
    assert (opts.output_mode, opts.output_return_period) == (3, 1)
    assert not opts.defaultOutputMode()


def test_input_replica_grouping(opts):
    consecutive = poptorch.CommGroupType.Consecutive
    with pytest.raises(ValueError, match="call replicationFactor first"):
        opts.inputReplicaGrouping(2, consecutive)
    opts.replicationFactor(4)
    with pytest.raises(ValueError):
        opts.inputReplicaGrouping(3, consecutive)
    with pytest.raises(ValueError):
        opts.inputReplicaGrouping(2, poptorch.CommGroupType.All)
    opts.inputReplicaGrouping(2, poptorch.CommGroupType.Orthogonal)
    assert (opts.input_group_size, opts.input_cgt) == (2, poptorch.CommGroupType.Orthogonal)
    opts.inputReplicaGrouping(2, poptorch.CommGroupType.NoGrouping)
    assert (opts.input_group_size, opts.input_cgt) == (1, consecutive)


def test_available_memory_proportion(opts):
    opts.setAvailableMemoryProportion({"IPU0": 0.2, "IPU13": 1})
    assert opts.available_memory_proportion == {0: 0.2, 13: 1.0}
    with pytest.raises(AssertionError):
        opts.setAvailableMemoryProportion({"0": 0.2})


def test_random_seed_also_seeds_torch(opts):
    opts.randomSeed(42)
    first = torch.rand(1)
    torch.manual_seed(42)
    assert torch.equal(first, torch.rand(1))
    with pytest.raises(AssertionError):
        opts.randomSeed(1.0)


def test_wrong_types_are_refused(opts):
    for setter in (opts.connectionType, opts.syncPattern, opts.setExecutionStrategy):
        with pytest.raises(AssertionError):
            setter(0)
    with pytest.raises(AssertionError):
        opts.useIpuId("0")
    with pytest.raises(AssertionError):
        opts.Precision.enableFloatingPointExceptions(1)
    with pytest.raises(ValueError):
        opts.Precision.setPartialsType(torch.int32)
    with pytest.raises(ValueError):
        opts.Precision.runningStatisticsAlwaysFloat(1)
    with pytest.raises(ValueError):
        opts.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.NoReduction)
    with pytest.raises(ValueError):
        opts.Jit.traceModel(True)
    with pytest.raises(AssertionError):
        opts._Popart.setPatterns({"A": 1})


def test_caching_and_profiling_are_stored(opts):
    opts.enableExecutableCaching("/tmp/cache")
    assert opts._Popart.options["cachePath"] == "/tmp/cache" and opts._Popart.options["enableEngineCaching"]
    opts.enableExecutableCaching(None)
    assert not opts._Popart.options["enableEngineCaching"] and "cachePath" not in opts._Popart.options
    opts.enableProfiling("dir")
    engine = opts._Popart.options["engineOptions"]
    assert engine == {"autoReport.all": "true", "autoReport.directory": "dir", "debug.allowOutOfMemory": "true"}


def test_offline_target_never_connects(opts):
    opts.useOfflineIpuTarget()
    assert opts.connection_type == poptorch.ConnectionType.Never and opts.ipu_version == 2


def test_convolution_options_are_replaced_as_a_whole(opts):
    opts.Precision.setPartialsType(torch.half)
    opts.Training.setConvolutionDithering(True)
    assert opts._Popart.options["convolutionOptions"] == {"enableConvDithering": True}
    opts._popart.setEngineOptions({"a": "b"})
    assert opts._Popart.options["engineOptions"] == {"a": "b"}


def test_tensor_locations(opts):
    locations = opts.TensorLocations
    for tiles in (31, 33, 194):
        with pytest.raises(AssertionError):
            locations.numIOTiles(tiles)
    with pytest.raises(AssertionError):
        locations.setWeightLocation("off")
    settings = poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(4)
    assert locations.setOptimizerLocation(settings) is locations
    settings.useOnChipStorage(None)  # what was stored is a snapshot
    assert locations.location_optimizer == {"onChip": 0, "minElementsForOffChip": 4}
    assert not settings.exists("onChip")
    with pytest.raises(AssertionError):
        settings.useReplicatedTensorSharding(1)


def test_distributed_reads_the_environment(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    distributed = poptorch.Options().Distributed
    assert (distributed.processId, distributed.numProcesses) == (3, 4)
    distributed.disable()
    assert (distributed.processId, distributed.numProcesses) == (0, 1)
    monkeypatch.setenv("SIZE", "2")
    distributed.setEnvVarNames("SIZE", "RANK")
    assert (distributed.processId, distributed.numProcesses) == (0, 2)


# -- text sources ---------------------------------------------------------------------------------------------------
def test_load_from_file(opts, tmp_path):
    path = tmp_path / "options.cfg"
    path.write_text(
        "# a comment\n\n  deviceIterations(4)  # trailing\nTraining.gradientAccumulation(8)\n"
        "setExecutionStrategy(poptorch.ShardedExecution())\n"
    )
    assert opts.loadFromFile(path) is opts
    assert opts.device_iterations == 4 and opts.Training.gradient_accumulation == 8
    path.write_text("deviceIterations(5)")
    opts.loadFromFile(str(path))
    assert opts.device_iterations == 5 and opts.Training.gradient_accumulation == 8


def test_syntax_error_names_the_statement_and_changes_nothing(opts, tmp_path):
    path = tmp_path / "options.cfg"
    path.write_text("# comment\ndeviceIterations(4)\n\nreplicationFactor(\n")
    with pytest.raises(poptorch.ConfigFileError) as error:
        opts.loadFromFile(path)
    assert str(error.value).startswith("SyntaxError at line 2 of options.cfg: ")
    assert "\n> options.replicationFactor(" in str(error.value)
    assert opts.device_iterations == 1


def test_from_json(opts):
    text = {
        "deviceIterations": 3,
        "outputMode": ["OutputMode.EveryN", 3],
        "Precision.enableFloatingPointExceptions": True,
        "_Popart.set": ["name", 1],
        "modelName": "not.anEnum",
    }
    assert opts.from_json(json.dumps(text)) is opts
    assert (opts.device_iterations, opts.output_mode, opts.output_return_period) == (3, 1, 3)
    assert opts._Popart.options["name"] == 1 and opts.model_name == "not.anEnum"


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"deviceIterations": }', "{'deviceIterations': 1}"])
def test_malformed_json_is_an_error_of_ours(opts, text):
    with pytest.raises(poptorch.Error, match="from_json.* expected "):
        opts.from_json(text)


def test_json_calls_methods_that_a_program_has_refined(opts):
    class Mine(type(opts.Distributed)):
        def disable(self):
            raise RuntimeError("the launcher has chosen")

    opts.Distributed.__class__ = Mine
    with pytest.raises(RuntimeError, match="launcher"):
        opts.from_json('{"Distributed.disable": []}')
    opts.from_json('{"Training.gradient_accumulation": 4, "_Popart.outlineThreshold": 2.5}')
    assert opts.Training.gradient_accumulation == 4 and opts._Popart.options["outlineThreshold"] == 2.5


def test_popart_options_are_a_dictionary_that_freezes(opts):
    opts._Popart.options["outlineThreshold"] = 3.0
    assert opts.clone()._Popart.options["outlineThreshold"] == 3.0
    opts._freeze()
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        opts._Popart.options["outlineThreshold"] = 4.0
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        del opts._Popart.options["outlineThreshold"]
    assert dict(opts._Popart.options)["outlineThreshold"] == 3.0


def test_values_of_any_kind_are_read_back_as_they_were_given(opts):
    thing = object()
    opts._Popart.set("mine", thing)
    assert opts._Popart.options["mine"] is thing and opts.clone()._Popart.options["mine"] is thing
    for seed in (-5, 2**63, 2**64 - 1):
        assert poptorch.Options().randomSeed(seed).random_seed == seed
    assert opts.maxRepeatLogs(None).max_repeat_logs is None
    assert opts.updatableNamedBuffers(name for name in "ab")._Popart.options["updatableNamedBuffers"] == ["a", "b"]
    with pytest.raises(poptorch.Error, match='unknown option "mine"'):
        poptorch.inferenceModel(torch.nn.Linear(2, 2), opts)(torch.zeros(1, 2))


def test_setters_have_signatures_and_documentation(opts):
    assert str(inspect.signature(opts.outputMode)) == "(output_mode, output_return_period=None)"
    assert "Replicas of one group" in poptorch.Options.inputReplicaGrouping.__doc__
    with pytest.raises(TypeError):
        opts.deviceIterations()
    with pytest.raises(TypeError):
        opts.deviceIterations(iterations=2)


def test_environment_defaults(monkeypatch):
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", '{"deviceIterations": 9}')
    monkeypatch.setenv("POPTORCH_CACHE_DIR", "/tmp/cache")
    opts = poptorch.Options()
    assert opts.device_iterations == 9 and opts._Popart.options["cachePath"] == "/tmp/cache"


# -- helpers --------------------------------------------------------------------------------------------------------
def test_log_levels():
    try:
        for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERR", "OFF", "TRACE_ALL", "DEBUG_IR", 0, 1, 2, 3, 4, 6):
            poptorch.setLogLevel(level)
        with pytest.raises(ValueError):
            poptorch.setLogLevel(5)
        with pytest.raises(ValueError, match="DEBUG, ERR, INFO, OFF, TRACE, WARN"):
            poptorch.setLogLevel("LOUD")
    finally:
        poptorch.setLogLevel("WARN")


def test_hardware_questions(monkeypatch):
    assert poptorch.ipuHardwareIsAvailable() and not poptorch.ipuHardwareIsAvailable(1000)
    assert poptorch.ipuHardwareVersion() == 2
    monkeypatch.setenv("POPTORCH_IPU_MODEL", "1")
    assert not poptorch.ipuHardwareIsAvailable()
    with pytest.raises(AssertionError):
        poptorch.ipuHardwareVersion()


def test_errors_carry_type_and_message(tmp_path, monkeypatch):
    error = poptorch.createPoptorchError("something")
    assert isinstance(error, poptorch.Error) and str(error) == "'poptorch_py_error': something"
    assert (error.message, error.location) == ("something", "")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    monkeypatch.chdir(tmp_path)
    long = poptorch.Error("line\n" * 100)
    assert "poptorch_error.log" in str(long) and str(long).count("\n") == 0
    assert (tmp_path / "poptorch_error.log").read_text() == "line\n" * 100


def test_stages_and_strategies():
    stage = poptorch.Stage("a", "b").ipu(3)
    assert stage.blocks == ["a", "b"]
    with pytest.raises(AssertionError):
        poptorch.Stage(1)
    strategy = poptorch.PipelinedExecution(stage, "c", ["d", "e"])
    assert strategy.stage("b") is stage and strategy.stage("e").blocks == ["d", "e"]
    assert [strategy._place(b, None) for b in "ace"] == [(0, 0, 3), (1, 0, 1), (2, 0, 2)]
    assert strategy._place("c", 7) == (1, 0, 7)
    with pytest.raises(AssertionError, match='"z"'):
        strategy.stage("z")
    with pytest.raises(AssertionError, match="two stages"):
        poptorch.ShardedExecution(poptorch.Stage("a"), "a")
    auto = poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)
    assert [auto._place(b, 0)[0] for b in "xyx"] == [1, 2, 1]
    same = poptorch.ShardedExecution()
    assert same._place("x", 2) == (2, 0, 2)
    with pytest.raises(AssertionError, match="ipu_id"):
        same._place("y", None)
    with pytest.raises(AssertionError):
        poptorch.SerialPhasedExecution()
    phased = poptorch.SerialPhasedExecution(poptorch.Phase("a"), ["b", "c"]).useSeparateBackwardPhase()
    assert phased.stage("c").blocks == ["b", "c"]
    with pytest.raises(AssertionError):
        phased.phase(0).ipus(0, 1)
