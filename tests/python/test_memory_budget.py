"""Memory budgets: what is over one is refused when the model is compiled; an automatic one is kept, bit for bit."""

import poptorch
import pytest
import torch


class Deep(torch.nn.Module):
    """Twelve layers with dropout, whose random numbers must be the same when they are drawn again."""

    def __init__(self, width=64):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.Linear(width, width), torch.nn.LayerNorm(width), torch.nn.GELU(), torch.nn.Dropout(0.2)
            )
            for _ in range(12)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x, poptorch.identity_loss(x.square(), "mean")


def options_with(budget=None, automatic=False, accumulation=2):
    options = poptorch.Options().randomSeed(3).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(accumulation)
    if budget is not None:
        options.setMemoryBudget(budget, automatic)
    return options


def trainer_of(options, model=None):
    model = Deep() if model is None else model
    return poptorch.trainingModel(model, options, poptorch.optim.AdamW(model.parameters(), lr=1e-2))


def trained(options, model=None, steps=3):
    trainer = trainer_of(options, model)
    generator = torch.Generator().manual_seed(1)
    accumulation = options.Training.gradient_accumulation
    losses = [trainer(torch.randn(256 * accumulation, 64, generator=generator))[1] for _ in range(steps)]
    weights = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    return torch.stack(losses), weights, trainer


@pytest.fixture(scope="module", name="plain")
def train_plainly():
    losses, weights, trainer = trained(options_with())
    return losses, weights, trainer.memoryFootprint()[0]


def batch(accumulation=2):
    return torch.zeros(256 * accumulation, 64)


def test_footprint_tells_kinds_and_buffers(plain):
    device = plain[2]
    parameters = sum(parameter.numel() for parameter in Deep().parameters())
    assert device["kinds"]["weights"] >= 4 * parameters
    assert device["kinds"]["optimiser state"] >= 8 * parameters
    assert device["kinds"]["activations at the peak"] > 12 * 256 * 64 * 4
    assert device["total"] == sum(device["kinds"].values())
    assert device["budget"] == 0 and device["off_device"] == 0
    names = {buffer["name"] for buffer in device["buffers"]}
    assert "layers.3.0.weight" in names
    assert any("layers/7/" in name and "test_memory_budget.py" in name for name in names)
    sizes = [buffer["bytes"] for buffer in device["buffers"]]
    assert sizes == sorted(sizes, reverse=True)
    live = sum(buffer["bytes"] for buffer in device["buffers"] if buffer["always_live"])
    assert live == device["always_live"]


def test_a_model_over_its_budget_is_refused_with_a_table(plain):
    trainer = trainer_of(options_with(plain[2]["total"] - 1))
    with pytest.raises(poptorch.Error) as caught:
        trainer.compile(batch())
    message = str(caught.value)
    for part in (
        "[memory budget] training does not fit",
        "optimiser state",
        "scratch at the peak",
        "largest on IPU 0",
        "optimiser state off the device saves",
        "options.TensorLocations.setOptimizerLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))",
        'options._Popart.set("autoRecomputation", 4) and poptorch.recomputationCheckpoint(x)',
    ):
        assert part in message, message


def test_the_advice_is_right(plain):
    options = options_with(plain[2]["total"] - 1)
    options.TensorLocations.setOptimizerLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
    losses, weights, trainer = trained(options)
    assert trainer.memoryFootprint()[0]["total"] < plain[2]["total"]
    assert torch.equal(losses, plain[0]) and all(map(torch.equal, weights, plain[1]))


@pytest.mark.parametrize("share", [0.9, 0.6, 0.4])
def test_an_automatic_budget_is_kept_bit_for_bit(plain, share):
    budget = int(share * plain[2]["total"])
    losses, weights, trainer = trained(options_with(budget, automatic=True))
    device = trainer.memoryFootprint()[0]
    assert device["total"] <= budget == device["budget"]
    assert torch.equal(losses, plain[0]) and all(map(torch.equal, weights, plain[1]))


def test_an_automatic_budget_of_a_pipeline(capfd, monkeypatch):
    def model():
        made = Deep()
        poptorch.BeginBlock(made.layers[6], ipu_id=1)
        return made

    plain_losses, plain_weights, trainer = trained(options_with(accumulation=4), model())
    budget = int(0.7 * max(device["total"] for device in trainer.memoryFootprint()))
    del trainer
    poptorch.setLogLevel("INFO")
    try:
        losses, weights, trainer = trained(options_with(budget, True, accumulation=4), model())
    finally:
        poptorch.setLogLevel("WARN")
    assert all(device["total"] <= budget for device in trainer.memoryFootprint())
    assert torch.equal(losses, plain_losses) and all(map(torch.equal, weights, plain_weights))
    log = "".join(capfd.readouterr())
    assert "[memory budget] training takes" in log and "per micro-batch:" in log and "MFLOP" in log


def test_the_environment_sets_a_budget(plain, monkeypatch):
    monkeypatch.setenv("ASPEN_MEMORY_BUDGET", "64K")
    with pytest.raises(poptorch.Error, match="does not fit"):
        trainer_of(options_with()).compile(batch())
    trainer_of(options_with("0")).compile(batch())  # options win
    monkeypatch.setenv("ASPEN_MEMORY_BUDGET", f"{plain[2]['total'] * 2 // 3},auto")
    trainer = trainer_of(options_with())
    trainer.compile(batch())
    assert trainer.memoryFootprint()[0]["total"] <= plain[2]["total"] * 2 // 3
    monkeypatch.setenv("ASPEN_MEMORY_BUDGET", "some")
    with pytest.raises(ValueError, match=r'\[ASPEN_MEMORY_BUDGET\] "some" is no memory budget; expected bytes'):
        trainer_of(options_with()).compile(batch())


def test_a_budget_that_cannot_be_kept_is_refused():
    with pytest.raises(poptorch.Error, match="whatever is moved off the devices or computed again"):
        trainer_of(options_with("10K", automatic=True)).compile(batch())


def test_inference_has_budgets_too(plain):
    model = Deep().eval()
    inference = poptorch.inferenceModel(model, poptorch.Options().showCompilationProgressBar(False))
    x = torch.randn(256, 64)
    expected = inference(x)[0]
    device = inference.memoryFootprint()[0]
    budget = device["total"] - device["kinds"]["weights"] // 2
    options = poptorch.Options().showCompilationProgressBar(False)
    fitted = poptorch.inferenceModel(model, options.setMemoryBudget({"IPU0": budget}, automatic=True))
    assert torch.equal(fitted(x)[0], expected)
    assert fitted.memoryFootprint()[0]["total"] <= budget


def test_the_setter_takes_numbers_texts_and_devices():
    for given, kept in [
        (1 << 20, "1048576"),
        ("2M", "2097152"),
        ("2M,auto", "2097152,auto"),
        ({"IPU1": "1K", "IPU0": 5}, "IPU0=5,IPU1=1024"),
        ("1G,IPU2=1K", "1073741824,IPU2=1024"),
    ]:
        assert poptorch.Options().setMemoryBudget(given).memory_budget == kept
    options = poptorch.Options().setMemoryBudget("3K", automatic=True)
    assert options.memory_budget == "3072,auto"
    for wrong in ("", "12X", "-5", -5, True, {"GPU0": 3}, {0: 3}, [5], "1K,2K", "IPU0=1K,IPU0=2K", None):
        with pytest.raises(ValueError, match="is no memory budget"):
            poptorch.Options().setMemoryBudget(wrong)
