"""Examples of docs/api.md: functions in forward."""
import torch

import poptorch

from .example import example, section

section("Ops")


@example("identity_loss")
def _(x):
    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))

        def forward(self, x):
            return poptorch.identity_loss((x * self.weight) ** 2, reduction="mean")  # any expression can be a loss

    poptorch.trainingModel(Loss())(x)


@example("ipu_print_tensor")
def _(x):
    class Shows(torch.nn.Module):
        def forward(self, x):
            y = poptorch.ipu_print_tensor(x[:2], "the first rows")
            return y + 1

    poptorch.inferenceModel(Shows())(x)


@example("nop", "recomputationCheckpoint", "set_available_memory", "serializedMatMul", "MatMulSerializationMode")
def _(x):
    class Hints(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 8))

        def forward(self, x):
            x = poptorch.recomputationCheckpoint(poptorch.nop(x))
            x = poptorch.set_available_memory(x @ self.weight, 0.1)
            mode = poptorch.MatMulSerializationMode.OutputChannels
            return poptorch.serializedMatMul(x, self.weight.t(), mode, factor=2)

    poptorch.inferenceModel(Hints())(x)


@example("for_loop")
def _(x):
    class Power(torch.nn.Module):
        def forward(self, x):
            return poptorch.for_loop(5, lambda y: [y * 1.5], [x])[0]

    torch.testing.assert_close(poptorch.inferenceModel(Power())(x), x * 1.5**5)


@example("cond")
def _(x):
    class Branch(torch.nn.Module):
        def forward(self, condition, x):
            return poptorch.cond(condition, lambda y: y + 1, [x], lambda y: y - 1, [x])[0]

    branch = poptorch.inferenceModel(Branch())
    assert torch.equal(branch(torch.tensor([False]), x), x - 1)


@example("dynamic_slice", "dynamic_update")
def _():
    class Window(torch.nn.Module):
        def forward(self, x, start):
            part = poptorch.dynamic_slice(x, 0, start, size=2, step=1)
            return poptorch.dynamic_update(x, part * 10, 0, start, size=2)

    result = poptorch.inferenceModel(Window())(torch.arange(5.0), torch.tensor([2]))
    assert result.tolist() == [0, 1, 20, 30, 4]


@example("set_overlap_for_input", "set_overlap_for_output", "OverlapMode")
def _(x):
    class Overlapped(torch.nn.Module):
        def forward(self, x):
            x = poptorch.set_overlap_for_input(x, poptorch.OverlapMode.OverlapAccumulationLoop)
            return poptorch.set_overlap_for_output(x + 1, poptorch.OverlapMode.OverlapAccumulationLoop)

    options = poptorch.Options().deviceIterations(4)
    options.TensorLocations.numIOTiles(32)
    options.setExecutionStrategy(poptorch.ShardedExecution())
    assert torch.equal(poptorch.inferenceModel(Overlapped(), options)(x), x + 1)


@example("CPU")
def _(x):
    class WithHost(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sort = poptorch.CPU(lambda y: torch.sort(y, 0)[0], "sort")

        def forward(self, x):
            return self.sort(x + 1) * 2  # sorted by torch, in each micro-batch

    assert torch.equal(poptorch.inferenceModel(WithHost())(x), torch.sort(x + 1, 0)[0] * 2)


@example("custom_op", "accessAttributes")
def _(x):
    class Cubed(torch.nn.Module):
        def forward(self, x):
            return poptorch.custom_op([x], "Cube", "example.ops", 1, example_outputs=[x])[0]

    try:
        poptorch.inferenceModel(Cubed())(x)
    except poptorch.Error as error:  # torch.ops.load_library brings operators of one's own: see custom-ops.md
        print(error)
    assert poptorch.accessAttributes('{"alpha": 0.5}') == {"alpha": 0.5}


@example("ctc_beam_search_decoder")
def _():
    class Decoder(torch.nn.Module):
        def forward(self, log_probs, lengths):
            return poptorch.ctc_beam_search_decoder(log_probs, lengths, beam_width=4, top_paths=2)

    log_probs = torch.randn(6, 1, 3).log_softmax(-1)  # time, batch, classes
    scores, lengths, paths = poptorch.inferenceModel(Decoder())(log_probs, torch.tensor([6]))
    assert scores.shape == lengths.shape == (1, 2) and paths.shape == (1, 2, 6)


@example("fps", "nearest")
def _():
    class Sampled(torch.nn.Module):
        def forward(self, points):
            chosen = points[poptorch.fps(points, [0, 16], ratio=0.25)]  # 4 points far apart
            return poptorch.nearest(points, chosen)  # the one each point is closest to

    assert poptorch.inferenceModel(Sampled())(torch.randn(16, 3)).shape == (16,)


@example("getIpuTensorId")
def _(x):
    class Asks(torch.nn.Module):
        def forward(self, x):
            assert poptorch.getIpuTensorId(x) != poptorch.getIpuTensorId(x + 1)
            return x + 1

    poptorch.inferenceModel(Asks())(x)
