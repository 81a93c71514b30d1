"""Work of the host in the middle of a model on several devices: ops without a kernel, printing."""

import poptorch
import pytest
import torch

from support.models import FunctionModel, Layers, quiet, train


class WithHostCall(Layers):
    """A layer whose inverse is computed by torch itself."""

    def forward(self, x, target):
        with poptorch.Block("0", ipu_id=0):
            x = self.layers[0](x)
        with poptorch.Block("1", ipu_id=1):
            square = x.reshape(-1, 3, 3) + 4 * torch.eye(3)
            y = self.layers[1](torch.linalg.inv(square).reshape(-1, 9))
            return y, torch.nn.functional.mse_loss(y, target)


@pytest.fixture
def inverse_on_the_host():
    poptorch.poptorch_core.remove_handler("aten::linalg_inv_ex")
    yield
    poptorch.poptorch_core.restore_handlers()


def test_host_calls_on_the_workers_of_a_pipeline(inverse_on_the_host):
    torch.manual_seed(4)
    inputs = torch.randn(24, 5), torch.randn(24, 2)
    results = []
    for strategy in (poptorch.PipelinedExecution(), poptorch.ShardedExecution(),
                     poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0))):
        options = quiet().deviceIterations(2).setExecutionStrategy(strategy)
        options.Training.gradientAccumulation(4)
        model = WithHostCall([5, 9, 2])
        model.layers[1] = torch.nn.Linear(9, 2, bias=False)
        torch.nn.init.constant_(model.layers[1].weight, 0.25)
        results.append(train(model, options, inputs)[1])
    for name, weight in results[0].items():
        assert torch.equal(results[1][name], weight) and torch.equal(results[2][name], weight), name


def test_tensors_printed_by_every_device_and_replica(capfd):
    def forward(self, x):
        with poptorch.Block("a", ipu_id=0):
            x = poptorch.ipu_print_tensor(x + 1, "first")
        with poptorch.Block("b", ipu_id=1):
            return poptorch.ipu_print_tensor(x * 2, "second")

    options = quiet().deviceIterations(2).replicationFactor(2)
    result = poptorch.inferenceModel(FunctionModel(forward), options)(torch.zeros(4, 1))
    assert result.eq(2).all()
    text = capfd.readouterr().err
    assert text.count("first") == 4 and text.count("second") == 4
