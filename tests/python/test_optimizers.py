"""Optimisers: 20 steps beside torch.optim, changes by setOptimizer, constness, state."""

import copy
import math
import pickle

import poptorch
import pytest
import torch

STEPS = 20


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 6)
        self.second = torch.nn.Linear(6, 2)
        self.loss = torch.nn.MSELoss()

    def forward(self, x, target):
        y = self.second(torch.tanh(self.first(x)))
        return y, self.loss(y, target)


def batches(count=STEPS, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(8, 4, generator=generator), torch.randn(8, 2, generator=generator)) for _ in range(count)]


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def make(seed=0):
    torch.manual_seed(seed)
    return Net().train()


def groups_of(model):
    return [{"params": model.first.parameters(), "lr": 0.03}, {"params": model.second.parameters()}]


def train_eager(model, optimizer, data, clip=None):
    for x, target in data:
        optimizer.zero_grad()
        model(x, target)[1].backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


def assert_same_weights(model, reference, rtol=2e-5, atol=2e-6):
    for (name, value), expected in zip(model.state_dict().items(), reference.state_dict().values()):
        torch.testing.assert_close(value, expected, rtol=rtol, atol=atol, msg=lambda text, n=name: f"{n}: {text}")


def compare(make_optimizer, make_reference, clip=None, data=None):
    """Trains the same model on the device and eagerly."""
    data = batches() if data is None else data
    model = make()
    reference = copy.deepcopy(model)
    executor = poptorch.trainingModel(model, quiet(), make_optimizer(model))
    for x, target in data:
        executor(x, target)
    train_eager(reference, make_reference(reference), data, clip)
    assert_same_weights(model, reference)
    executor.destroy()


TORCH_CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.99), "eps": 1e-6}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.3}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "alpha": 0.9}),
    ("RMSprop", {"lr": 0.01, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.5}),
]


@pytest.mark.parametrize("library", [torch.optim, poptorch.optim], ids=["torch", "poptorch"])
@pytest.mark.parametrize("kind,settings", TORCH_CASES)
def test_matches_torch(library, kind, settings):
    compare(
        lambda model: getattr(library, kind)(model.parameters(), **settings),
        lambda model: getattr(torch.optim, kind)(model.parameters(), **settings),
    )


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_parameter_groups(kind):
    compare(
        lambda model: getattr(poptorch.optim, kind)(groups_of(model), lr=0.01),
        lambda model: getattr(torch.optim, kind)(groups_of(model), lr=0.01),
    )


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_gradient_clipping(kind):
    compare(
        lambda model: getattr(poptorch.optim, kind)(model.parameters(), lr=0.05, max_grad_norm=0.1),
        lambda model: getattr(torch.optim, kind)(model.parameters(), lr=0.05),
        clip=0.1,
    )


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_loss_scaling_does_not_change_the_result(kind):
    compare(
        lambda model: getattr(poptorch.optim, kind)(model.parameters(), lr=0.01, loss_scaling=128.0),
        lambda model: getattr(torch.optim, kind)(model.parameters(), lr=0.01),
    )


def test_combined_accumulator_is_the_same_sgd():
    compare(
        lambda model: poptorch.optim.SGD(
            model.parameters(), lr=0.1, momentum=0.9, use_combined_accum=True, velocity_scaling=2.0
        ),
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    )


class UncorrectedAdamW(torch.optim.Optimizer):
    """AdamW without bias correction, written out."""

    def __init__(self, params, lr, weight_decay):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                m = state["m"] = state.get("m", 0) * 0.9 + 0.1 * p.grad
                v = state["v"] = state.get("v", 0) * 0.999 + 0.001 * p.grad**2
                p -= group["lr"] * (m / (v.sqrt() + 1e-8) + group["weight_decay"] * p)


def test_adamw_without_bias_correction():
    compare(
        lambda model: poptorch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1, bias_correction=False),
        lambda model: UncorrectedAdamW(model.parameters(), 0.01, 0.1),
    )


class TensorFlowRMSprop(torch.optim.Optimizer):
    """Mean square from ones, eps inside the root, learning rate in the momentum buffer."""

    def __init__(self, params, lr, momentum):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                square = state["square"] = state.get("square", torch.ones_like(p)) * 0.99 + 0.01 * p.grad**2
                update = group["lr"] * p.grad / (square + 1e-8).sqrt()
                state["buffer"] = state.get("buffer", 0) * group["momentum"] + update
                p -= state["buffer"]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rmsprop_tensorflow_variant(momentum):
    compare(
        lambda model: poptorch.optim.RMSprop(model.parameters(), lr=0.01, momentum=momentum, use_tf_variant=True),
        lambda model: TensorFlowRMSprop(model.parameters(), 0.01, momentum),
    )


class PlainLamb(torch.optim.Optimizer):
    """The formula of the paper."""

    def __init__(self, params, lr, weight_decay, corrected, max_norm):
        super().__init__(params, {"lr": lr})
        self.settings = weight_decay, corrected, max_norm

    @torch.no_grad()
    def step(self, closure=None):
        weight_decay, corrected, max_norm = self.settings
        for group in self.param_groups:
            for p in group["params"]:
                s = self.state[p]
                s["t"] = s.get("t", 0) + 1
                s["m"] = s.get("m", 0) * 0.9 + 0.1 * p.grad
                s["v"] = s.get("v", 0) * 0.999 + 0.001 * p.grad**2
                m = s["m"] / (1 - 0.9 ** s["t"]) if corrected else s["m"]
                v = s["v"] / (1 - 0.999 ** s["t"]) if corrected else s["v"]
                update = m / (v.sqrt() + 1e-8) + weight_decay * p
                p -= group["lr"] * min(float(p.norm()), max_norm) / update.norm() * update


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("max_norm", [65500.0, 0.5])
def test_lamb(corrected, max_norm):
    compare(
        lambda model: poptorch.optim.LAMB(
            model.parameters(), lr=0.01, weight_decay=0.1, bias_correction=corrected, max_weight_norm=max_norm
        ),
        lambda model: PlainLamb(model.parameters(), 0.01, 0.1, corrected, max_norm),
    )


def test_lamb_step_on_the_host_is_the_same_rule():
    model = make()
    reference = copy.deepcopy(model)
    train_eager(model, poptorch.optim.LAMB(model.parameters(), lr=0.01), batches())
    train_eager(reference, PlainLamb(reference.parameters(), 0.01, 0.01, True, 65500.0), batches())
    assert_same_weights(model, reference)


def test_default_optimizer_is_plain_sgd():
    model = make()
    reference = copy.deepcopy(model)
    executor = poptorch.trainingModel(model, quiet())
    for x, target in batches():
        executor(x, target)
    train_eager(reference, torch.optim.SGD(reference.parameters(), lr=0.01), batches())
    assert_same_weights(model, reference)


def test_frozen_and_unlisted_parameters_keep_their_values(capfd):
    model = make()
    model.first.bias.requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    parameters = [model.first.weight, model.first.bias, model.second.weight]
    executor = poptorch.trainingModel(model, quiet(), torch.optim.SGD(parameters, lr=0.1))
    executor(*batches(1)[0])
    assert "second.bias" in capfd.readouterr().err
    after = model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"first.weight", "second.weight"}


def test_optimizer_of_another_model_is_refused():
    executor = poptorch.trainingModel(make(), quiet(), torch.optim.SGD(make().parameters(), lr=0.1))
    with pytest.raises(poptorch.Error, match="none of the parameters of the optimiser belongs to the model"):
        executor(*batches(1)[0])


# -- setOptimizer ---------------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("error")  # schedulers see that steps are made
@pytest.mark.parametrize("library", [torch.optim, poptorch.optim], ids=["torch", "poptorch"])
def test_scheduler_takes_effect_through_set_optimizer(library):
    model = make()
    reference = copy.deepcopy(model)
    optimizer = library.SGD(model.parameters(), lr=0.2, momentum=0.9)
    expected = torch.optim.SGD(reference.parameters(), lr=0.2, momentum=0.9)
    schedulers = [torch.optim.lr_scheduler.StepLR(o, step_size=3, gamma=0.5) for o in (optimizer, expected)]
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    for x, target in batches():
        executor(x, target)
        train_eager(reference, expected, [(x, target)])
        for scheduler in schedulers:
            scheduler.step()
        executor.setOptimizer(optimizer)
    assert_same_weights(model, reference)


def test_changes_wait_for_set_optimizer_and_survive_a_detach():
    model = make()
    reference = copy.deepcopy(model)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    expected = torch.optim.SGD(reference.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    data = batches(3)
    executor(*data[0])
    optimizer.param_groups[0]["lr"] = 0.5
    executor(*data[1])
    train_eager(reference, expected, data[:2])
    executor.detachFromDevice()
    executor.setOptimizer(optimizer)
    executor(*data[2])
    expected.param_groups[0]["lr"] = 0.5
    train_eager(reference, expected, data[2:])
    assert_same_weights(model, reference)


def test_constants_do_not_change():
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    assert optimizer.variable_attrs.isConstant("weight_decay") and not optimizer.variable_attrs.isConstant("momentum")
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(*batches(1)[0])
    optimizer.param_groups[0]["momentum"] = 0.5
    executor.setOptimizer(optimizer)
    optimizer.param_groups[0]["weight_decay"] = 0.5
    with pytest.raises(poptorch.Error, match="weight_decay is constant and changed from 0 to 0.5"):
        executor.setOptimizer(optimizer)


def test_constness_may_be_chosen_before_compilation():
    model = make()
    optimizer = poptorch.optim.AdamW(model.parameters())
    assert optimizer.variable_attrs.isConstant("lr")
    optimizer.variable_attrs.markAsVariable("lr")
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(*batches(1)[0])
    optimizer.param_groups[0]["lr"] = 0.5
    executor.setOptimizer(optimizer)
    with pytest.raises(AssertionError, match="no_such"):
        optimizer.variable_attrs.markAsConstant("no_such")


def test_torch_attributes_are_constant_at_their_defaults():
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(*batches(1)[0])
    optimizer.param_groups[0]["weight_decay"] = 0.1
    with pytest.raises(poptorch.Error, match="weight_decay"):
        executor.setOptimizer(optimizer)


def test_another_kind_of_optimizer_is_refused():
    model = make()
    executor = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    executor(*batches(1)[0])
    with pytest.raises(poptorch.Error, match="kind of optimiser changed from sgd to adamw"):
        executor.setOptimizer(torch.optim.AdamW(model.parameters()))


def test_half_accumulators_ask_for_a_running_mean():
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, accum_type=torch.float16)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    strategy = executor.options.Training.meanAccumulationAndReplicationReductionStrategy
    assert strategy == poptorch.MeanReductionStrategy.Running
    model = make()
    executor = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.1))
    executor(*batches(1)[0])
    with pytest.raises(ValueError, match="Running"):
        executor.setOptimizer(poptorch.optim.SGD(model.parameters(), lr=0.1, accum_type=torch.float16))


def test_late_attributes_are_reported_once(capfd):
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(*batches(1)[0])
    optimizer.param_groups[0]["initial_lr"] = 0.1
    executor.setOptimizer(optimizer)
    executor.setOptimizer(optimizer)
    assert capfd.readouterr().err.count("Ignoring unexpected") == 1


def test_wrong_arguments():
    parameters = [torch.nn.Parameter(torch.zeros(2))]
    with pytest.raises(AssertionError, match="accum_type"):
        poptorch.optim.SGD(parameters, lr=0.1, accum_type=torch.float64)
    with pytest.raises(ValueError, match="amsgrad"):
        poptorch.trainingModel(make(), quiet(), torch.optim.Adam(parameters, amsgrad=True))
    with pytest.raises(AssertionError, match="Adagrad"):
        poptorch.trainingModel(make(), quiet(), torch.optim.Adagrad(parameters))
    with pytest.raises(AssertionError, match="centered"):
        groups = [{"params": parameters, "centered": True}, {"params": [torch.nn.Parameter(torch.zeros(1))]}]
        poptorch.trainingModel(make(), quiet(), torch.optim.RMSprop(groups))


# -- state ----------------------------------------------------------------------------------------------------------
def train_some(model, optimizer, data):
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    for x, target in data:
        executor(x, target)
    return executor


@pytest.mark.parametrize("how", ["state_dict", "pickle"])
@pytest.mark.parametrize("kind,settings", [("SGD", {"momentum": 0.9}), ("AdamW", {}), ("RMSprop", {}), ("LAMB", {})])
def test_training_continues_from_saved_state(kind, settings, how):
    data = batches()
    cls = getattr(poptorch.optim, kind)
    straight = make()
    train_some(straight, cls(straight.parameters(), lr=0.05, **settings), data)

    model = make()
    optimizer = cls(model.parameters(), lr=0.05, **settings)
    assert optimizer.state_dict()["ipu_state"] is None
    executor = train_some(model, optimizer, data[:10])
    weights = copy.deepcopy(model.state_dict())
    saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
    assert saved["ipu_state"] and all(isinstance(v, torch.Tensor) for v in saved["ipu_state"].values())

    if how == "state_dict":
        resumed = make(seed=5)
        resumed.load_state_dict(weights)
        other = cls(resumed.parameters(), lr=0.05, **settings)
        other.load_state_dict(saved)
    else:
        resumed, other = pickle.loads(pickle.dumps((model, optimizer)))
    executor.destroy()
    train_some(resumed, other, data[10:])
    assert_same_weights(resumed, straight, rtol=0, atol=0)


def test_state_names():
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.5, loss_scaling=2.0)
    train_some(model, optimizer, batches(1))
    state = optimizer.state_dict()
    assert "Accl1___first.weight" in state["ipu_state"]
    assert state["ipu_state"]["Accl1___first.weight"].shape == (6, 4)
    parameters = state["ipu_param"]
    assert math.isclose(parameters["scaledLearningRate0___specific___second.bias"], 0.05, rel_tol=1e-6)
    assert math.isclose(parameters["weightDecayScaleFactor0___specific___second.bias"], 0.95, rel_tol=1e-6)
    assert parameters["lossScaling_FLOAT"] == 2.0


def test_state_of_others_is_refused():
    optimizer = poptorch.optim.SGD(make().parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="empty"):
        optimizer.load_state_dict({})
    with pytest.raises(RuntimeError, match="ipu_state"):
        optimizer.load_state_dict(torch.optim.SGD(make().parameters(), lr=0.1).state_dict())


def test_maximize_is_ignored_aloud(capfd):
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, maximize=True)
    poptorch.trainingModel(model, quiet(), optimizer).compile(*batches(1)[0])
    assert "maximize=True is ignored" in capfd.readouterr().err


# -- attributes -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_amsgrad_is_variable_if_it_is_given(kind):
    parameters = [torch.nn.Parameter(torch.zeros(2))]
    optimizer = getattr(poptorch.optim, kind)
    assert not optimizer(parameters, amsgrad=False).variable_attrs.isConstant("amsgrad")
    assert optimizer(parameters).variable_attrs.isConstant("amsgrad")


def test_attributes_of_the_optimizer_and_of_its_groups_are_reported_separately(capfd):
    model = make()
    optimizer = poptorch.optim.SGD(groups_of(model), lr=0.1)
    optimizer.from_the_start = 1
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    executor(*batches(1)[0])
    assert "unexpected" not in capfd.readouterr().err
    optimizer.note = "late"
    for group in optimizer.param_groups:
        group["initial_lr"] = 0.1
    for _ in range(2):
        executor.setOptimizer(optimizer)
    log = capfd.readouterr().err
    assert log.count("unexpected optimizer attribute note") == 1
    assert log.count("unexpected group 0 attribute initial_lr") == 1
    assert log.count("unexpected group 1 attribute initial_lr") == 1
    assert log.count("unexpected") == 3


def test_late_attributes_are_no_warning_if_the_checks_are_relaxed(capfd):
    model = make()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, quiet().relaxOptimizerAttributesChecks(), optimizer)
    executor(*batches(1)[0])
    optimizer.note = "late"
    executor.setOptimizer(optimizer)
    assert "unexpected" not in capfd.readouterr().err


def test_code_of_a_subclass_does_not_run_which_is_said_once(capfd):
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("not reached")

    model = make()
    reference = copy.deepcopy(model)
    optimizer = Own(model.parameters(), lr=0.1)
    executor = train_some(model, optimizer, batches(2))
    executor.setOptimizer(optimizer)
    log = capfd.readouterr().err
    assert log.count("does not run Python optimizer code directly") == 1 and "Own" in log
    train_eager(reference, torch.optim.SGD(reference.parameters(), lr=0.1), batches(2))
    assert_same_weights(model, reference)


def test_adamw_without_bias_correction_does_not_correct_on_the_host():
    model = make()
    reference = copy.deepcopy(model)
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1, bias_correction=False)
    train_eager(model, optimizer, batches())
    train_eager(reference, UncorrectedAdamW(reference.parameters(), 0.01, 0.1), batches())
    assert_same_weights(model, reference)


@pytest.mark.parametrize("attribute,value,text", [
    ("lr", "fast", "Optimiser attribute lr must be a number, not 'fast'"),
    ("betas", 0.9, "betas must be two numbers, not 0.9"),
    ("betas", (0.9, "x"), "Optimiser attribute betas must be a number, not 'x'"),
])
def test_attributes_must_be_numbers(attribute, value, text):
    model = make()
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.param_groups[0][attribute] = value
    with pytest.raises(AssertionError, match=text):
        poptorch.trainingModel(model, quiet(), optimizer)


def test_shallow_copy_of_an_optimizer_keeps_its_state():
    model = make()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    executor = train_some(model, optimizer, batches(1))
    other = copy.copy(optimizer)
    executor(*batches(1)[0])
    assert other.state_dict()["ipu_state"]["Step___first.bias"] == 1
    assert optimizer.state_dict()["ipu_state"]["Step___first.bias"] == 2
