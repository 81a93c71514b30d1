"""Examples of docs/api.md: weights of replicas, errors, the log, trace points."""
import torch

import poptorch

from .example import example, section

section("Replicas, errors, the log")


@example("VariableRetrievalMode")
def _(x):
    class Shifted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Parameter(torch.tensor([[0.0] * 4, [1.0] * 4]))  # one value for each replica

        def forward(self, x):
            return x + self.shift

    shifted = poptorch.inferenceModel(Shifted(), poptorch.Options().replicationFactor(2).useIpuModel(True))
    shifted.shift.replicaGrouping(poptorch.CommGroupType.NoGrouping, 0, poptorch.VariableRetrievalMode.OnePerGroup)
    assert torch.equal(shifted(x), torch.cat([x[:8], x[8:] + 1]))


@example("Error", "RecoverableError", "UnrecoverableError", "createPoptorchError")
def _(model, x):
    classifier = poptorch.inferenceModel(model)
    classifier(x)
    try:
        classifier(x[:3])
    except poptorch.Error as error:  # RecoverableError and UnrecoverableError are two of them: a device failed
        print(error.message, error.type, error.location)
    assert isinstance(poptorch.createPoptorchError("text"), poptorch.Error)


@example("setLogLevel")
def _():
    poptorch.setLogLevel("WARN")  # as POPTORCH_LOG_LEVEL does


@example("profiling.Channel", "profiling.Channel.tracepoint", "profiling.Channel.instrument")
def _():
    class Worker:
        def work(self):
            return 3

    channel = poptorch.profiling.Channel("program")
    worker = Worker()
    channel.instrument(worker, "work")
    with channel.tracepoint("all of it"):
        assert worker.work() == 3
