"""State of an optimiser that is loaded while its model is compiled: ipu_param and ipu_state reach the device."""

import copy
import math
import pickle

import poptorch
import pytest
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 6)
        self.second = torch.nn.Linear(6, 2)
        self.loss = torch.nn.MSELoss()

    def forward(self, x, target):
        y = self.second(torch.tanh(self.first(x)))
        return y, self.loss(y, target)


X, TARGET = torch.randn(8, 4, generator=torch.Generator().manual_seed(1)), torch.zeros(8, 2)


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def make():
    torch.manual_seed(0)
    return Net().train()


OPTIMIZERS = {
    "SGD": lambda p, lr: poptorch.optim.SGD(p, lr=lr),
    "SGD with momentum": lambda p, lr: poptorch.optim.SGD(
        p, lr=lr, momentum=0.9, dampening=0.1, weight_decay=0.01, loss_scaling=4.0
    ),
    "Adam": lambda p, lr: poptorch.optim.Adam(p, lr=lr, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.01),
    "AdamW": lambda p, lr: poptorch.optim.AdamW(p, lr=lr, loss_scaling=2.0),
    "RMSprop": lambda p, lr: poptorch.optim.RMSprop(p, lr=lr, momentum=0.5, alpha=0.9),
    "LAMB": lambda p, lr: poptorch.optim.LAMB(p, lr=lr, max_weight_norm=10.0),
}
parametrized = pytest.mark.parametrize("optimizer_of", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


@parametrized
def test_loaded_state_trains_on_as_where_it_was_saved(optimizer_of):
    model = make()
    optimizer = optimizer_of(model.parameters(), 0.05)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    for _ in range(3):
        executor(X, TARGET)
    saved, saved_weights = copy.deepcopy(optimizer.state_dict()), weights(model)
    for _ in range(3):
        executor(X, TARGET)
    wanted = weights(model)

    other = make()
    other_optimizer = optimizer_of(other.parameters(), 0.5)
    resumed = poptorch.trainingModel(other, quiet(), other_optimizer)
    resumed(X, TARGET)  # compiled, and trained with another learning rate
    resumed.load_state_dict(saved_weights)
    other_optimizer.load_state_dict(saved)
    for _ in range(3):
        resumed(X, TARGET)
    for name, value in weights(other).items():
        assert torch.equal(value, wanted[name]), name


@parametrized
def test_state_saved_by_cpp_trains_on(optimizer_of, tmp_path):
    file = str(tmp_path / "saved.pt")
    model = make()
    optimizer = optimizer_of(model.parameters(), 0.05)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    saved_weights = weights(model)
    poptorch.poptorch_core.save_optimizer_state(executor._optimizer._described(optimizer), file)
    executor(X, TARGET)

    other = make()
    other.load_state_dict(saved_weights)
    other_optimizer = optimizer_of(other.parameters(), 0.5)
    other_optimizer.load_state_dict(torch.load(file))
    assert other_optimizer.param_groups[0]["lr"] == 0.05
    poptorch.trainingModel(other, quiet(), other_optimizer)(X, TARGET)
    wanted = weights(model)
    for name, value in weights(other).items():
        assert torch.equal(value, wanted[name]), name


@parametrized
def test_state_dict_is_what_was_loaded_until_it_changes(optimizer_of):
    model = make()
    optimizer = optimizer_of(model.parameters(), 0.05)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    loaded = copy.deepcopy(optimizer.state_dict())
    for name, value in loaded["ipu_param"].items():
        # a factor of 1 - lr * decay cannot be doubled
        loaded["ipu_param"][name] = value if "ScaleFactor" in name or "beta" in name or "alpha" in name else value * 0.5
    for name, value in loaded["ipu_state"].items():
        loaded["ipu_state"][name] = value + 1
    optimizer.load_state_dict(loaded)
    for kind in ("ipu_param", "ipu_state"):
        between = optimizer.state_dict()[kind]
        assert between.keys() == loaded[kind].keys()
        for name, value in between.items():
            assert torch.equal(value, loaded[kind][name]), name
    executor(X, TARGET)
    after = optimizer.state_dict()
    assert after["ipu_param"].keys() == loaded["ipu_param"].keys()
    for name, value in after["ipu_param"].items():
        torch.testing.assert_close(value, loaded["ipu_param"][name], rtol=1e-5, atol=1e-7, msg=name)
    for name, value in after["ipu_state"].items():
        assert not torch.equal(value, loaded["ipu_state"][name]), name


def test_each_parameter_gets_its_own_numbers():
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    state = copy.deepcopy(optimizer.state_dict())
    state["ipu_param"]["scaledLearningRate0___specific___first.weight"] = torch.tensor(0.0)
    state["ipu_param"]["scaledLearningRate0___specific___second.bias"] = torch.tensor(0.4)
    optimizer.load_state_dict(state)
    before = weights(model)
    reference = Net()
    reference.load_state_dict(before)
    executor(X, TARGET)
    reference(X, TARGET)[1].backward()
    after = weights(model)
    assert torch.equal(after["first.weight"], before["first.weight"])
    torch.testing.assert_close(after["first.bias"], before["first.bias"] - 0.1 * reference.first.bias.grad)
    torch.testing.assert_close(after["second.bias"], before["second.bias"] - 0.4 * reference.second.bias.grad)


def test_entries_that_are_missing_keep_their_device_values(capfd):
    model = make()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    before = copy.deepcopy(optimizer.state_dict())
    state = copy.deepcopy(before)
    del state["ipu_param"]["learningRate___specific___first.weight"]
    del state["ipu_state"]["Accl1___first.bias"]
    state["ipu_param"]["learningRate___specific___first.bias"] = torch.tensor(0.25)
    optimizer.load_state_dict(state)
    executor(X, TARGET)
    log = capfd.readouterr().err
    assert "learningRate___specific___first.weight" in log and "Accl1___first.bias" in log
    param = optimizer.state_dict()["ipu_param"]
    kept = "learningRate___specific___first.weight"
    assert param[kept] == before["ipu_param"][kept]
    assert param["learningRate___specific___first.bias"] == 0.25


def test_setting_the_optimizer_after_loading_overrides_what_was_loaded():
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    state = copy.deepcopy(optimizer.state_dict())
    executor(X, TARGET)
    optimizer.load_state_dict(state)
    optimizer.param_groups[0]["lr"] = 0.0
    executor.setOptimizer(optimizer)
    before = weights(model)
    executor(X, TARGET)
    for name, value in weights(model).items():
        assert torch.equal(value, before[name]), name


def test_learning_rate_changed_between_programs_is_not_undone_by_old_state():
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    executor.destroy()
    optimizer.param_groups[0]["lr"] = 0.0
    before = weights(model)
    executor(X, TARGET)
    for name, value in weights(model).items():
        assert torch.equal(value, before[name]), name


def test_state_loaded_while_detached_reaches_the_device():
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    state = copy.deepcopy(optimizer.state_dict())
    for name in state["ipu_param"]:
        if "scaledLearningRate" in name:
            state["ipu_param"][name] = torch.tensor(0.0)
    executor.detachFromDevice()
    optimizer.load_state_dict(state)
    before = weights(model)
    executor(X, TARGET)
    for name, value in weights(model).items():
        assert torch.equal(value, before[name]), name


def test_plain_torch_state_is_an_error():
    model = make()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    with pytest.raises(RuntimeError, match="ipu_state"):
        optimizer.load_state_dict(torch.optim.Adam(make().parameters()).state_dict())
    executor(X, TARGET)


def test_state_that_does_not_fit_is_an_error_until_another_is_loaded():
    model = make()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    state = copy.deepcopy(optimizer.state_dict())
    wrong = copy.deepcopy(state)
    wrong["ipu_state"]["Accl1___first.bias"] = torch.zeros(7)
    optimizer.load_state_dict(wrong)
    for _ in range(2):
        with pytest.raises(poptorch.Error, match="Accl1___first.bias"):
            executor(X, TARGET)
    optimizer.load_state_dict(state)
    executor(X, TARGET)
    assert optimizer.state_dict()["ipu_state"]["Step___first.bias"] == 2


def test_loaded_state_is_not_the_callers_own():
    model = make()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    state = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(state)
    state["ipu_param"]["learningRate___specific___first.bias"].fill_(7)
    state["ipu_state"].clear()
    assert optimizer.state_dict()["ipu_param"]["learningRate___specific___first.bias"] == torch.tensor(0.1)
    assert optimizer.state_dict()["ipu_state"]


def test_state_counts_steps_for_each_parameter():
    model = make()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet().deviceIterations(3), optimizer)
    executor(X.repeat(3, 1), TARGET.repeat(3, 1))
    state = optimizer.state_dict()["ipu_state"]
    steps = {name: value for name, value in state.items() if name.startswith("Step___")}
    assert steps.keys() == {f"Step___{name}" for name, _ in model.named_parameters()}
    assert all(value == 3 for value in steps.values())


def test_steps_are_loaded_for_each_parameter():
    """The first update of Adam goes by the learning rate, later ones by less: one parameter begins anew."""
    model = make()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    state = copy.deepcopy(optimizer.state_dict())
    for name in ("Step___first.bias", "Accl1___first.bias", "Accl2___first.bias"):
        state["ipu_state"][name].zero_()
    optimizer.load_state_dict(state)
    before = weights(model)
    executor(X, TARGET)
    change = (weights(model)["first.bias"] - before["first.bias"]).abs()
    torch.testing.assert_close(change, torch.full((6,), 0.1), rtol=1e-4, atol=1e-5)
    after = optimizer.state_dict()["ipu_state"]
    assert after["Step___first.bias"] == 1 and after["Step___first.weight"] == 2


@pytest.mark.parametrize("combined", [False, True])
def test_state_without_moments_is_empty(combined):
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, use_combined_accum=combined)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    assert optimizer.state_dict()["ipu_state"] == {}


def test_state_holds_accumulators():
    options = quiet()
    options.Training.gradientAccumulation(2)
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    executor = poptorch.trainingModel(model, options, optimizer)
    executor(torch.cat([X, X]), torch.cat([TARGET, TARGET]))
    state = copy.deepcopy(optimizer.state_dict())
    assert {f"Accum___{name}" for name, _ in model.named_parameters()} <= state["ipu_state"].keys()
    optimizer.load_state_dict(pickle.loads(pickle.dumps(state)))
    executor(torch.cat([X, X]), torch.cat([TARGET, TARGET]))


class Grouped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))

    def forward(self, x):
        return poptorch.identity_loss((x * self.weight).sum(), "sum")


def test_state_of_grouped_parameters_has_the_group_dimension_in_front():
    model = Grouped()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet().replicationFactor(2), optimizer)
    executor.weight.replicaGrouping(poptorch.CommGroupType.NoGrouping, 0, poptorch.VariableRetrievalMode.OnePerGroup)
    x = torch.tensor([[1.0, 2, 3], [10, 20, 30]])
    executor(x)
    state = copy.deepcopy(optimizer.state_dict())
    assert {name: list(value.shape) for name, value in state["ipu_state"].items()} == {
        "Accl1___weight": [2, 3],
        "Accl2___weight": [2, 3],
        "Accum___weight": [2, 3],
        "Step___weight": [2],
    }
    assert not torch.equal(state["ipu_state"]["Accl1___weight"][0], state["ipu_state"]["Accl1___weight"][1])
    # The second group begins anew.
    for value in state["ipu_state"].values():
        value[1] = 0
    optimizer.load_state_dict(state)
    executor(x)
    assert optimizer.state_dict()["ipu_state"]["Step___weight"].tolist() == [2, 1]


def test_loss_scaling_is_loaded():
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, loss_scaling=8.0)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(X, TARGET)
    state = copy.deepcopy(optimizer.state_dict())
    assert state["ipu_param"]["lossScaling_FLOAT"] == 8
    state["ipu_param"]["lossScaling_FLOAT"] = torch.tensor(2.0)
    for name, value in state["ipu_param"].items():
        if name.startswith("scaledLearningRate"):
            state["ipu_param"][name] = value * 4  # the same learning rate
    optimizer.load_state_dict(state)
    before = weights(model)
    executor(X, TARGET)
    param = optimizer.state_dict()["ipu_param"]
    assert param["lossScaling_FLOAT"] == 2
    assert math.isclose(param["scaledLearningRate0___specific___first.bias"], 0.05, rel_tol=1e-6)
    reference = Net()
    reference.load_state_dict(before)
    reference(X, TARGET)[1].backward()
    expected = before["first.bias"] - 0.1 * reference.first.bias.grad
    torch.testing.assert_close(weights(model)["first.bias"], expected)
