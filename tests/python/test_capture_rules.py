"""What forward may do while it is captured, and what counts as the loss."""

import copy

import poptorch
import pytest
import torch
from torch import nn

from support.models import FunctionModel, quiet

X = torch.linspace(-1, 1, 12).reshape(4, 3)


def infer(function, *inputs, **buffers):
    model = FunctionModel(function)
    for name, value in buffers.items():
        model.register_buffer(name, value)
    return poptorch.inferenceModel(model, quiet())(*(inputs or (X,)))


# -- tensors of the model ---------------------------------------------------------------------------------------------
def test_captured_tensors_are_on_the_ipu():
    seen = []
    infer(lambda self, x: (seen.append((x.device.type, (x + 1).device.type)), x * 1)[1])
    assert seen == [("ipu", "ipu")]


@pytest.mark.parametrize("function", [lambda x: x + 0 * x.sum().item(), lambda x: x.cpu() * 1, lambda x: x.to("cpu") * 1,
                                      lambda x: x if (x > 0).all() else -x, lambda x: x[: int(x.sum())],
                                      lambda x: torch.tensor(x.tolist())],
                         ids=["item", "cpu", "to cpu", "branch", "int", "tolist"])
def test_values_of_captured_tensors_are_not_known(function):
    with pytest.raises(poptorch.Error, match="test_capture_rules.py|captured"):
        infer(lambda self, x: function(x))


@pytest.mark.parametrize("moved", [lambda c, x: c.to("ipu"), lambda c, x: c.to(x.device), lambda c, x: c.to(x)])
def test_constants_are_moved_to_the_device(moved):
    constant = torch.tensor([1.0, 2.0, 3.0])
    seen = []

    def forward(self, x):
        there = moved(constant, x)
        seen.append(there.device.type)
        return x + there

    torch.testing.assert_close(infer(forward), X + constant)
    assert seen == ["ipu"]


def test_constants_that_meet_the_model_are_frozen_into_it():
    constant = torch.ones(3)
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: x * (constant + 1)), quiet())
    torch.testing.assert_close(executor(X), X * 2)
    constant.fill_(5)
    torch.testing.assert_close(executor(X), X * 2)


def test_branches_of_python_are_taken_once():
    calls = []

    def forward(self, x):
        calls.append(1)
        return x + 1 if len(calls) == 1 else x - 1

    executor = poptorch.inferenceModel(FunctionModel(forward), quiet())
    for _ in range(3):
        assert torch.equal(executor(X), X + 1)
    assert calls == [1]


def test_tensors_made_without_a_device_are_warned_of_once_for_each_function(capfd):
    def forward(self, x):
        return x + torch.zeros(3) + torch.zeros(3) + torch.arange(3) + torch.ones(3, device=x.device)

    for _ in range(2):
        infer(forward)
        log = capfd.readouterr().err
        assert log.count("torch.zeros in forward") == log.count("torch.arange in forward") == 1
        assert "torch.ones" not in log
    torch.zeros(3)
    assert capfd.readouterr().err == ""


def test_distributions_do_not_check_their_arguments_during_capture():
    def forward(self, x):
        return torch.distributions.Normal(x, x.exp()).log_prob(x), torch.distributions.Categorical(logits=x).entropy()

    density, entropy = infer(forward)
    expected = torch.distributions.Normal(X, X.exp()).log_prob(X), torch.distributions.Categorical(logits=X).entropy()
    torch.testing.assert_close((density, entropy), expected)
    with pytest.raises(ValueError):
        torch.distributions.Normal(X, -X.exp())  # they do again


# -- buffers and parameters -------------------------------------------------------------------------------------------
def deletes(self, x):
    del self._buffers["state"]
    return x + 1


def assigns(self, x):
    self.state = self.state + 1
    return x + self.state


@pytest.mark.parametrize("forward, text", [(deletes, 'buffer "state" is deleted in forward'),
                                           (assigns, 'buffer "state" is assigned a new tensor in forward')])
def test_buffers_must_be_changed_in_place(forward, text):
    with pytest.raises(poptorch.Error, match=text):
        infer(forward, state=torch.zeros(3))


def test_a_buffer_changed_in_place_is_state():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.zeros(3))

        def forward(self, x):
            self.state.add_(1)
            return x + self.state

    executor = poptorch.inferenceModel(Counts(), quiet())
    executor(X)
    torch.testing.assert_close(executor(X), X + 2)


def test_plain_attributes_are_not_state():
    model = FunctionModel(None)
    model.seen = torch.zeros(3)

    def forward(self, x):
        self.seen = self.seen + 1  # of the capture alone
        return x + self.seen

    model._function = forward
    executor = poptorch.inferenceModel(model, quiet())
    for _ in range(2):
        torch.testing.assert_close(executor(X), X + 1)
    assert torch.equal(model.seen, torch.zeros(3))


def test_batch_norm_may_assign_its_own_buffers():
    class Assigning(nn.BatchNorm1d):
        def forward(self, x):
            self.num_batches_tracked = self.num_batches_tracked + 1
            return super().forward(x)

    norm = Assigning(3).train()
    with torch.no_grad():
        expected = copy.deepcopy(norm)(X)
    torch.testing.assert_close(poptorch.inferenceModel(norm, quiet())(X), expected)


# -- losses -----------------------------------------------------------------------------------------------------------
SIGNS = torch.tensor([1.0, -1, 1, -1])
LOSSES = {
    "L1": lambda y: nn.L1Loss()(y, X),
    "MSE": lambda y: nn.MSELoss()(y, X),
    "SmoothL1": lambda y: nn.SmoothL1Loss()(y, X),
    "CrossEntropy": lambda y: nn.CrossEntropyLoss()(y, torch.tensor([0, 1, 2, 0])),
    "NLL": lambda y: nn.NLLLoss()(y.log_softmax(1), torch.tensor([0, 1, 2, 0])),
    "BCE": lambda y: nn.BCELoss()(y.sigmoid(), (X > 0).float()),
    "BCEWithLogits": lambda y: nn.BCEWithLogitsLoss()(y, (X > 0).float()),
    "KLDiv": lambda y: nn.KLDivLoss(reduction="sum")(y.log_softmax(1), X.softmax(1)),
    "PoissonNLL": lambda y: nn.PoissonNLLLoss()(y, X.exp()),
    "HingeEmbedding": lambda y: nn.HingeEmbeddingLoss()(y, SIGNS.unsqueeze(1).expand(4, 3)),
    "SoftMargin": lambda y: nn.SoftMarginLoss()(y, SIGNS.unsqueeze(1).expand(4, 3)),
    "CosineEmbedding": lambda y: nn.CosineEmbeddingLoss()(y, X, SIGNS),
    "MarginRanking": lambda y: nn.MarginRankingLoss()(y[:, 0], y[:, 1], SIGNS),
    "TripletMargin": lambda y: nn.TripletMarginLoss()(y, X, X.flip(0)),
    "CTC": lambda y: nn.CTCLoss()(y.log_softmax(1).unsqueeze(1), torch.tensor([[1, 2]]), (4,), (2,)),
    "identity_loss": lambda y: poptorch.identity_loss(y.square(), "mean"),
}


class Trained(nn.Module):
    def __init__(self, loss, returned=False):
        super().__init__()
        torch.manual_seed(1)
        self.fc, self.loss, self.returned = nn.Linear(3, 3), loss, returned

    def forward(self, x):
        y = self.fc(x)
        loss = self.loss(y)
        return (y, loss) if self.returned else y


def train_once(model, **settings):
    poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.1, **settings))(X)
    return {name: value.clone() for name, value in model.state_dict().items()}


def by_hand(loss):
    model = Trained(loss)
    loss(model.fc(X)).backward()
    with torch.no_grad():
        return {name: value - 0.1 * value.grad for name, value in model.named_parameters()}


def check_same(learnt, expected):
    for name, value in expected.items():
        torch.testing.assert_close(learnt[name], value, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_found_whether_they_are_returned_or_not(name):
    expected = by_hand(LOSSES[name])
    for returned in (False, True):
        check_same(train_once(Trained(LOSSES[name], returned)), expected)


def test_a_loss_that_feeds_another_is_an_ordinary_op():
    def loss(y):
        inner = nn.functional.l1_loss(y, X) + nn.functional.mse_loss(y, X)
        return poptorch.identity_loss(inner * 2, "sum")

    check_same(train_once(Trained(loss)), by_hand(loss))
    chained = lambda y: nn.functional.mse_loss(nn.functional.l1_loss(y, X, reduction="none"), X)  # noqa: E731
    check_same(train_once(Trained(chained)), by_hand(chained))


def test_two_independent_losses_ask_for_identity_loss():
    def loss(y):
        nn.functional.l1_loss(y, X)
        return nn.functional.mse_loss(y, X)

    with pytest.raises(poptorch.Error, match="identity_loss"):
        train_once(Trained(loss))


@pytest.mark.parametrize("name", ["mse", "identity_loss"])
def test_the_loss_must_have_one_element(name):
    loss = {"mse": lambda y: nn.functional.mse_loss(y, X, reduction="none"),
            "identity_loss": lambda y: poptorch.identity_loss(y, "none")}[name]
    with pytest.raises(poptorch.Error, match=r"the loss must have one element; this one is f32\[4, 3\]"):
        train_once(Trained(loss))
    reduced = lambda y: poptorch.identity_loss(loss(y), "mean")  # noqa: E731
    check_same(train_once(Trained(reduced)), by_hand(reduced))


def total(y):
    return nn.functional.kl_div(y.log_softmax(1), X.softmax(1), reduction="sum")


@pytest.mark.parametrize("transformed", [lambda y: total(y) / 4,
                                         lambda y: nn.functional.kl_div(y.log_softmax(1), X.softmax(1),
                                                                        reduction="batchmean")],
                         ids=["divided", "batchmean"])
def test_what_follows_the_loss_does_not_change_the_gradient_which_is_said_if_it_is_returned(transformed, capfd):
    for returned in (True, False):
        check_same(train_once(Trained(transformed, returned)), by_hand(total))
        assert ("is transformed before it is returned" in capfd.readouterr().err) == returned


@pytest.mark.parametrize("scaling", [1.0, 64.0])
def test_the_gradient_at_the_loss_is_one_whatever_its_scaling(scaling):
    loss = lambda y: poptorch.identity_loss((y * 3).sum(), "none")  # noqa: E731
    check_same(train_once(Trained(loss), loss_scaling=scaling), by_hand(loss))


# -- batches ----------------------------------------------------------------------------------------------------------
def test_forward_sees_one_micro_batch():
    seen = []

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x, table):
            seen.append((x.shape, table.shape))
            return poptorch.identity_loss(self.fc(x) + table.sum(), "mean")

    options = quiet().deviceIterations(3).replicationFactor(4)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive).Training.gradientAccumulation(5)
    poptorch.trainingModel(Net(), options)(torch.ones(3 * 5 * 2 * 7, 2), torch.ones(3 * 5 * 2))
    assert seen == [(torch.Size([7, 2]), torch.Size([1]))]  # every input is divided, tables too


def test_statistics_of_batch_norm_follow_every_micro_batch():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x):
            return poptorch.identity_loss(self.norm(x).square(), "mean")

    torch.manual_seed(0)
    x = torch.randn(24, 3) * 3 + 1
    options = quiet().deviceIterations(2)
    options.Training.gradientAccumulation(3)
    model, plain = Net().train(), Net().train()
    poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.0))(x)
    for rows in x.split(4):
        plain(rows)
    torch.testing.assert_close(model.norm.running_mean, plain.norm.running_mean)
    torch.testing.assert_close(model.norm.running_var, plain.norm.running_var)
    assert model.norm.num_batches_tracked == 6


def test_accumulation_of_mean_losses_is_the_same_as_a_larger_batch():
    torch.manual_seed(4)
    x = torch.randn(12, 3)
    results = []
    for steps in (1, 2, 6):
        torch.manual_seed(1)
        model = Trained(lambda y: poptorch.identity_loss(y.square(), "mean"))
        options = quiet()
        options.Training.gradientAccumulation(steps)
        poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))(x)
        results.append(model.fc.weight.detach().clone())
    for other in results[1:]:
        torch.testing.assert_close(other, results[0])


@pytest.mark.parametrize("strategy", list(poptorch.MeanReductionStrategy)[:2])
def test_both_ways_to_take_a_mean_give_the_same_mean(strategy):
    options = quiet()
    options.Training.gradientAccumulation(4).setMeanAccumulationAndReplicationReductionStrategy(strategy)
    model = Trained(lambda y: poptorch.identity_loss(y.square(), "mean"))
    expected = by_hand(lambda y: poptorch.identity_loss(y.square(), "mean"))
    poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))(X)
    check_same(model.state_dict(), expected)
