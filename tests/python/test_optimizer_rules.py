"""Optimisers: their arguments, what of them may change, groups of parameters, the lives of their state."""

import copy
import inspect
import math
import pickle

import poptorch
import pytest
import torch

from support.models import quiet


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(4, 6), torch.nn.Linear(6, 2)

    def forward(self, x, target):
        y = self.second(torch.tanh(self.first(x)))
        return y, torch.nn.functional.mse_loss(y, target)


X = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
TARGET = torch.randn(8, 2, generator=torch.Generator().manual_seed(2))
optim = poptorch.optim


def trainer_of(model, optimizer, options=None):
    return poptorch.trainingModel(model, options or quiet(), optimizer)


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(mine, theirs):
    return all(torch.equal(mine[name], value) for name, value in theirs.items())


def one_parameter():
    return [torch.nn.Parameter(torch.zeros(2))]


# -- constructors -----------------------------------------------------------------------------------------------------
ARGUMENTS = {
    "SGD": "params lr momentum dampening weight_decay nesterov maximize foreach differentiable loss_scaling "
           "velocity_scaling use_combined_accum accum_type velocity_accum_type max_grad_norm",
    "Adam": "params lr betas eps weight_decay amsgrad foreach maximize capturable differentiable fused loss_scaling "
            "accum_type first_order_momentum_accum_type second_order_momentum_accum_type max_grad_norm",
    "AdamW": "params lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused loss_scaling "
             "bias_correction accum_type first_order_momentum_accum_type second_order_momentum_accum_type max_grad_norm",
    "RMSprop": "params lr alpha eps weight_decay momentum centered foreach maximize differentiable loss_scaling accum_type "
               "first_order_momentum_accum_type second_order_momentum_accum_type use_tf_variant",
    "LAMB": "params lr betas eps weight_decay bias_correction loss_scaling max_weight_norm accum_type "
            "first_order_momentum_accum_type second_order_momentum_accum_type",
}
DEFAULTS = {
    "SGD": {"momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False},
    "Adam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False},
    "AdamW": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2, "amsgrad": False},
    "RMSprop": {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0, "centered": False},
    "LAMB": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2, "max_weight_norm": 65500.0},
}
REQUIRED = {"SGD": {"lr": 0.1}}
TYPES = {
    "SGD": ["accum_type", "velocity_accum_type"],
    "Adam": ["accum_type", "first_order_momentum_accum_type", "second_order_momentum_accum_type"],
    "AdamW": ["accum_type", "first_order_momentum_accum_type", "second_order_momentum_accum_type"],
    "RMSprop": ["accum_type", "first_order_momentum_accum_type", "second_order_momentum_accum_type"],
    "LAMB": ["accum_type", "first_order_momentum_accum_type", "second_order_momentum_accum_type"],
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_arguments_stand_in_their_order(kind):
    names = list(inspect.signature(getattr(optim, kind)).parameters)
    assert names == ARGUMENTS[kind].split()


@pytest.mark.parametrize("kind", DEFAULTS)
def test_what_is_not_given_has_its_default_and_is_constant(kind):
    made = getattr(optim, kind)(one_parameter(), **REQUIRED.get(kind, {}))
    for name, value in DEFAULTS[kind].items():
        assert made.param_groups[0][name] == value, name
        assert made.variable_attrs.isConstant(name), name
    assert made.loss_scaling == 1.0 and made.variable_attrs.isConstant("loss_scaling")


@pytest.mark.parametrize("kind", DEFAULTS)
def test_what_is_given_is_variable(kind):
    given = {name: value for name, value in DEFAULTS[kind].items() if name not in ("amsgrad", "centered", "nesterov")}
    made = getattr(optim, kind)(one_parameter(), loss_scaling=2.0, **{**given, **REQUIRED.get(kind, {})})
    for name in (*given, "loss_scaling"):
        assert not made.variable_attrs.isConstant(name), name


@pytest.mark.parametrize("kind, argument", [(kind, name) for kind, names in TYPES.items() for name in names])
def test_types_of_state_are_half_or_float(kind, argument):
    for dtype in (torch.float16, torch.float32):
        made = getattr(optim, kind)(one_parameter(), **REQUIRED.get(kind, {}), **{argument: dtype})
        assert getattr(made, argument) == dtype
    for wrong in (torch.float64, torch.bfloat16, "half"):
        with pytest.raises(AssertionError, match=argument):
            getattr(optim, kind)(one_parameter(), **REQUIRED.get(kind, {}), **{argument: wrong})


def test_velocity_scaling_is_ignored_aloud_without_a_combined_accumulator(capfd):
    made = optim.SGD(one_parameter(), lr=0.1, velocity_scaling=2.0)
    assert "velocity_scaling" in capfd.readouterr().err
    assert "velocity_scaling" not in made.param_groups[0]
    made = optim.SGD(one_parameter(), lr=0.1, velocity_scaling=2.0, use_combined_accum=True)
    assert capfd.readouterr().err == "" and made.param_groups[0]["velocity_scaling"] == 2.0


def test_a_combined_accumulator_ignores_the_types_of_the_others():
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, use_combined_accum=True, accum_type=torch.float16)
    executor = trainer_of(model, optimizer)
    strategy = executor.options.Training.meanAccumulationAndReplicationReductionStrategy
    assert strategy == poptorch.MeanReductionStrategy.Post  # half would have asked for Running
    executor(X, TARGET)
    assert all(value.dtype == torch.float32 for name, value in optimizer.state_dict()["ipu_state"].items()
               if name.startswith("Acc"))


@pytest.mark.parametrize("kind, extra", [("SGD", {"foreach": True}), ("Adam", {"capturable": False, "fused": False}),
                                         ("AdamW", {"differentiable": False}), ("RMSprop", {"foreach": False})])
def test_newer_arguments_of_torch_are_accepted(kind, extra):
    results = []
    for settings in ({}, extra):
        model = Net()
        trainer_of(model, getattr(optim, kind)(model.parameters(), lr=0.1, **settings))(X, TARGET)
        results.append(weights(model))
    assert same(*results)


# -- rules ------------------------------------------------------------------------------------------------------------
def test_lamb_takes_the_plain_step_where_a_norm_is_zero():
    class Zeros(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return poptorch.identity_loss((self.w * x).sum(), "sum")

    model = Zeros()
    trainer_of(model, optim.LAMB([model.w], lr=0.25, weight_decay=0.0))(torch.tensor([1.0, -2.0, 3.0]))
    torch.testing.assert_close(model.w.detach(), torch.tensor([-0.25, 0.25, -0.25]), rtol=1e-4, atol=1e-5)


def test_no_greatest_norm_means_the_default_one():
    results = []
    for norm in ({}, {"max_weight_norm": None}, {"max_weight_norm": 0.1}):
        model = Net()
        trainer_of(model, optim.LAMB(model.parameters(), lr=0.1, **norm))(X, TARGET)
        results.append(weights(model))
    assert same(results[0], results[1]) and not same(results[0], results[2])


def test_an_infinite_greatest_gradient_clips_nothing():
    results = []
    for norm in ({}, {"max_grad_norm": math.inf}, {"max_grad_norm": 1e-3}):
        model = Net()
        trainer_of(model, optim.SGD(model.parameters(), lr=0.1, **norm))(X, TARGET)
        results.append(weights(model))
    assert same(results[0], results[1]) and not same(results[0], results[2])


GROUPED = {
    "SGD": [{"momentum": 0.5, "dampening": 0.1, "weight_decay": 0.2, "lr": 0.05}, {"momentum": 0.9, "nesterov": True}],
    "Adam": [{"betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.1}, {"lr": 0.02}],
    "AdamW": [{"betas": (0.7, 0.95), "eps": 1e-4, "weight_decay": 0.3}, {"lr": 0.02, "weight_decay": 0.0}],
    "RMSprop": [{"alpha": 0.8, "eps": 1e-3, "momentum": 0.3, "weight_decay": 0.1}, {"lr": 0.02}],
}


@pytest.mark.parametrize("kind", GROUPED)
def test_groups_have_settings_of_their_own(kind):
    def groups(model):
        own = GROUPED[kind]
        return [{"params": model.first.parameters(), **own[0]}, {"params": model.second.parameters(), **own[1]}]

    model, plain = Net(), Net()
    executor = trainer_of(model, getattr(optim, kind)(groups(model), lr=0.1))
    optimizer = getattr(torch.optim, kind)(groups(plain), lr=0.1)
    for _ in range(4):
        executor(X, TARGET)
        optimizer.zero_grad()
        plain(X, TARGET)[1].backward()
        optimizer.step()
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=2e-5, atol=2e-6, msg=name)


def test_groups_of_lamb_have_settings_of_their_own():
    def learnt(first, second):
        model = Net()
        groups = [{"params": model.first.parameters(), **first}, {"params": model.second.parameters(), **second}]
        executor = trainer_of(model, optim.LAMB(groups, lr=0.1))
        for _ in range(3):
            executor(X, TARGET)
        return weights(model)

    own = {"lr": 0.02, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.5, "max_weight_norm": 0.1}
    everywhere, first_alone, nowhere = learnt(own, own), learnt(own, {}), learnt({}, {})
    assert not torch.equal(first_alone["first.weight"], nowhere["first.weight"])
    assert not torch.equal(first_alone["second.weight"], everywhere["second.weight"])


def test_the_number_of_groups_is_fixed_when_the_model_is_compiled():
    model = Net()
    executor = trainer_of(model, optim.SGD(model.parameters(), lr=0.1))
    executor(X, TARGET)
    groups = [{"params": model.first.parameters()}, {"params": model.second.parameters()}]
    with pytest.raises(poptorch.Error, match="group"):
        executor.setOptimizer(optim.SGD(groups, lr=0.1))


def test_amsgrad_is_refused():
    model = Net()
    for library in (torch.optim, optim):
        with pytest.raises(ValueError, match="amsgrad"):
            trainer_of(model, library.Adam(model.parameters(), amsgrad=True))


# -- what may change --------------------------------------------------------------------------------------------------
def test_an_optimiser_is_replaced_before_the_model_is_compiled():
    model, plain = Net(), Net()
    executor = trainer_of(model, optim.SGD(model.parameters(), lr=0.1))
    executor.setOptimizer(optim.AdamW(model.parameters(), lr=0.05))  # of another kind, too
    executor(X, TARGET)
    trainer_of(plain, optim.AdamW(plain.parameters(), lr=0.05))(X, TARGET)
    assert same(weights(model), weights(plain))


def test_a_new_optimiser_without_state_goes_on_with_that_of_the_device():
    model, plain = Net(), Net()
    old = optim.Adam(model.parameters(), lr=0.1)
    executor, other = trainer_of(model, old), trainer_of(plain, optim.Adam(plain.parameters(), lr=0.1))
    for each in (executor, other):
        each(X, TARGET)
    new = optim.Adam(model.parameters(), lr=0.1)
    executor.setOptimizer(new)
    kept = old.state_dict()["ipu_state"]
    assert kept["Step___first.bias"] == 1  # was read into the old one, which follows no longer
    for each in (executor, other):
        each(X, TARGET)
    assert same(weights(model), weights(plain))
    assert old.state_dict()["ipu_state"]["Step___first.bias"] == 1
    assert new.state_dict()["ipu_state"]["Step___first.bias"] == 2


def test_a_new_optimiser_with_loaded_state_brings_it():
    model = Net()
    first = optim.Adam(model.parameters(), lr=0.1)
    executor = trainer_of(model, first)
    executor(X, TARGET)
    saved = copy.deepcopy(first.state_dict())
    for _ in range(3):
        executor(X, TARGET)
    second = optim.Adam(model.parameters(), lr=0.1)
    second.load_state_dict(saved)
    executor.setOptimizer(second)
    executor(X, TARGET)
    assert second.state_dict()["ipu_state"]["Step___first.bias"] == 2


def test_an_optimiser_of_torch_may_take_over():
    model, plain = Net(), Net()
    executor, other = (trainer_of(m, torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)) for m in (model, plain))
    executor(X, TARGET)
    other(X, TARGET)
    executor.setOptimizer(torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9))
    before = weights(model)
    executor(X, TARGET)
    assert same(weights(model), before)  # a learning rate of 0


@pytest.mark.parametrize("kind, attribute, value, is_constant", [
    ("SGD", "lr", 0.2, False), ("SGD", "momentum", 0.5, True), ("SGD", "weight_decay", 0.5, True),
    ("SGD", "dampening", 0.5, True), ("SGD", "nesterov", True, True), ("Adam", "lr", 0.2, False),
    ("Adam", "betas", (0.5, 0.9), True), ("Adam", "eps", 1e-3, True), ("AdamW", "weight_decay", 0.5, True),
    ("RMSprop", "alpha", 0.5, True), ("RMSprop", "momentum", 0.5, True), ("RMSprop", "lr", 0.2, False),
])
def test_attributes_of_torch_optimisers_at_their_defaults_are_constant_but_for_the_rate(kind, attribute, value,
                                                                                          is_constant):
    model = Net()
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1)
    executor = trainer_of(model, optimizer)
    executor(X, TARGET)
    optimizer.param_groups[0][attribute] = value
    if is_constant:
        with pytest.raises(poptorch.Error, match=attribute):
            executor.setOptimizer(optimizer)
    else:
        executor.setOptimizer(optimizer)


def test_attributes_of_torch_optimisers_away_from_their_defaults_are_variable():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5, weight_decay=0.1)
    executor = trainer_of(model, optimizer)
    executor(X, TARGET)
    optimizer.param_groups[0].update(momentum=0.9, weight_decay=0.0, lr=0.01)
    executor.setOptimizer(optimizer)
    executor(X, TARGET)


def test_variable_attributes_can_be_marked_and_have_names():
    made = optim.Adam(one_parameter(), lr=0.1)
    attributes = made.variable_attrs
    attributes.markAsConstant("lr")
    attributes.markAsVariable("eps")
    assert attributes.isConstant("lr") and not attributes.isConstant("eps")
    for name in (*made.defaults, "loss_scaling"):
        attributes.markAsVariable(name)
    for call in (attributes.isConstant, attributes.markAsConstant, attributes.markAsVariable):
        with pytest.raises(AssertionError, match="learning_rate"):
            call("learning_rate")


def test_global_attributes_change_through_the_object():
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1, loss_scaling=8.0)
    executor = trainer_of(model, optimizer)
    executor(X, TARGET)
    optimizer.loss_scaling = 2.0
    executor.setOptimizer(optimizer)
    executor(X, TARGET)
    assert optimizer.state_dict()["ipu_param"]["lossScaling_FLOAT"] == 2.0
    other = Net()
    constant = optim.SGD(other.parameters(), lr=0.1)
    executor = trainer_of(other, constant)
    executor(X, TARGET)
    constant.loss_scaling = 2.0
    with pytest.raises(poptorch.Error, match="loss_scaling"):
        executor.setOptimizer(constant)


def test_relaxed_checks_log_unexpected_attributes_at_debug(capfd):
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    executor = trainer_of(model, optimizer, quiet().relaxOptimizerAttributesChecks())
    executor(X, TARGET)
    optimizer.param_groups[0]["initial_lr"] = 0.1
    poptorch.setLogLevel("DEBUG")
    try:
        executor.setOptimizer(optimizer)
    finally:
        poptorch.setLogLevel("WARN")
    lines = [line for line in capfd.readouterr().err.splitlines() if "unexpected group 0 attribute initial_lr" in line]
    assert len(lines) == 1 and "[debug]" in lines[0].lower()


@pytest.mark.parametrize("strategy", [None, poptorch.MeanReductionStrategy.Post])
def test_half_accumulators_take_a_running_mean_even_over_an_explicit_choice(strategy):
    options = quiet()
    if strategy is not None:
        options.Training.setMeanAccumulationAndReplicationReductionStrategy(strategy)
    model = Net()
    executor = trainer_of(model, optim.AdamW(model.parameters(), lr=0.1, accum_type=torch.float16), options)
    chosen = executor.options.Training.meanAccumulationAndReplicationReductionStrategy
    assert chosen == poptorch.MeanReductionStrategy.Running
    assert options.Training.meanAccumulationAndReplicationReductionStrategy == poptorch.MeanReductionStrategy.Post


def test_a_running_mean_never_exceeds_what_it_is_the_mean_of():
    """Four gradients of 40000 add up beyond what half holds; their mean does not."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return poptorch.identity_loss((self.w * x).sum(), "sum")

    options = quiet()
    options.Training.gradientAccumulation(4)
    model = Net()
    trainer_of(model, optim.SGD([model.w], lr=1e-4, accum_type=torch.float16), options)(torch.full((4, 1), 40000.0))
    torch.testing.assert_close(model.w.detach(), torch.tensor([-4.0]))


# -- state ------------------------------------------------------------------------------------------------------------
def test_there_is_no_state_before_compilation_or_without_a_device():
    model = Net()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    assert optimizer.state_dict()["ipu_state"] is None and optimizer.state_dict()["ipu_param"] is None
    trainer_of(model, optimizer, quiet().useOfflineIpuTarget()).compile(X, TARGET)
    assert optimizer.state_dict()["ipu_state"] is None and optimizer.state_dict()["ipu_param"] is None
    assert {"state", "param_groups"} <= optimizer.state_dict().keys()


def test_state_of_torch_optimisers_is_not_that_of_the_device():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    trainer_of(model, optimizer)(X, TARGET)
    assert optimizer.state_dict()["state"] == {} and "ipu_state" not in optimizer.state_dict()


@pytest.mark.parametrize("release", [lambda e: e.detachFromDevice(), lambda e: e.destroy()], ids=["detach", "destroy"])
def test_state_comes_to_the_host_when_the_device_is_released(release):
    model = Net()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    executor = trainer_of(model, optimizer)
    executor(X, TARGET)
    before = optimizer.state_dict()["ipu_state"]
    executor(X, TARGET)
    release(executor)
    state = optimizer.state_dict()["ipu_state"]
    assert state["Step___first.bias"] == 2 and not torch.equal(state["Accl1___first.bias"], before["Accl1___first.bias"])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))],
                         ids=["copy", "deepcopy", "pickle"])
def test_copies_keep_attributes_constness_and_state(copied):
    model = Net()
    optimizer = optim.AdamW(model.parameters(), lr=0.1, loss_scaling=4.0, accum_type=torch.float16, bias_correction=False)
    optimizer.variable_attrs.markAsVariable("eps")
    trainer_of(model, optimizer)(X, TARGET)
    names = (*optimizer.defaults, "loss_scaling")  # torch's own copying adds some
    other = copied(optimizer)
    assert other.loss_scaling == 4.0 and other.accum_type == torch.float16 and other.bias_correction is False
    for name in names:
        assert other.variable_attrs.isConstant(name) == optimizer.variable_attrs.isConstant(name), name
    mine, theirs = other.state_dict(), optimizer.state_dict()
    for kind in ("ipu_state", "ipu_param"):
        assert mine[kind].keys() == theirs[kind].keys()
        assert all(torch.equal(value, mine[kind][name]) for name, value in theirs[kind].items())


def test_unseeded_executors_draw_different_numbers():
    class Draws(torch.nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    first, second = (poptorch.inferenceModel(Draws(), quiet())(torch.zeros(8)) for _ in range(2))
    assert not torch.equal(first, second)
