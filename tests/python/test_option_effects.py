"""What single options do to a model, a log or an error."""

import popart
import poptorch
import pytest
import torch

from support.models import FunctionModel, quiet

X = torch.arange(8.0).reshape(4, 2)


def infer(options, function=lambda self, x: x + 1, *layers, x=X):
    return poptorch.inferenceModel(FunctionModel(function, *layers), options)(x)


@pytest.fixture
def log_at(capfd):
    def set_level(level):
        poptorch.setLogLevel(level)
        capfd.readouterr()
        return lambda: capfd.readouterr().err

    yield set_level
    poptorch.setLogLevel("WARN")


# -- stored values ----------------------------------------------------------------------------------------------------
DEFAULTS = {
    "replication_factor": 1, "input_group_size": 1, "input_cgt": poptorch.CommGroupType.Consecutive,
    "broadcast_buffers": True, "device_iterations": 1, "log_dir": ".", "max_repeat_logs": 4,
    "auto_round_num_ipus": False, "anchored_tensors": {}, "output_mode": 4, "output_return_period": 1,
    "connection_type": 0, "sync_pattern": 0, "available_memory_proportion": {},
}


def test_every_general_setting_has_its_default():
    options = poptorch.Options()
    assert {key: options(key) for key in DEFAULTS} == DEFAULTS
    for key in ("random_seed", "model_name", "use_model", "ipu_id", "ipu_version"):
        assert not options.exists(key)
    options.randomSeed(1).modelName("m").useIpuModel(True).useIpuId(3).useOfflineIpuTarget(21)
    assert (options.random_seed, options.model_name, options.use_model, options.ipu_id, options.ipu_version) == (
        1, "m", True, 3, 21)


def test_settings_of_the_groups_have_their_defaults(monkeypatch):
    monkeypatch.delenv("OMPI_COMM_WORLD_SIZE", raising=False)
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    options = poptorch.Options()
    assert options.Training.gradient_accumulation == 1
    assert options.Training.accumulation_and_replication_reduction_type == poptorch.ReductionType.Mean
    assert options.Training.meanAccumulationAndReplicationReductionStrategy == poptorch.MeanReductionStrategy.Post
    distributed = options.Distributed
    assert (distributed.num_distributed_processes, distributed.distributed_process_id) == (1, 0)
    assert distributed.ipuof_configs == {}


def test_the_process_is_configured_and_disabled():
    distributed = poptorch.Options().Distributed
    assert distributed.configureProcessId(2, 4) is distributed
    assert (distributed.processId, distributed.numProcesses) == (2, 4)
    with pytest.raises(ValueError, match="process 4 of 4"):
        distributed.configureProcessId(4, 4)
    assert distributed.disable().numProcesses == 1 and distributed.processId == 0


def test_anchors_have_a_period_only_with_every_n_and_freezing_does_not_stop_them():
    options = poptorch.Options()
    options.anchorTensor("a", "loss", poptorch.OutputMode.All, 5)
    options.anchorTensor("b", "loss", poptorch.OutputMode.EveryN, 5)
    options._freeze()
    options.anchorTensor("c", "loss")
    assert options.anchored_tensors == {"a": ["loss", 2, 1], "b": ["loss", 1, 5], "c": ["loss", None, 1]}


def test_locations_are_kept_for_each_kind_of_tensors():
    options = poptorch.Options()
    settings = poptorch.TensorLocationSettings().useOnChipStorage().useReplicatedTensorSharding().useIOTilesToLoad()
    settings.useIOTilesToStore(False).minElementsForOffChip(3).minElementsForReplicatedTensorSharding(4)
    kept = {"onChip": 1, "useReplicatedTensorSharding": 1, "useIOTilesToLoad": 1, "useIOTilesToStore": 0,
            "minElementsForOffChip": 3, "minElementsForReplicatedTensorSharding": 4}
    for kind in ("Activation", "Weight", "Optimizer", "Accumulator"):
        assert not options.TensorLocations.exists(f"location_{kind.lower()}")
        getattr(options.TensorLocations, f"set{kind}Location")(settings)
        assert options.TensorLocations(f"location_{kind.lower()}") == kept
        with pytest.raises(AssertionError):
            getattr(options.TensorLocations, f"set{kind}Location")({"onChip": 1})
    for wrong in (lambda: settings.useOnChipStorage(1), lambda: settings.useIOTilesToLoad("yes"),
                  lambda: settings.minElementsForOffChip(1.5), lambda: settings.useIOTilesToStore(0),
                  lambda: settings.minElementsForReplicatedTensorSharding("8")):
        with pytest.raises(AssertionError):
            wrong()


# -- devices ----------------------------------------------------------------------------------------------------------
def three_replicas():
    return quiet().replicationFactor(3)  # not a power of two: hardware refuses it


def test_the_option_wins_over_the_variable_that_asks_for_a_model_of_the_ipu(monkeypatch):
    rows = torch.ones(3, 2)
    for variable in ("POPTORCH_IPU_MODEL", "POPTORCH_SMALL_IPU_MODEL"):
        monkeypatch.setenv(variable, "1")
        infer(three_replicas(), x=rows)
        with pytest.raises(poptorch.Error, match="autoRoundNumIPUs"):
            infer(three_replicas().useIpuModel(False), x=rows)
        monkeypatch.setenv(variable, "0")
        with pytest.raises(poptorch.Error, match="autoRoundNumIPUs"):
            infer(three_replicas(), x=rows)
        infer(three_replicas().useIpuModel(True), x=rows)


@pytest.mark.parametrize("change, named", [(lambda o: o.useIpuModel(True), r"useIpuModel\(True\)"),
                                           (lambda o: o.useIpuId(0), "useIpuId")])
def test_an_offline_target_is_neither_a_model_of_the_ipu_nor_a_device(change, named):
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: x), change(quiet().useOfflineIpuTarget()))
    with pytest.raises(poptorch.Error, match=f"useOfflineIpuTarget cannot be combined with {named}"):
        executor.compile(X)


def test_nothing_is_ever_attached_if_the_connection_is_never():
    options = quiet().connectionType(poptorch.ConnectionType.Never)
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: x + 1), options)
    executor.compile(X)
    assert executor.isCompiled() and not executor.isAttachedToDevice()
    with pytest.raises(AssertionError, match="Never"):
        executor.attachToDevice()
    with pytest.raises(AssertionError, match="Never"):
        executor(X)


@pytest.mark.parametrize("pattern", list(poptorch.SyncPattern))
def test_sync_patterns_change_no_result(pattern):
    assert torch.equal(infer(quiet().syncPattern(pattern)), X + 1)


def test_stable_norms_change_no_result():
    norm = torch.nn.GroupNorm(1, 2)
    results = [infer(quiet().enableStableNorm(flag), lambda self, x: self.m0(x), norm) for flag in (False, True)]
    torch.testing.assert_close(results[0], norm(X).detach())
    assert torch.equal(*results)


# -- data -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("given, made", [(popart.SyntheticDataMode.RandomNormal, True), (1, True), (0, False),
                                         (popart.SyntheticDataMode.Off, False), ("yes", True)])
def test_synthetic_data_goes_by_the_truth_of_its_argument(given, made):
    options = quiet().enableSyntheticData(given)
    assert options._Popart.options["syntheticDataMode"] == (2 if made else 0)
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: x + 1), options)
    executor(X)
    assert (executor.getPerfCounters()["input"] == [[]]) == made


def test_a_period_is_ignored_aloud_unless_the_mode_is_every_n(log_at):
    read = log_at("INFO")
    options = poptorch.Options().outputMode(poptorch.OutputMode.All, 3)
    assert options.output_return_period == 1
    assert "output_return_period 3 is ignored" in read()
    for period in (None, 0, -1, "2"):
        with pytest.raises(AssertionError, match="positive output_return_period"):
            options.outputMode(poptorch.OutputMode.EveryN, period)


# -- names and places -------------------------------------------------------------------------------------------------
def names(options):
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), torch.nn.Tanh())
    executor = poptorch.inferenceModel(model, options)
    executor.compile(X)
    return [name for name in executor.getTensorNames() if ":" in name]


def test_ops_are_named_after_their_modules_unless_that_is_switched_off():
    named = names(quiet())
    assert any(name.startswith("0/0/") for name in named) and any(name.startswith("0/1/") for name in named)
    assert any(name.startswith("1/") for name in named)
    unnamed = names(quiet().disableModuleNamescope())
    assert len(unnamed) == len(named) and not any("/" in name for name in unnamed)


def test_name_scopes_are_part_of_the_names_of_ops():
    def forward(self, x):
        with poptorch.NameScope("outer"):
            x = torch.relu(x)
            with poptorch.NameScope("inner"):
                x = torch.tanh(x)
        torch.ops.poptorch.push_name_scope("pushed")
        x = torch.exp(x)
        torch.ops.poptorch.pop_name_scope()
        return torch.sin(x)

    executor = poptorch.inferenceModel(FunctionModel(forward), quiet())
    executor.compile(X)
    found = {name.rsplit("/", 1)[0] if "/" in name else "" for name in executor.getTensorNames() if ":" in name}
    assert found == {"outer", "outer/inner", "pushed", ""}


def helper(self, x):
    return self.m0(x)


def location(options):
    """Where a layer for three columns meets two of them."""
    with pytest.raises(poptorch.Error) as error:
        infer(options, helper, torch.nn.Linear(3, 3))
    return error.value.location


def test_files_that_are_excluded_are_not_taken_for_user_code():
    assert "test_option_effects.py" in location(quiet()) and "helper" in location(quiet())
    # The next file outwards.
    assert "models.py" in location(quiet().appendToLocationExcludes("test_option_effects.py"))
    neither = location(quiet().appendToLocationExcludes("test_option_effects.py", "models.py"))
    assert "models.py" not in neither and "test_option_effects.py" not in neither
    # The default leaves out torch and poptorch; a list of one's own takes its place.
    assert "linear.py" in location(quiet().sourceLocationExcludes(["functional.py"]))


# -- gradients --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("change", [
    lambda o: o.Training.setMeanAccumulationAndReplicationReductionStrategy(poptorch.MeanReductionStrategy.PostAndLoss),
    lambda o: o._Popart.set("meanAccumulationAndReplicationReductionStrategy", 2),
])
def test_the_deprecated_mean_strategy_is_refused_however_it_is_given(change):
    options = quiet()
    change(options)
    with pytest.raises(poptorch.Error, match="PostAndLoss is no longer available; use Running or Post"):
        infer(options)


@pytest.mark.parametrize("wrong", [0, "Mean", poptorch.OutputMode.All])
def test_a_reduction_must_be_one(wrong):
    with pytest.raises(ValueError):
        poptorch.Options().Training.accumulationAndReplicationReductionType(wrong)


@pytest.mark.parametrize("given, text", [
    (lambda o: o.Precision.halfFloatCasting(poptorch.HalfFloatCastingBehavior.HalfUpcastToFloat), "halfFloatCasting"),
    (lambda o: o.Precision.runningStatisticsAlwaysFloat(True), "runningStatisticsAlwaysFloat"),
    (lambda o: o.Jit.traceModel(False), "traceModel"),
])
def test_deprecated_options_warn_and_change_nothing(given, text, capfd):
    options, before = quiet(), repr(quiet())
    given(options)
    assert repr(options) == before
    log = capfd.readouterr().err
    assert text in log and "deprecated" in log


def test_partials_replace_the_options_of_convolutions():
    options = poptorch.Options()
    options.Training.setConvolutionDithering(True)
    options.Precision.setPartialsType(torch.half)
    assert options._Popart.options["convolutionOptions"] == {"partialsType": "half"}
    assert options._Popart.options["partialsTypeMatMuls"] == "half"
    options.Precision.setPartialsType(torch.float)
    assert options._Popart.options["partialsTypeMatMuls"] == "float"


# -- reports and text sources -----------------------------------------------------------------------------------------
def test_profiling_warns_of_what_the_environment_has_chosen_already(monkeypatch, capfd):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.directory": "elsewhere"}')
    options = poptorch.Options().enableProfiling()
    log = capfd.readouterr().err
    assert "autoReport.directory of POPLAR_ENGINE_OPTIONS overrides" in log and "autoReport.all of" not in log
    assert options._Popart.options["engineOptions"]["autoReport.directory"] == "."


@pytest.mark.parametrize("text, expected", [("{", "line 1 is not JSON: expected"), ("[1]", "expected a JSON object"),
                                            ('{"a": "b",\n"c"}', "line 2 is not JSON: expected")])
def test_malformed_engine_options_are_an_error_with_the_line(monkeypatch, text, expected):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", text)
    with pytest.raises(poptorch.Error, match=rf"POPLAR_ENGINE_OPTIONS\].*{expected}"):
        infer(quiet())


def test_engine_options_of_the_environment_win(monkeypatch, tmp_path):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.all": "false"}')
    options = quiet().enableProfiling(str(tmp_path))
    assert torch.equal(infer(options), X + 1)
    assert list(tmp_path.iterdir()) == []  # no report is asked for any more


def test_default_options_of_the_environment_are_malformed(monkeypatch):
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", '{"deviceIterations": }')
    with pytest.raises(poptorch.Error, match="POPTORCH_DEFAULT_OPTIONS.*expected"):
        poptorch.Options()


def test_malformed_json_in_a_file_of_options_is_an_error_with_file_and_line(tmp_path):
    path = tmp_path / "options.cfg"
    path.write_text("deviceIterations(2)\nfrom_json('{\"deviceIterations\": }')\n")
    with pytest.raises(poptorch.Error, match=r"line 2 of options.cfg: \[from_json\] line 1 is not JSON: expected a value"):
        poptorch.Options().loadFromFile(path)
    assert issubclass(poptorch.ConfigFileError, poptorch.Error)


def test_errors_of_statements_in_a_file_pass_through(tmp_path):
    path = tmp_path / "options.cfg"
    for statement, error in (("deviceIterations('4')", AssertionError), ("noSuchOption(4)", AttributeError),
                             ("deviceIterations(open('x'))", NameError), ("deviceIterations()", TypeError)):
        path.write_text(statement)
        with pytest.raises(error):
            poptorch.Options().loadFromFile(path)


def test_the_graph_is_exported_as_text(monkeypatch, tmp_path):
    path = tmp_path / "new" / "folder" / "graph.txt"
    monkeypatch.setenv("POPTORCH_EXPORT_PROTO_FILE", str(path))
    infer(quiet(), lambda self, x: torch.tanh(x))
    assert "tanh" in path.read_text()
    monkeypatch.setenv("POPTORCH_EXPORT_PROTO_AS_BINARY", "1")
    with pytest.raises(poptorch.Error, match="POPTORCH_EXPORT_PROTO_AS_BINARY is set, but the graph is only written as text"):
        infer(quiet())
