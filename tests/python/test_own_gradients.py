"""Gradients a model brings itself: torch.autograd.Function with its own backward, hooks. Ten steps beside eager PyTorch."""

import poptorch
import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from tests.python.support.training import Function, check, options, random_batches, train_beside_eager


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 4) / 4

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.strength * gradient, None


class Halved(torch.autograd.Function):
    """The square, with half its gradient: whoever differentiates forward notices."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return x * gradient


halved = Halved.apply  # looked up before any capture


class Scaled(torch.autograd.Function):
    """Two tensors and a number in, two tensors out; asks which gradients are wanted."""

    @staticmethod
    def forward(ctx, x, factor, weight):
        ctx.save_for_backward(x, weight)
        ctx.factor = factor
        return x * weight * factor, x + weight

    @staticmethod
    @once_differentiable
    def backward(ctx, product_gradient, sum_gradient):
        x, weight = ctx.saved_tensors
        by_x = by_weight = None
        if ctx.needs_input_grad[0]:
            by_x = product_gradient * weight * ctx.factor * 0.5 + sum_gradient
        if ctx.needs_input_grad[2]:
            by_weight = product_gradient * x * ctx.factor * 2 + sum_gradient
        return by_x, None, by_weight.sum(0) if by_weight is not None else None


class KeepsResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * y * 0.5


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class WithIndices(torch.autograd.Function):
    """A result that has no gradient beside one that has."""

    @staticmethod
    def forward(ctx, x):
        values, indices = x.sort(dim=-1)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    def backward(ctx, gradient, _):
        (indices,) = ctx.saved_tensors
        return torch.zeros_like(gradient).scatter(-1, indices, gradient * 0.5)


class Unmaterialized(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        total = None
        if first is not None:
            total = first * 5
        if second is not None:
            total = second * 7 if total is None else total + second * 7
        return total


class Broadcasting(torch.autograd.Function):
    """Returns a gradient of the broadcast shape, which torch sums."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x)
        return x * weight

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient, gradient * x


class Frozen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        return x * weight

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


CASES = {
    "straight_through_estimator": lambda m, x: (StraightThrough.apply(m.first(x)) * m.scale).pow(2).mean(),
    "gradient_reversal": lambda m, x: m.second(Reversal.apply(m.first(x), 0.5)).pow(2).mean(),
    "apply_looked_up_before_capture": lambda m, x: halved(m.first(x)).mean(),
    "function_of_a_function": lambda m, x: halved(StraightThrough.apply(halved(m.first(x)))).mean(),
    "function_of_a_parameter": lambda m, x: (x * StraightThrough.apply(m.scale)).pow(2).mean(),
    "several_results_and_numbers": lambda m, x: sum(
        y.pow(2).mean() for y in Scaled.apply(m.first(x), 1.5, m.scale)
    ),
    "one_result_of_two_is_used": lambda m, x: Scaled.apply(m.first(x), 1.5, m.scale)[1].pow(2).mean(),
    "gradient_wanted_by_one_argument": lambda m, x: Scaled.apply(x, 2, m.scale)[0].pow(2).mean(),
    "saved_result": lambda m, x: KeepsResult.apply(m.first(x)).mean(),
    "changed_in_place": lambda m, x: InPlace.apply(m.first(x) * 1).pow(2).mean(),
    "result_without_gradient": lambda m, x: (lambda v, i: (v * (1 + i)).pow(2).mean())(*WithIndices.apply(m.first(x))),
    "gradients_that_are_none": lambda m, x: Unmaterialized.apply(m.first(x))[1].pow(2).mean(),
    "gradient_of_the_broadcast_shape": lambda m, x: Broadcasting.apply(m.first(x), m.scale).pow(2).mean(),
    "used_first_under_no_grad": lambda m, x: _used_first_under_no_grad(m, x),
    "changed_after_the_function": lambda m, x: halved(m.first(x)).add_(m.scale).pow(2).mean(),
    "zeros_reach_a_function": lambda m, x: Scaled.apply(m.first(x), 1, m.scale)[0].copy_(m.second(x)).pow(2).mean(),
    "zeros_are_not_passed_on": lambda m, x: Frozen.apply(m.first(x), m.scale).copy_(m.second(x)).pow(2).mean(),
    "function_under_no_grad": lambda m, x: _function_under_no_grad(m, x),
    "constant_result": lambda m, x: (ConstantResult.apply(m.first(x)) * m.scale).sum() + m.second(x).pow(2).mean(),
}


def _used_first_under_no_grad(m, x):
    y = halved(m.first(x))
    with torch.no_grad():
        size = y.abs().mean()
    return (y / (1 + size)).mean()


def _function_under_no_grad(m, x):
    with torch.no_grad():
        weight = halved(m.scale)
    return (m.first(x) * weight).pow(2).mean()


class ConstantResult(torch.autograd.Function):
    """Nothing of the model is in the result, and yet it has a gradient."""

    @staticmethod
    def forward(ctx, x):
        return torch.ones(x.shape)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 0.1


@pytest.mark.parametrize("name", CASES)
def test_backward_of_a_function(name):
    check(CASES[name])


def test_backward_of_a_function_in_a_pipeline():
    class Staged(Function):
        def forward(self, x):
            with poptorch.Block("a", ipu_id=0):
                x = halved(self.first(x))
            with poptorch.Block("b", ipu_id=1):
                loss = StraightThrough.apply(self.second(x)).pow(2).mean()
                return poptorch.identity_loss(loss, reduction="none")

    one, two = Staged(None), Staged(None)
    pipelined = options()
    pipelined.Training.gradientAccumulation(4)
    pipelined.setExecutionStrategy(poptorch.PipelinedExecution("a", "b"))
    single = options()
    single.Training.gradientAccumulation(4)
    single.setExecutionStrategy(poptorch.ShardedExecution("a", "b"))
    trainers = [
        poptorch.trainingModel(m, o, poptorch.optim.SGD(m.parameters(), lr=0.1))
        for m, o in ((one, pipelined), (two, single))
    ]
    batches = random_batches(12, 4)
    for step in range(5):
        losses = [trainer(*batches(step)) for trainer in trainers]
        assert torch.equal(*losses)
    for ours, theirs in zip(one.parameters(), two.parameters()):
        assert torch.equal(ours, theirs)


def test_function_in_an_inference_model():
    module = Function(lambda m, x: halved(m.first(x)))
    x = torch.randn(3, 4)
    wanted = halved(module.first(x)).detach()
    torch.testing.assert_close(poptorch.inferenceModel(module, options())(x), wanted)


def test_torch_is_itself_again_after_capture():
    check(CASES["apply_looked_up_before_capture"], steps=1)
    x = torch.full((2,), 3.0, requires_grad=True)
    Halved.apply(x).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_error_in_backward_is_raised_with_its_text():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("no way back")

    with pytest.raises(ValueError, match="no way back"):
        check(lambda m, x: Broken.apply(m.first(x)).mean(), steps=1)


def test_gradient_of_the_wrong_shape_names_the_function():
    class WrongShape(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            return gradient[:, :2]

    module = Function(lambda m, x: WrongShape.apply(m.first(x)).mean())
    trainer = poptorch.trainingModel(module, options())
    with pytest.raises(poptorch.Error, match=r"WrongShapeBackward.*\[3, 2\].*\[3, 4\]"):
        trainer(torch.randn(3, 4))


def test_values_asked_for_in_backward_are_refused():
    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            return gradient if gradient.abs().max() > 1 else gradient * 2

    module = Function(lambda m, x: Looks.apply(m.first(x)).pow(2).mean())
    trainer = poptorch.trainingModel(module, options())
    with pytest.raises(poptorch.Error, match="no values yet"):
        trainer(torch.randn(3, 4))


def test_gradients_inside_forward_are_refused():
    module = Function(lambda m, x: torch.autograd.grad(m.first(x).sum(), m.first.weight)[0].sum())
    trainer = poptorch.trainingModel(module, options())
    with pytest.raises(poptorch.Error, match="in the middle of the model"):
        trainer(torch.randn(3, 4))


# -- hooks --------------------------------------------------------------------------------------------------------
def with_hook(hook):
    def forward(m, x):
        y = m.first(x)
        y.register_hook(hook)
        return (m.second(y) * y).pow(2).mean()

    return forward


def test_hook_on_an_activation_scales():
    check(with_hook(lambda gradient: gradient * 0.3))


def test_hook_on_an_activation_clips():
    check(with_hook(lambda gradient: gradient.clamp(-0.01, 0.02)))


def test_hook_that_returns_nothing():
    check(with_hook(lambda gradient: None))


def test_leaf_made_in_forward():
    def forward(m, x):
        leaf = x.detach().requires_grad_()
        y = leaf * 2
        y.register_hook(lambda gradient: gradient * 100)
        assert y.requires_grad and leaf.is_leaf and not x.requires_grad
        return (m.first(y) * m.scale).pow(2).mean()

    check(forward)


def test_hook_that_alone_reads_a_buffer_and_a_parameter():
    def forward(m, x):
        y = m.first(x)
        y.register_hook(lambda gradient: gradient * (1 + m.memory) * m.scale)
        return m.second(y).pow(2).mean()

    check(forward)


def test_hook_sees_the_gradient_of_all_uses():
    def forward(m, x):
        y = m.first(x)
        early = m.second(y).pow(2).mean()
        y.register_hook(lambda gradient: gradient.sign() * 0.1)
        return early + y.pow(2).mean()

    check(forward)


def test_hook_on_a_copy_sees_its_gradient_alone():
    def forward(m, x):
        y = m.first(x)
        copied = y.clone()
        copied.register_hook(lambda gradient: gradient * 10)
        viewed = y.view_as(y)
        viewed.register_hook(lambda gradient: gradient * 5)
        return y.pow(2).mean() + (copied * m.scale).mean() + (viewed * m.scale).pow(2).mean()

    check(forward)


def test_two_hooks_in_order():
    def forward(m, x):
        y = m.first(x)
        y.register_hook(lambda gradient: gradient + 0.1)
        y.register_hook(lambda gradient: gradient * 2)
        return y.pow(2).mean()

    check(forward)


def test_hook_on_the_result_of_a_function():
    def forward(m, x):
        y = halved(m.first(x))
        y.register_hook(lambda gradient: gradient * 3)
        return y.mean()

    check(forward)


def test_hooks_on_parameters():
    module = Function(lambda m, x: (m.second(m.first(x)) * m.scale).pow(2).mean())
    mask = torch.tensor([1.0, 0.0, 1.0, 0.0])

    class Hooked(nn.Module):
        """deepcopy leaves hooks behind: each copy registers its own."""

        def __init__(self):
            super().__init__()
            self.inner = module
            self.attach()

        def attach(self):
            self.inner.scale.register_hook(lambda gradient: gradient * mask)
            self.inner.first.weight.register_hook(lambda gradient: gradient.clamp(-0.05, 0.05))

        def __deepcopy__(self, memo):
            import copy

            result = Hooked.__new__(Hooked)
            nn.Module.__init__(result)
            result.inner = copy.deepcopy(self.inner, memo)
            result.attach()
            return result

        def forward(self, x):
            return self.inner(x)

    train_beside_eager(Hooked(), random_batches(3, 4))


def test_full_backward_hooks_of_modules():
    class Hooked(Function):
        def __init__(self):
            super().__init__(lambda m, x: m.second(torch.relu(m.first(x))).pow(2).mean())
            self.second.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0.5 + outputs[0],))
            self.first.register_full_backward_hook(lambda module, inputs, outputs: None)

    train_beside_eager(Hooked(), random_batches(3, 4))


def test_old_backward_hooks_are_refused():
    module = Function(lambda m, x: m.second(m.first(x)).pow(2).mean())
    module.second.register_backward_hook(lambda module, inputs, outputs: None)
    trainer = poptorch.trainingModel(module, options())
    with pytest.raises(poptorch.Error, match="register_full_backward_hook"):
        trainer(torch.randn(3, 4))


def test_hook_that_needs_values_is_refused():
    trainer = poptorch.trainingModel(Function(with_hook(lambda gradient: gradient / gradient.norm().item())), options())
    with pytest.raises(poptorch.Error, match="no values yet"):
        trainer(torch.randn(3, 4))


def test_requires_grad_inside_forward_is_that_of_eager():
    def forward(m, x):
        y = m.first(x)
        seen = [x.requires_grad, y.requires_grad, y.detach().requires_grad, m.scale.requires_grad]
        with torch.no_grad():
            seen.append((y * 2).requires_grad)
        seen += [y.is_leaf, x.is_leaf, y.grad_fn is not None, x.grad_fn is not None]
        assert seen == [False, True, False, True, False, False, True, True, False]
        return y.pow(2).mean()

    check(forward, steps=1)
