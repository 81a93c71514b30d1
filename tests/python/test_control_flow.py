"""Loops and branches as parts of a captured model: for_loop, cond, recurrent layers and CTC."""
import copy

import poptorch
import pytest
import torch

from support.training import Function, options, train_beside_eager


def batch(step, shape=(5, 4)):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(step))


def batches(step):
    return (batch(step),)


def train(function, make_options=options, arguments=batches, **settings):
    return train_beside_eager(Function(function), arguments, make_options=make_options, steps=6, **settings)


def run(function, *inputs, make_options=options):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()
    return poptorch.inferenceModel(model, make_options())(*inputs)


def graph_of(model, tmp_path, monkeypatch, *inputs):
    """The text of the graph as it is captured."""
    monkeypatch.setenv("ASPEN_DUMP", str(tmp_path))
    model(*inputs)
    (first,) = sorted(tmp_path.rglob("*.00.begin.ir"))
    return first.read_text()


# -- loops ------------------------------------------------------------------------------------------------------------
def looped(count, body):
    return lambda self, x: poptorch.for_loop(count, lambda *values: body(self, *values), [self.first(x)])[0].square().mean()


LOOPS = {
    "weights": lambda self, y: torch.tanh(self.second(y)),
    "a weight used twice": lambda self, y: torch.tanh(self.second(y) + self.second(y * 0.5)),
    "elementwise weight": lambda self, y: torch.sigmoid(y * self.scale),
    "in place": lambda self, y: torch.sin(y).add_(self.scale),
    "detached": lambda self, y: torch.tanh(self.second(y.detach()) + y),
    "without gradient": lambda self, y: torch.tanh(self.second(y)) + no_gradient(self, y),
    "outer values": lambda self, y: torch.tanh(y + (self.scale * self.scale).exp()),
    "views": lambda self, y: torch.cat([y[:, 2:], y[:, :2].tanh()], 1) * self.scale,
    "a loop": lambda self, y: poptorch.for_loop(3, lambda z: torch.tanh(self.second(z)) * 0.9, [y])[0] + y * 0.1,
    "a branch": lambda self, y: poptorch.cond(
        y.sum() > 0, lambda z: torch.tanh(self.second(z)), [y], lambda z: z * self.scale, [y])[0],
    "softmax": lambda self, y: self.second(torch.softmax(y, -1) * 2),
    "a constant": lambda self, y: torch.tanh(y + torch.tensor([0.5, 0.0, -0.5, 1.0]) * self.scale),
    "nothing": lambda self, y: y,
}


def no_gradient(self, y):
    with torch.no_grad():
        return self.second(y) * 0.1


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("count", [1, 3, 7])
def test_loops_train_as_in_eager(name, count):
    # A parameter of the body that is not chosen has a gradient of zeros here and none in eager.
    train(looped(count, LOOPS[name]), weight_decay=0 if name == "a branch" else 0.01)


def test_several_values_are_carried():
    def forward(self, x):
        y = self.first(x)
        a, b, n = poptorch.for_loop(
            4, lambda a, b, n: (torch.tanh(b * self.scale), a + b, n + 1), [y, y * 0.5, torch.tensor([0])])
        return (a * b * n).mean()

    train(forward)


def test_values_may_change_places():
    a, b = run(lambda x, y: poptorch.for_loop(5, lambda a, b: (b, a), [x, y]), batch(0), batch(1))
    assert torch.equal(a, batch(1)) and torch.equal(b, batch(0))


def test_a_carried_value_that_no_gradient_reaches_has_none():
    def forward(self, x):
        y, _ = poptorch.for_loop(4, lambda y, z: (torch.tanh(self.second(y)), z * self.scale), [self.first(x), x])
        return y.mean()

    train(forward)


def test_a_loop_is_recorded_once(tmp_path, monkeypatch):
    calls = []

    def body(y):
        calls.append(1)
        return torch.tanh(y)

    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: poptorch.for_loop(50, body, [x])[0]})()
    text = graph_of(poptorch.inferenceModel(model, options()), tmp_path, monkeypatch, batch(0))
    assert len(calls) == 1
    assert text.count(" loop(") == 1 and text.count("= tanh(") == 1 and "count=50" in text


def test_draws_of_a_loop_differ_from_turn_to_turn():
    def forward(x):
        return poptorch.for_loop(
            8, lambda y, n: (torch.where(torch.arange(8).reshape(8, 1) == n, torch.rand(8, 100), y), n + 1),
            [x, torch.tensor([0])])[0]

    rows = run(forward, torch.zeros(8, 100))
    assert len({tuple(row.tolist()) for row in rows}) == 8
    assert 0.4 < rows.mean() < 0.6


def test_dropout_in_a_loop_is_the_same_in_the_backward_pass():
    """y = m_1 ... m_n w with masks m_i: where y is 0 so is the gradient of w, elsewhere it is y / w."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(1000))

        def forward(self, x):
            y = poptorch.for_loop(3, lambda y: torch.nn.functional.dropout(y, 0.2, True), [self.w * x])[0]
            return y, poptorch.identity_loss(y, "sum")

    model = Model()
    trainer = poptorch.trainingModel(model, options(), poptorch.optim.SGD(model.parameters(), lr=1.0))
    y, _ = trainer(torch.ones(1000))
    assert 0.45 < (y != 0).float().mean() < 0.57
    torch.testing.assert_close(model.w.detach(), 1 - y)


def test_what_a_loop_writes_outside_is_written_in_every_turn():
    def forward(self, x):
        def body(y):
            self.memory.add_(y.detach().mean(0))
            return torch.tanh(self.second(y) + self.memory)

        return poptorch.for_loop(4, body, [self.first(x)])[0].square().mean()

    train(forward)


class Doubled(torch.autograd.Function):
    """The gradient is twice what it should be."""

    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def with_own_gradient(self, y, kind):
    y = torch.tanh(self.second(y))
    if kind == "function":
        return Doubled.apply(y)
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient * 2)
    return y


@pytest.mark.parametrize("kind", ["function", "hook"])
def test_gradients_of_the_users_own_in_a_loop(kind):
    train(looped(4, lambda self, y: with_own_gradient(self, y, kind)))


def test_a_tensor_of_the_body_cannot_be_used_outside():
    def forward(x):
        kept = []
        y = poptorch.for_loop(4, lambda y: (kept.append(y.exp()), y.tanh())[1], [x])[0]
        return y + kept[0]

    with pytest.raises(poptorch.Error, match="made in the body of a loop or in a branch is used outside of it"):
        run(forward, batch(0))


def test_an_error_in_a_turn_names_the_line():
    with pytest.raises(poptorch.Error, match=r"out of range[\s\S]*test_control_flow.py"):
        run(lambda x, i: poptorch.for_loop(5, lambda y, i: (torch.index_select(y, 0, i), i), [x, i])[0],
            batch(0, (3, 4)), torch.tensor([0, 1, 7]))


@pytest.mark.parametrize("mode", ["pipelined", "sharded", "phased", "recomputed", "replicated"])
def test_loops_and_branches_on_many_devices(mode):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.a, self.b, self.c = (torch.nn.Linear(4, 4) for _ in range(3))

        def forward(self, x, target):
            with poptorch.Block("first", ipu_id=0):
                x = poptorch.for_loop(4, lambda y: torch.nn.functional.dropout(torch.tanh(self.a(y)), 0.2), [x])[0]
            with poptorch.Block("second", ipu_id=1):
                x = poptorch.cond(x.sum() > 0, lambda y: self.b(y), [x], lambda y: torch.sin(self.b(y)), [x])[0]
                x = poptorch.for_loop(3, lambda y: torch.sigmoid(self.c(y)), [x])[0]
                return poptorch.identity_loss((x - target).square(), "mean")

    def losses(mode):
        settings = options().randomSeed(7)
        settings.Training.gradientAccumulation(4)
        inputs = [batch(i, (8, 4)) for i in range(2)]
        if mode == "sharded":
            settings.setExecutionStrategy(poptorch.ShardedExecution())
        elif mode == "phased":
            settings.setExecutionStrategy(poptorch.SerialPhasedExecution("first", "second"))
        elif mode == "recomputed":
            settings.setExecutionStrategy(poptorch.ShardedExecution())
            settings._Popart.set("autoRecomputation", 3)
        elif mode == "replicated":
            settings.setExecutionStrategy(poptorch.ShardedExecution()).replicationFactor(2)
            settings.Training.gradientAccumulation(2)
        model = Model()
        trainer = poptorch.trainingModel(model, settings, poptorch.optim.SGD(model.parameters(), lr=0.1))
        return [trainer(*inputs) for _ in range(4)], model.state_dict()

    wanted, weights = losses("sharded")
    got, own = losses(mode)
    if mode == "replicated":  # replicas draw different numbers
        assert all(torch.isfinite(loss).all() for loss in got)
        return
    assert all(torch.equal(a, b) for a, b in zip(got, wanted))
    assert all(torch.equal(own[name], weights[name]) for name in weights)


# -- branches ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("flag", [True, False])
def test_only_the_chosen_body_writes_buffers(flag):
    def forward(self, x, flag):
        def moved(y):
            self.memory.add_(y.detach().mean(0))
            return self.second(y)

        def other(y):
            self.memory.mul_(0.5)
            return y * self.scale

        return poptorch.cond(flag, moved, [self.first(x)], other, [self.first(x)])[0].square().mean()

    train(forward, arguments=lambda step: (batch(step), torch.tensor([flag ^ (step == 3)])), weight_decay=0)


@pytest.mark.parametrize("flag", [True, False])
def test_only_the_chosen_body_prints(flag, capfd):
    def forward(x, flag):
        return poptorch.cond(flag, lambda y: poptorch.ipu_print_tensor(y, "then"), [x],
                             lambda y: poptorch.ipu_print_tensor(y, "else"), [x])[0] * 1

    run(forward, batch(0), torch.tensor([flag]))
    printed = capfd.readouterr().err
    assert ("then" in printed) == flag and ("else" in printed) == (not flag)


def test_only_the_chosen_body_fails():
    def forward(x, flag, i):
        return poptorch.cond(flag, lambda y: torch.index_select(y, 0, i), [x], lambda y: y[:1] * 2, [x])[0]

    x, index = batch(0, (3, 4)), torch.tensor([9])
    torch.testing.assert_close(run(forward, x, torch.tensor([False]), index), x[:1] * 2)
    with pytest.raises(poptorch.Error, match="out of range"):
        run(forward, x, torch.tensor([True]), index)


def test_an_infinite_derivative_of_the_other_body_is_not_met():
    def forward(self, x, flag):
        y = self.first(x)
        return poptorch.cond(flag, lambda: self.second(y), [], lambda: (y * 0).sqrt(), [])[0].square().mean()

    train(forward, arguments=lambda step: (batch(step), torch.tensor([True])), weight_decay=0)


@pytest.mark.parametrize("kind", ["function", "hook"])
def test_gradients_of_the_users_own_in_a_branch(kind):
    def forward(self, x, flag):
        y = self.first(x)
        return poptorch.cond(
            flag, lambda z: with_own_gradient(self, z, kind), [y], lambda z: z * self.scale, [y])[0].square().mean()

    train(forward, arguments=lambda step: (batch(step), torch.tensor([step % 2 == 0])), weight_decay=0)


def test_a_body_that_cannot_be_kept_apart_writes_nowhere():
    def forward(self, x):
        def body(y):
            self.memory.add_(1)
            return Doubled.apply(self.second(y))

        return poptorch.cond(x.sum() > 0, body, [self.first(x)], lambda y: y, [self.first(x)])[0].mean()

    model = Function(forward)
    trainer = poptorch.trainingModel(model, options(), poptorch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(poptorch.Error, match="a backward pass of its own. Return what the tensor is to hold"):
        trainer(batch(0))


# -- recurrent layers and CTC -----------------------------------------------------------------------------------------
class Recurrent(torch.nn.Module):
    def __init__(self, kind, **settings):
        super().__init__()
        torch.manual_seed(2)
        self.layer = getattr(torch.nn, kind)(6, 5, **settings)
        self.out = torch.nn.Linear(5 * (2 if settings.get("bidirectional") else 1), 3)

    def forward(self, x):
        sequence, last = self.layer(x)
        last = last if isinstance(last, torch.Tensor) else last[0] + last[1]
        return poptorch.identity_loss(self.out(sequence).square().mean() + last.mean(), "none")


@pytest.mark.parametrize("kind, settings", [
    ("RNN", {}), ("RNN", {"nonlinearity": "relu", "bias": False}), ("LSTM", {}), ("LSTM", {"bias": False}),
    ("LSTM", {"num_layers": 2, "bidirectional": True}),
    ("GRU", {}), ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True})])
@pytest.mark.parametrize("steps", [1, 2, 9])
def test_recurrent_layers_train_as_in_eager(kind, settings, steps):
    train_beside_eager(Recurrent(kind, **settings), lambda step: (batch(step, (steps, 4, 6)),), steps=6)


def trained(module, batches, step=None, lr=0.1):
    """Losses of 20 steps in eager, or those of `step`, and all weights after them, in double precision."""
    optimizer = torch.optim.SGD(module.parameters(), lr=lr)

    def eager(*arguments):
        optimizer.zero_grad()
        loss = module(*arguments)
        loss.backward()
        optimizer.step()
        return loss

    losses = [(step or eager)(*arguments).detach().double() for arguments in batches]
    weights = torch.cat([weight.detach().double().flatten() for weight in module.state_dict().values()])
    return torch.stack(losses), weights


def as_double(batches):
    return [[a.double() if a.is_floating_point() else a for a in arguments] for arguments in batches]


def judged_by_double(model, batches, lr):
    """Errors of losses and weights against eager in float64, ours and those of eager in float32."""
    plain, judge = copy.deepcopy(model), copy.deepcopy(model).double()
    trainer = poptorch.trainingModel(model, options(), poptorch.optim.SGD(model.parameters(), lr=lr))
    ours, theirs = trained(model, batches, trainer, lr), trained(plain, batches, lr=lr)
    exact = trained(judge, as_double(batches), lr=lr)
    return [[(got - wanted).abs().max() for got, wanted in zip(results, exact)] for results in (ours, theirs)]


def test_an_lstm_of_1600_steps():
    """Losses of 20 steps and the weights after them are as close to float64 as those of eager are."""
    errors = judged_by_double(Recurrent("LSTM"), [(batch(step, (1600, 2, 6)),) for step in range(20)], lr=0.1)
    assert max(errors[0]) < max(1e-6, 2 * max(errors[1])), errors


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_dropout_between_two_bidirectional_layers(kind):
    """With masks of ones the losses are those of eager; with dropout the mean of many is."""
    model = Recurrent(kind, num_layers=2, bidirectional=True, dropout=0.3)
    plain = copy.deepcopy(model)
    trainer = poptorch.trainingModel(model, options(), poptorch.optim.SGD(model.parameters(), lr=0.0))
    x = batch(0, (64, 4, 6))
    ours = torch.stack([trainer(x) for _ in range(60)])
    theirs = torch.stack([plain(x) for _ in range(60)]).detach()
    assert ours.std() > 0
    error = (ours.var() / 60 + theirs.var() / 60).sqrt()
    assert (ours.mean() - theirs.mean()).abs() < 4 * error


class Ctc(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.out = torch.nn.Linear(6, 9)

    def forward(self, x, targets, lengths, target_lengths):
        return torch.nn.functional.ctc_loss(
            self.out(x).log_softmax(-1), targets, lengths, target_lengths, zero_infinity=True)


def test_ctc_of_1000_steps():
    """Losses of 20 steps are closer to float64 than those of eager are."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 3, 6, generator=generator)
    targets = torch.randint(1, 9, (3, 20), generator=generator)
    lengths = torch.tensor([1000, 700, 400]), torch.tensor([20, 15, 1])
    errors = judged_by_double(Ctc(), 20 * [(x, targets, *lengths)], lr=0.01)
    assert errors[0][0] <= errors[1][0] and errors[0][1] <= errors[1][1], errors
