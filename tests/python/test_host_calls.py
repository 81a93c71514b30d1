"""Ops without a lowering run on the host: models that use them train as in eager PyTorch."""

import copy

import poptorch
import pytest
import torch
from poptorch import poptorch_core


class Solve(torch.nn.Module):
    """Uses an op on a parameter, between two ops that are lowered."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.eye(4) + 0.1 * torch.randn(4, 4))
        self.loss = torch.nn.MSELoss()

    def forward(self, x, target):
        y = torch.tanh(x @ self.function(self.weight * 2))
        return y, self.loss(y, target)


@pytest.fixture
def without_handlers(request):
    """Makes host calls of the ops a test names."""
    for name in request.param:
        poptorch_core.remove_handler(f"aten::{name}")
    yield
    poptorch_core.restore_handlers()


def without(*names):
    return pytest.mark.parametrize("without_handlers", [names], indirect=True, ids=["on the host"])


def _train_beside_eager(function):
    torch.manual_seed(0)
    model = Solve(function)
    eager = copy.deepcopy(model)
    options = poptorch.Options().showCompilationProgressBar(False)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1, momentum=0.9)
    x, target = torch.randn(8, 4), torch.randn(8, 4)
    for _ in range(10):
        loss = trainer(x, target)[1]
        optimizer.zero_grad()
        expected = eager(x, target)[1]
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(model.weight.detach(), eager.weight.detach(), rtol=1e-4, atol=1e-5)
    return trainer._core.host_calls()


@without("linalg_inv_ex")
def test_inverse_of_a_matrix_trains(without_handlers):
    assert any("linalg_inv" in name for name in _train_beside_eager(torch.linalg.inv))


@without("nan_to_num")
def test_op_whose_handler_was_removed_trains(without_handlers):
    assert any("nan_to_num" in name for name in _train_beside_eager(torch.nan_to_num))


def test_op_with_its_handler_makes_no_host_call():
    assert not _train_beside_eager(torch.nan_to_num)


# Each meets a computed tensor (Solve gives it weight * 2), most need what torch keeps for the backward pass.
MATRIX_FUNCTIONS = {
    "svdvals": lambda w: torch.diag(torch.linalg.svdvals(w)),
    # Divided: as it is, to round the weights of one step as float32 does moves the loss of another by 6e-6, in float64.
    "nuclear norm": lambda w: w * torch.norm(w, "nuc") / 4,
    "matrix_norm 2": lambda w: w * torch.linalg.matrix_norm(w, 2),
    "pinverse": torch.pinverse,
    "cholesky": lambda w: torch.cholesky(w @ w.t() + torch.eye(4)),
    "eigvalsh": lambda w: torch.diag(torch.linalg.eigvalsh(w + w.t())),
    "matrix_exp": lambda w: torch.matrix_exp(w * 0.3),
    "pinv with a tolerance that is a tensor": lambda w: torch.linalg.pinv(w,
        rtol=torch.tensor(1e-6) * w.detach().abs().max()),
}


LINALG = ("linalg_svdvals", "linalg_pinv.atol_rtol_tensor", "cholesky", "linalg_eigvalsh", "linalg_matrix_exp")


@without(*LINALG)
@pytest.mark.parametrize("name", MATRIX_FUNCTIONS)
def test_a_function_of_a_computed_matrix_trains(name, without_handlers):
    assert _train_beside_eager(MATRIX_FUNCTIONS[name])


@pytest.mark.parametrize("name", MATRIX_FUNCTIONS)
def test_a_function_of_a_computed_matrix_trains_on_the_device(name):
    assert not _train_beside_eager(MATRIX_FUNCTIONS[name])


@without("linalg_svdvals")
def test_outputs_that_nothing_is_computed_from_leave_the_gradient_alone(without_handlers):
    """The singular vectors of a matrix of zeros have no derivative, and nobody asked for it."""
    weight = torch.zeros(3, 3, requires_grad=True)
    torch.linalg.matrix_norm(weight, -2).backward()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(3, 3))

        def forward(self):
            return poptorch.identity_loss(torch.linalg.matrix_norm(self.weight, -2), "none")

    model = Model()
    options = poptorch.Options().showCompilationProgressBar(False)
    poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=1.0))()
    torch.testing.assert_close(-model.weight.detach(), weight.grad)


@without("linalg_matrix_exp")
def test_half_runs_in_float_where_torch_lacks_it(without_handlers):
    x = torch.randn(4, 4).half()
    with pytest.raises(RuntimeError, match="Half"):
        torch.matrix_exp(x)
    result = _inference(torch.matrix_exp)(x)
    assert result.dtype == torch.float16
    torch.testing.assert_close(result.float(), torch.matrix_exp(x.float()), rtol=1e-2, atol=1e-2)


@without("fractional_max_pool2d")
def test_random_samples_of_a_pooling_are_no_reason_to_refuse_its_gradient(without_handlers):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1, 2, 9, 9))

        def forward(self, x):
            y = torch.nn.functional.fractional_max_pool2d(x * self.weight, 2, output_size=4)
            return poptorch.identity_loss(y.sum(), "none")

    model = Model()
    options = poptorch.Options().showCompilationProgressBar(False)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=1.0))
    trainer(torch.arange(162.0).reshape(1, 2, 9, 9))
    # One element of each window takes its value as gradient, the others nothing.
    assert 0 < (model.weight.detach() != 1).sum() <= 32


# -- checks ---------------------------------------------------------------------------------------------------------


def _inference(function):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()
    return poptorch.inferenceModel(model, poptorch.Options().showCompilationProgressBar(False))


CHECKS = {
    "inv": (torch.linalg.inv, torch.zeros(3, 3), "linalg.inv: The diagonal element 1 is zero"),
    "solve": (lambda a: torch.linalg.solve(a, torch.ones(3, 1)), torch.zeros(3, 3), "singular"),
    "cholesky": (torch.linalg.cholesky, -torch.eye(3), "not positive-definite"),
    "inv of a batch": (torch.linalg.inv, torch.stack([torch.eye(3), torch.zeros(3, 3)]), "Batch element 1"),
}


ON_THE_DEVICE = ((), ("_linalg_check_errors",))


@pytest.mark.parametrize("without_handlers", ON_THE_DEVICE, indirect=True, ids=["on the device", "on the host"])
@pytest.mark.parametrize("name", CHECKS)
def test_a_check_raises_what_eager_raises(name, without_handlers):
    function, wrong, message = CHECKS[name]
    with pytest.raises(RuntimeError, match=message):
        function(wrong)
    executor = _inference(function)
    good = torch.eye(3).expand_as(wrong).contiguous()
    torch.testing.assert_close(executor(good), function(good))
    with pytest.raises(poptorch.Error, match=rf"(?s)\[aten::_linalg_check_errors\].*{message}.*test_host_calls.py"):
        executor(wrong)


def test_a_check_whose_results_nobody_uses():
    def forward(x):
        torch.linalg.inv(x)
        return x * 2

    with pytest.raises(poptorch.Error, match="(?s)singular"):
        _inference(forward)(torch.zeros(3, 3))


def test_assert_async():
    def forward(x):
        torch._assert_async((x > 0).all())
        return x * 2

    executor = _inference(forward)
    assert torch.equal(executor(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(poptorch.Error, match=r"(?s)\[aten::_assert_async\].*nonzero.*test_host_calls.py"):
        executor(-torch.ones(3))


def test_a_check_in_training():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.eye(3))

        def forward(self, x):
            y = torch.linalg.inv(self.weight * x)
            return y, poptorch.identity_loss(y.sum(), "none")

    model = Model()
    trainer = poptorch.trainingModel(model, poptorch.Options().showCompilationProgressBar(False),
                                     torch.optim.SGD(model.parameters(), lr=0.01))
    trainer(torch.ones(()))
    with pytest.raises(poptorch.Error, match="singular"):
        trainer(torch.zeros(()))


def test_an_error_of_torch_names_the_op_and_the_line():
    with pytest.raises(poptorch.Error, match=r"(?s)\[aten::.*test_host_calls.py"):
        _inference(lambda x: torch.linalg.eigvalsh(x))(torch.ones(3, 4))


@pytest.mark.parametrize("layer", [torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Conv2d(3, 4, 3, padding="same"),
                                   torch.nn.ConvTranspose2d(3, 4, 2, 2), torch.nn.Conv1d(3, 4, 3, 2)],
                         ids=["conv", "same", "transposed", "conv1d"])
def test_a_traced_convolution_stays_on_the_device(layer):
    x = torch.randn(2, 3, 8) if isinstance(layer, torch.nn.Conv1d) else torch.randn(2, 3, 8, 8)
    traced = torch.jit.trace(layer, x)
    executor = _inference(lambda x: traced(x * 1))
    torch.testing.assert_close(executor(x), layer(x).detach(), rtol=1e-4, atol=1e-5)
    assert not executor._core.host_calls()
