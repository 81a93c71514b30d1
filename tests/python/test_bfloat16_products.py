"""Precision.enableBFloat16Products: products of float32 multiply in bfloat16 and add in float32. The oracle is eager
PyTorch with the operands of every product rounded, in the forward and in the backward pass."""

import poptorch
import pytest
import torch
import torch.nn.functional as F

from support.models import quiet, train
from support.tensors import normal


def rounded(x):
    return x.bfloat16().float()


class RoundedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return rounded(x) @ rounded(weight).t()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return rounded(gradient) @ rounded(weight), rounded(gradient).t() @ rounded(x)


class Mlp(torch.nn.Module):
    """Two wide layers; `rounds`: as the option would, in eager PyTorch."""

    def __init__(self, width=64, rounds=False):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = torch.nn.Linear(96, width), torch.nn.Linear(width, width)
        self.rounds = rounds

    def forward(self, x, target):
        for layer in (self.first, self.second):
            x = RoundedLinear.apply(x, layer.weight) + layer.bias if self.rounds else layer(x)
            x = F.gelu(x)
        return x, F.mse_loss(x, target)


def options(enabled):
    made = quiet()
    made.Precision.enableBFloat16Products(enabled)
    return made


def together(results):
    """The losses of all steps, and what the model gave in the last."""
    return torch.cat([loss.reshape(1) for _, loss in results] + [results[-1][0].flatten()])


def trained(model, opts, batch, steps=10):
    trainer = poptorch.trainingModel(model, opts, poptorch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9))
    results = [trainer(*batch) for _ in range(steps)]
    trainer.destroy()
    return together(results)


def eagerly_trained(model, batch, steps=10):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    results = []
    for _ in range(steps):
        optimizer.zero_grad()
        output, loss = model(*batch)
        loss.backward()
        optimizer.step()
        results.append((output.detach(), loss.detach()))
    return together(results)


# Numbers of their own: what other tests have drawn before must not decide whether a sum lies on the border between two
# numbers of bfloat16, where PyTorch and we may round to different sides.
GENERATOR = torch.Generator().manual_seed(17)
BATCH = torch.randn(48, 96, generator=GENERATOR), torch.randn(48, 64, generator=GENERATOR)


def test_training_is_that_of_rounded_operands():
    found = trained(Mlp(), options(True), BATCH)
    expected = eagerly_trained(Mlp(rounds=True), BATCH)
    plain = eagerly_trained(Mlp(), BATCH)
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)
    assert (found - plain).abs().max() > 1e-3  # the option does something


class RoundedConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.conv2d(rounded(x), rounded(weight), padding=1)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        arguments = dict(padding=1)
        return (torch.nn.grad.conv2d_input(x.shape, rounded(weight), rounded(gradient), **arguments),
                torch.nn.grad.conv2d_weight(rounded(x), weight.shape, rounded(gradient), **arguments))


class Images(torch.nn.Module):
    """Two convolutions; `rounds`: as the option would, in eager PyTorch."""

    def __init__(self, rounds=False):
        super().__init__()
        torch.manual_seed(4)
        self.first, self.second = (torch.nn.Conv2d(channels, 32, 3, padding=1) for channels in (24, 32))
        self.rounds = rounds

    def forward(self, x, target):
        for layer in (self.first, self.second):
            y = RoundedConv.apply(x, layer.weight) + layer.bias[:, None, None] if self.rounds else layer(x)
            x = torch.tanh(y)
        return x, F.mse_loss(x, target)


def test_convolutions_train_as_those_of_rounded_operands():
    # Two steps: results of the second hold all gradients of the first. Of 10,000 activations one or the other may lie on
    # the border of two numbers of bfloat16, and further steps would carry that to all the others.
    batch = torch.randn(4, 24, 9, 9, generator=GENERATOR), torch.randn(4, 32, 9, 9, generator=GENERATOR)
    found = trained(Images(), options(True), batch, steps=2)
    expected = eagerly_trained(Images(rounds=True), batch, steps=2)
    plain = eagerly_trained(Images(), batch, steps=2)
    assert (found - expected).norm() < 0.1 * (plain - expected).norm()
    assert (found - plain).abs().max() > 1e-3
    assert torch.equal(trained(Images(), options(False), batch), trained(Images(), quiet(), batch))


def test_it_is_off_unless_asked_for():
    assert torch.equal(trained(Mlp(), quiet(), BATCH), trained(Mlp(), options(False), BATCH))
    torch.testing.assert_close(trained(Mlp(), quiet(), BATCH), eagerly_trained(Mlp(), BATCH), rtol=2e-5, atol=2e-5)


def test_few_products_for_each_element_keep_their_bits():
    batch = normal(8, 96), normal(8, 64)
    assert torch.equal(trained(Mlp(), options(True), batch), trained(Mlp(), options(False), batch))


def test_stages_and_shards_have_the_same_bits():
    batch = normal(4 * 48, 96), normal(4 * 48, 64)

    def learnt(strategy):
        model = Mlp()
        poptorch.BeginBlock(model.first, "0")
        poptorch.BeginBlock(model.second, "1")
        opts = options(True).setExecutionStrategy(strategy)
        opts.Training.gradientAccumulation(4)
        return train(model, opts, batch)[1]

    stages = [poptorch.Stage("0").ipu(0), poptorch.Stage("1").ipu(1)]
    expected = learnt(poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0)))
    for strategy in (poptorch.PipelinedExecution(*stages), poptorch.ShardedExecution(*stages)):
        found = learnt(strategy)
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_loops_round_their_products():
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(5)
            self.lstm = torch.nn.LSTM(64, 64, batch_first=True)

        def forward(self, x, target):
            y = self.lstm(x)[0]
            return y, F.mse_loss(y, target)

    batch = normal(32, 40, 64), normal(32, 40, 64)
    plain = trained(Recurrent(), options(False), batch)
    found = trained(Recurrent(), options(True), batch)
    assert not torch.equal(found, plain)
    torch.testing.assert_close(found, plain, rtol=2e-2, atol=2e-2)


def test_inference_rounds_too():
    model = torch.nn.Linear(96, 64)
    x = normal(48, 96)
    executor = poptorch.inferenceModel(model, options(True))
    expected = rounded(x) @ rounded(model.weight).t() + model.bias
    torch.testing.assert_close(executor(x), expected.detach(), rtol=1e-5, atol=1e-5)


def test_what_is_no_boolean_is_refused():
    with pytest.raises(Exception, match="enableBFloat16Products"):
        poptorch.Options().Precision.enableBFloat16Products("yes")
