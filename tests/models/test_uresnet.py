"""The UResNet of examples/python: converted, trained beside native PyTorch, on one device and on four."""

import copy
import importlib.util
import pathlib

import poptorch
import pytest
import torch

_PATH = pathlib.Path(__file__).parents[2] / "examples" / "python" / "uresnet.py"
_SPEC = importlib.util.spec_from_file_location("uresnet", _PATH)
uresnet = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(uresnet)

ACCUMULATION, STEPS, SIZE, RATE = 8, 8, 32, 0.02


@pytest.fixture(scope="module", name="native")
def train_native():
    """The model before training, the batches, and the losses of native PyTorch."""
    torch.manual_seed(0)
    model = uresnet.UResNet()
    generator = torch.Generator().manual_seed(1)
    batches = [uresnet.events(ACCUMULATION, SIZE, generator) for _ in range(STEPS)]
    losses = uresnet.train_native(copy.deepcopy(model), batches, ACCUMULATION, RATE)
    assert losses[-1] < 0.7 * losses[0]  # there is something to learn
    return model, batches, losses


@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float16, 1e-2)])
def test_trains_like_native_pytorch(native, devices, dtype, tolerance):
    model, batches, expected = native
    model = copy.deepcopy(model).to(dtype)
    model.devices = devices
    losses, _, _ = uresnet.train_converted(model, batches, devices, ACCUMULATION, RATE)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=tolerance, atol=0)


def test_compile_leaves_nothing_for_the_first_call(native, monkeypatch):
    model, batches, _ = native
    captures = []
    compile_model = poptorch.PoplarExecutor._compile
    monkeypatch.setattr(poptorch.PoplarExecutor, "_compile",
                        lambda self, *args: (captures.append(self.isCompiled()), compile_model(self, *args)))
    uresnet.train_converted(copy.deepcopy(model), batches[:2], 1, ACCUMULATION, RATE)
    assert captures == [False]  # by compile(); neither of the two calls compiled


def test_the_pipeline_gives_the_bits_of_one_device(native):
    model, batches, _ = native
    results = []
    for devices in (1, 4):
        trained = copy.deepcopy(model)
        trained.devices = devices
        uresnet.train_converted(trained, batches[:3], devices, ACCUMULATION, RATE)
        results.append(torch.cat([parameter.detach().flatten() for parameter in trained.parameters()]))
    assert torch.equal(*results)
