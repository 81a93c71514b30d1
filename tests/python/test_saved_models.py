"""Compiled models in files: save, compileAndExport, loadExecutable and load."""

import io
import os
import subprocess
import sys
import textwrap

import poptorch
import pytest
import torch

from support.models import quiet

_NUMBERS = torch.Generator().manual_seed(1)  # the same in the other process of a test below
X, TARGET = torch.randn(4, 6, generator=_NUMBERS), torch.randn(4, 2, generator=_NUMBERS)


class Net(torch.nn.Module):
    """Dropout, a buffer that forward writes and one that is batch norm's."""

    def __init__(self, width=8):
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(6, width)
        self.norm = torch.nn.BatchNorm1d(width)
        self.drop = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(width, 2)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, target=None):
        self.count.add_(1)
        y = self.last(self.drop(torch.relu(self.norm(self.first(x)))))
        if target is None:
            return y
        return y, torch.nn.functional.mse_loss(y, target)


class Local(Net):
    """Cannot be pickled."""

    def __init__(self):
        super().__init__()
        self.scale = lambda x: x * 2

    def forward(self, x, target=None):
        return super().forward(self.scale(x), target)


def adam(model):
    return poptorch.optim.Adam(model.parameters(), lr=0.01)


def trainer_of(model, options=None, make=adam):
    return poptorch.trainingModel(model, options or quiet().randomSeed(7), make(model))


def losses(trainer, steps=3):
    return [trainer(X, TARGET)[1].item() for _ in range(steps)]


def state_of(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same(before, after):
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name


# -- load -------------------------------------------------------------------------------------------------------------
def test_a_saved_model_is_loaded_compiled_and_runs_at_once(tmp_path):
    trainer = trainer_of(Net())
    losses(trainer)
    names = trainer.getTensorNames()
    trainer.save(tmp_path / "model.poptorch")
    expected = losses(trainer)
    trainer.destroy()
    loaded = poptorch.load(tmp_path / "model.poptorch")
    assert loaded.isCompiled() and loaded.isAttachedToDevice()
    assert loaded.getTensorNames() == names
    assert losses(loaded) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["model.poptorch"]


@pytest.mark.parametrize("make", [
    adam,
    lambda model: poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    lambda model: poptorch.optim.LAMB(model.parameters(), lr=0.01),
    lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01),
    lambda model: torch.optim.AdamW(model.parameters(), lr=0.01),
])
def test_the_original_and_the_loaded_model_continue_equally_call_by_call(tmp_path, make):
    trainer = trainer_of(Net(), make=make)
    losses(trainer)
    trainer.save(tmp_path / "model.poptorch")
    loaded = poptorch.load(tmp_path / "model.poptorch")
    for _ in range(5):
        assert losses(loaded, 1) == losses(trainer, 1)
        assert_same(state_of(trainer.model), state_of(loaded.model))
    assert loaded.rng_state == trainer.rng_state


def test_a_learning_rate_that_was_set_is_that_of_the_loaded_model(tmp_path):
    trainer = trainer_of(Net())
    losses(trainer)
    optimizer = adam(trainer.model)
    optimizer.param_groups[0]["lr"] = 0.5
    trainer.setOptimizer(optimizer)
    trainer.save(tmp_path / "model.poptorch")
    loaded = poptorch.load(tmp_path / "model.poptorch")
    assert losses(loaded) == losses(trainer)


PROGRAM = textwrap.dedent("""
    import sys, torch, poptorch
    sys.path.insert(0, sys.argv[2])
    from test_saved_models import losses
    loaded = poptorch.load(sys.argv[1])
    print(losses(loaded, 4), loaded.rng_state)
    print([float(tensor.double().sum()) for tensor in loaded.state_dict().values()])
""")


def test_a_fresh_process_continues_bit_for_bit(tmp_path):
    trainer = trainer_of(Net())
    losses(trainer)
    trainer.save(tmp_path / "model.poptorch")
    expected = f"{losses(trainer, 4)} {list(trainer.rng_state)}"
    sums = [float(tensor.double().sum()) for tensor in trainer.state_dict().values()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, tmp_path / "model.poptorch", os.path.dirname(__file__)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment)
    assert run.stdout.splitlines() == [expected, f"{sums}"]


def test_the_offline_target_is_dropped_and_options_may_be_edited(tmp_path):
    trainer = trainer_of(Net(), quiet().randomSeed(7).useOfflineIpuTarget())
    trainer.compileAndExport(tmp_path / "model.poptorch", X, TARGET)
    assert not trainer.isAttachedToDevice()
    seen = []

    def edit(options):
        seen.append((options.exists("ipu_version"), options.connection_type))
        options.logDir(str(tmp_path))

    loaded = poptorch.load(tmp_path / "model.poptorch", edit)
    assert seen == [(False, poptorch.ConnectionType.Always.value)]
    assert loaded.options.log_dir == str(tmp_path)
    assert losses(loaded) == losses(trainer_of(Net()))


def test_an_option_that_is_compiled_in_cannot_be_edited(tmp_path):
    trainer = trainer_of(Net())
    trainer.compileAndExport(tmp_path / "model.poptorch", X, TARGET)
    with pytest.raises(poptorch.Error, match=r"model.poptorch.* was compiled with mean_reduction = true, and .* say false"):
        poptorch.load(tmp_path / "model.poptorch",
                      lambda options: options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum))


def test_the_loaded_module_is_a_module_like_any_other(tmp_path):
    model = Net().eval()
    executor = poptorch.inferenceModel(model, quiet())
    expected = executor(X)
    saved = state_of(model)
    executor.save(tmp_path / "model.poptorch")
    with torch.no_grad():
        model.first.weight.zero_()  # after the file was written
    loaded = poptorch.load(tmp_path / "model.poptorch")
    assert_same({**saved, "count": loaded.model.count}, state_of(loaded.model))
    assert torch.equal(loaded(X), expected)
    y, loss = loaded.model(X, TARGET)
    torch.testing.assert_close(y, expected)
    assert loss.shape == ()
    loaded.load_state_dict(Net(8).state_dict())
    buffer = io.BytesIO()
    torch.save(loaded.model, buffer)
    buffer.seek(0)
    assert_same(state_of(torch.load(buffer)), state_of(loaded.model))


def test_what_forward_returned_comes_back_in_its_structure(tmp_path):
    executor = poptorch.inferenceModel(Structured(), quiet())
    expected = executor({"x": X, "scale": 2.0}, [X, None])
    executor.save(tmp_path / "model.poptorch")
    loaded = poptorch.load(tmp_path / "model.poptorch")
    result = loaded({"x": X, "scale": 2.0}, [X, None])
    assert result.keys() == expected.keys() and result["name"] == "sum"
    assert torch.equal(result["y"][0], expected["y"][0]) and torch.equal(result["y"][1], X)
    with pytest.raises(poptorch.Error, match="was 2.0 when the model was compiled and is 3.0 now"):
        loaded({"x": X, "scale": 3.0}, [X, None])


class Structured(torch.nn.Module):
    def forward(self, values, more):
        return {"y": (values["x"] * values["scale"], more[0] * 1), "name": "sum"}


@pytest.mark.parametrize("change", [
    lambda o: o.replicationFactor(2).broadcastBuffers(False),
    lambda o: o.deviceIterations(2).outputMode(poptorch.OutputMode.All),
    lambda o: o.Training.gradientAccumulation(2),
    lambda o: o.anchorTensor("g", "Gradient___first.weight"),
])
def test_options_come_with_the_model(tmp_path, change):
    options = quiet().randomSeed(7)
    change(options)
    trainer = trainer_of(Net(), options)
    x, target = X.repeat(2, 1), TARGET.repeat(2, 1)
    trainer(x, target)
    trainer.save(tmp_path / "model.poptorch")
    loaded = poptorch.load(tmp_path / "model.poptorch")
    for _ in range(2):
        for mine, other in zip(trainer(x, target), loaded(x, target)):
            assert torch.equal(mine, other)
    if options.anchored_tensors:
        assert torch.equal(trainer.getAnchoredTensor("g"), loaded.getAnchoredTensor("g"))
    assert_same(state_of(trainer.model), state_of(loaded.model))


def test_blocks_and_strategies_come_with_the_model(tmp_path):
    model = Net()
    model.last = poptorch.BeginBlock(model.last, "last", ipu_id=1)
    options = quiet().randomSeed(7).deviceIterations(1)
    options.Training.gradientAccumulation(3)
    trainer = trainer_of(model, options)
    x, target = X.repeat(3, 1), TARGET.repeat(3, 1)
    trainer(x, target)
    trainer.save(tmp_path / "model.poptorch")
    loaded = poptorch.load(tmp_path / "model.poptorch")
    assert torch.equal(loaded(x, target)[1], trainer(x, target)[1])


def test_random_state_stays_out_if_it_is_not_wanted(tmp_path):
    trainer = trainer_of(Net())
    losses(trainer)
    trainer.save(tmp_path / "model.poptorch", save_rng_state=False)
    assert poptorch.load(tmp_path / "model.poptorch").rng_state == [7, 0]
    trainer.save(tmp_path / "model.poptorch")
    assert poptorch.load(tmp_path / "model.poptorch").rng_state == trainer.rng_state == [7, 3]


# -- exporting --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("export_model", [True, False])
def test_a_directory_gets_exactly_one_file(tmp_path, export_model):
    trainer = trainer_of(Net() if export_model else Local(), quiet().randomSeed(7).useOfflineIpuTarget())
    trainer.compileAndExport(str(tmp_path), X, TARGET, export_model=export_model)
    assert [path.name for path in tmp_path.iterdir()] == ["model.poptorch"]
    assert trainer.isCompiled() and not trainer.isAttachedToDevice()
    fresh = trainer_of(Net() if export_model else Local())
    fresh.loadExecutable(tmp_path / "model.poptorch")
    assert losses(fresh) == losses(trainer_of(Net() if export_model else Local()))


def test_missing_directories_are_made(tmp_path):
    executor = poptorch.inferenceModel(Net(), quiet())
    executor.compileAndExport(tmp_path / "a" / "b" / "model", X)
    assert (tmp_path / "a" / "b" / "model").is_file()


def test_a_model_that_is_not_compiled_cannot_be_saved(tmp_path):
    with pytest.raises(poptorch.Error, match=r"\[save\] the model is not compiled yet"):
        poptorch.inferenceModel(Net(), quiet()).save(tmp_path / "model")


def test_a_model_that_cannot_be_pickled_is_an_error_with_a_way_out(tmp_path):
    executor = poptorch.inferenceModel(Local(), quiet())
    with pytest.raises(poptorch.Error, match="the model cannot be pickled: .*lambda.*export_model=False"):
        executor.compileAndExport(tmp_path / "model", X)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    executor = poptorch.inferenceModel(Net(), quiet())
    executor.compile(X)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(poptorch.Error, match=r"\[save\] the folder .*file.* cannot be made"):
        executor.save(tmp_path / "file" / "model")
    with pytest.raises(poptorch.Error, match=r"\[save\] cannot write \"/proc/model\""):
        executor.save("/proc/model")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# -- functions on the host --------------------------------------------------------------------------------------------
HOST_OPS = ("nan_to_num", "cat", "index.Tensor", "div.Tensor_mode", "roll", "linalg_inv_ex")


@pytest.fixture(name="ops_on_the_host")
def without_handlers():
    for name in HOST_OPS:
        poptorch.poptorch_core.remove_handler(f"aten::{name}")
    yield
    poptorch.poptorch_core.restore_handlers()


class WithHostCalls(torch.nn.Module):
    """Their fixed arguments are of many kinds: numbers, texts, lists, tensors, lists of tensors and of none."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.weight = torch.nn.Parameter(torch.rand(4, 4) + 4 * torch.eye(4))

    def forward(self, x):
        y = torch.nan_to_num(torch.linalg.inv(self.weight) @ x, nan=0.5, posinf=3.0)
        y = torch.cat([y, torch.full((1, 5), 0.25), y.half().roll((1, 2), (0, 1)).float()])
        z = torch.div(y[:, torch.tensor([0, 3, 3])], torch.tensor(0.3), rounding_mode="floor")
        return z, poptorch.identity_loss(y.square().sum(), "none")


def test_calls_on_the_host_are_stored_by_operator_and_arguments(tmp_path, ops_on_the_host):
    x = torch.randn(4, 5)
    model = WithHostCalls()
    eager = WithHostCalls()
    trainer = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.01))
    torch.testing.assert_close(trainer(x)[1], eager(x)[1])
    called = trainer._core.host_calls()
    assert {name.split(".")[0] for name in HOST_OPS} == {name.removeprefix("aten::") for name in called}
    trainer.save(tmp_path / "model.poptorch")
    loaded = poptorch.load(tmp_path / "model.poptorch")
    assert loaded._core.host_calls() == called
    for _ in range(3):
        for mine, other in zip(trainer(x), loaded(x)):
            assert torch.equal(mine, other)
    loaded.save(tmp_path / "again.poptorch")  # what was read can be written
    assert torch.equal(poptorch.load(tmp_path / "again.poptorch")(x)[1], trainer(x)[1])


class WithLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = poptorch.CPU(lambda x: x + 1, "plus_one")

    def forward(self, x):
        return self.layer(x)


def test_a_layer_on_the_host_is_named(tmp_path):
    executor = poptorch.inferenceModel(WithLayer(), quiet())
    executor(X)
    with pytest.raises(poptorch.Error, match="plus_one is a function of this process alone"):
        executor.save(tmp_path / "model", export_model=False)
    assert list(tmp_path.iterdir()) == []


# -- loadExecutable ---------------------------------------------------------------------------------------------------
def test_a_fresh_model_trains_with_a_program_of_a_file(tmp_path):
    exporter = trainer_of(Net())
    exporter.compileAndExport(tmp_path / "train.poptorch", X, TARGET)
    model = Net()
    poptorch.inferenceModel(model.eval(), quiet()).compileAndExport(tmp_path / "infer.poptorch", X)
    model.train()
    trainer = trainer_of(model)
    trainer.loadExecutable(tmp_path / "train.poptorch")
    assert trainer.isCompiled() and trainer.isAttachedToDevice()
    assert losses(trainer) == losses(trainer_of(Net()))
    model.eval()
    inference = poptorch.inferenceModel(model, quiet())
    inference.loadExecutable(tmp_path / "infer.poptorch")
    torch.testing.assert_close(inference(X), copy_of(model)(X))
    losses(trainer)
    torch.testing.assert_close(inference(X), copy_of(model)(X))


def copy_of(model):
    copy = Net().eval()
    copy.load_state_dict(model.state_dict())
    return copy


def test_an_inference_model_of_a_loaded_trainer_follows_and_exports_its_weights(tmp_path):
    trainer = trainer_of(Net())
    losses(trainer)
    trainer.save(tmp_path / "train.poptorch")
    loaded = poptorch.load(tmp_path / "train.poptorch")
    losses(loaded)
    loaded.model.eval()
    inference = poptorch.inferenceModel(loaded, quiet())
    inference.compileAndExport(tmp_path / "infer.poptorch", X)
    first = inference(X)
    assert torch.equal(poptorch.load(tmp_path / "infer.poptorch")(X), first)
    loaded.model.train()
    losses(loaded)
    inference.save(tmp_path / "later.poptorch")  # without a call in between
    later = poptorch.load(tmp_path / "later.poptorch")(X)
    assert not torch.equal(later, first) and torch.equal(later, inference(X))


def refusal(call):
    with pytest.raises(poptorch.Error) as caught:
        call()
    return str(caught.value)


def test_a_file_of_another_model_is_refused_by_what_differs(tmp_path):
    trainer_of(Net()).compileAndExport(tmp_path / "model", X, TARGET)
    load = lambda model, options=None, make=adam: refusal(
        lambda: trainer_of(model, options, make).loadExecutable(tmp_path / "model"))
    assert '"first.weight" is a trainable parameter f32[8, 6] in its model, and a trainable parameter f32[9, 6]' in \
        load(Net(9))
    frozen = Net()
    frozen.last.bias.requires_grad_(False)
    assert '"last.bias" is a trainable parameter' in load(frozen)
    other = Net()
    other.drop.p = 0.25
    assert "it holds the program of another model: what forward does" in load(other)
    named = Net()
    named.extra = torch.nn.Linear(2, 2)
    assert 'this model has "extra.bias"' in load(named)
    assert "it was compiled with replicas = 1" in load(Net(), quiet().replicationFactor(2).broadcastBuffers(False))
    assert "it was compiled with optimizer = adam" in load(Net(), None, lambda m: torch.optim.SGD(m.parameters(), 0.1))
    assert "it holds a model that trains, and this one does not" in refusal(
        lambda: poptorch.inferenceModel(Net(), quiet()).loadExecutable(tmp_path / "model"))


def test_the_same_model_written_elsewhere_fits(tmp_path):
    def make(text):
        space = {"torch": torch}
        exec(compile(text, f"{len(text)}.py", "exec"), space)  # pylint: disable=exec-used
        return space["Elsewhere"]()

    text = "class Elsewhere(torch.nn.Module):\n  def forward(self, x):\n    return x * 2 + 1\n"
    poptorch.inferenceModel(make(text), quiet()).compileAndExport(tmp_path / "model", X, export_model=False)
    executor = poptorch.inferenceModel(make("\n\n" + text), quiet())
    executor.loadExecutable(tmp_path / "model")
    assert torch.equal(executor(X), X * 2 + 1)


def test_a_compiled_model_loads_no_other_program(tmp_path):
    executor = poptorch.inferenceModel(Net(), quiet())
    executor.compileAndExport(tmp_path / "model", X)
    with pytest.raises(poptorch.Error, match="is compiled already; call destroy"):
        executor.loadExecutable(tmp_path / "model")
    executor.destroy()
    executor.loadExecutable(tmp_path / "model")
    assert executor(X).shape == (4, 2)


def test_trace_points_tell_of_files(tmp_path):
    program = textwrap.dedent("""
        import poptorch, torch
        options = poptorch.Options().showCompilationProgressBar(False)
        poptorch.inferenceModel(torch.nn.ReLU(), options).compileAndExport("model", torch.ones(2))
        poptorch.load("model")
    """)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PVTI_OPTIONS": '{"enable": "true"}'}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, env=environment, cwd=tmp_path)
    (trace,) = tmp_path.glob("poptorch_*.json")
    for point in ("compileAndExport", "saveExecutableToFile", "loadExecutable"):
        assert f'"name": "{point}"' in trace.read_text() or f'"name":"{point}"' in trace.read_text()


# -- files that are not what they should be -----------------------------------------------------------------------------
@pytest.fixture(name="saved")
def saved_file(tmp_path):
    trainer_of(Net()).compileAndExport(tmp_path / "model", X, TARGET)
    return tmp_path / "model"


def test_a_missing_file_is_an_error(tmp_path):
    for call in (lambda: poptorch.load(tmp_path / "missing"), lambda: trainer_of(Net()).loadExecutable(tmp_path / "missing"),
                 lambda: poptorch.importPoptorchMetadataFromFile(tmp_path / "missing")):
        assert "missing" in refusal(call) and "No such file" in refusal(call)


@pytest.mark.parametrize("spoil", [
    lambda bytes_: bytes_[: len(bytes_) // 2],
    lambda bytes_: b"",
    lambda bytes_: b"PK" + bytes_[2:],
    lambda bytes_: bytes_[:1000] + bytes([bytes_[1000] ^ 1]) + bytes_[1001:],
    lambda bytes_: bytes_ + b"more",
])
def test_a_changed_file_is_an_error_that_names_it(saved, spoil):
    saved.write_bytes(spoil(saved.read_bytes()))
    for call in (lambda: poptorch.load(saved), lambda: trainer_of(Net()).loadExecutable(saved)):
        text = refusal(call)
        assert str(saved) in text and "cannot be used" in text


def test_another_version_is_refused(saved, monkeypatch):
    monkeypatch.setattr(poptorch, "__version__", "3.5.0+aspen.9")
    with pytest.raises(AssertionError, match=r"written by version 3\.4.* of poptorch, and this is 3\.5\.0"):
        poptorch.load(saved)
    with pytest.raises(poptorch.Error, match=r"written by version 3\.4.* of poptorch, and this is 3\.5\.0"):
        trainer_of(Net()).loadExecutable(saved)


def test_a_file_without_its_model_says_what_to_do(tmp_path):
    trainer_of(Net()).compileAndExport(tmp_path / "model", X, TARGET, export_model=False)
    with pytest.raises(AssertionError, match="loadExecutable"):
        poptorch.load(tmp_path / "model")


def test_the_metadata_of_a_file(saved, tmp_path):
    data = poptorch.importPoptorchMetadataFromFile(saved)
    assert data.version == poptorch.__version__ and data.training
    assert data.executable_inputs == [("x", (4, 6), torch.float32), ("target", (4, 2), torch.float32)]
    assert isinstance(data.model, Net) and data.options.random_seed == 7 and data.rng_state == [7, 0]
    trainer_of(Net()).compileAndExport(tmp_path / "bare", X, TARGET, export_model=False)
    assert poptorch.importPoptorchMetadataFromFile(tmp_path / "bare").model is None
