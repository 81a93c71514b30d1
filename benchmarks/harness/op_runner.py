"""Measures one operator after the other, ours and eager taking turns. Runs in the child of `./dev bench ops`."""
import copy
import re
import sys

import poptorch
import torch

from .measure import alternate
from .work import bytes_of, flops_of

WINDOW_SECONDS, SECONDS_OF_CASE, BYTES_OF_CALL, MOST_SAMPLES = 0.004, 1.5, 4 << 20, 64


class Operator(torch.nn.Module):
    """A case as a module that owns its weights, and in training also what plays its inputs; then it returns a loss."""

    def __init__(self, case, values, is_training):
        super().__init__()
        self.case = case
        for n, (argument, value) in enumerate(zip(case.arguments, values)):
            if argument.role == "layer":
                self.add_module(f"argument{n}", copy.deepcopy(value))
            elif argument.role == "weight" or argument.role == "activation" and is_training:
                self.register_parameter(f"argument{n}", torch.nn.Parameter(value.clone()))
        self.train(is_training)

    def forward(self, *inputs):
        rest = iter(inputs)
        names = (f"argument{n}" for n in range(len(self.case.arguments)))
        result = self.case.function(*(getattr(self, name) if hasattr(self, name) else next(rest) for name in names))
        if not self.training:
            return result
        return poptorch.identity_loss(result[0] if isinstance(result, tuple) else result, "mean")


class Sides:
    """Makes the two sides of a case: callables that run a number of samples each."""

    def __init__(self, case, kind):
        self.case, self.is_training = case, kind == "training"
        torch.manual_seed(0)
        self.values = [argument.make() for argument in case.arguments]

    def operator(self):
        return Operator(self.case, self.values, self.is_training)

    def inputs(self, samples):
        """What is passed to the call: `samples` times the same values, one after the other in memory."""
        passed = [value for argument, value in zip(self.case.arguments, self.values)
                  if argument.role == "data" or argument.role == "activation" and not self.is_training]
        return [torch.cat([value] * samples) for value in passed]

    def eager(self, samples):
        operator, parts = self.operator(), [value.chunk(samples) for value in self.inputs(samples)]
        rows = list(zip(*parts)) if parts else [()] * samples
        if not self.is_training:
            def forward():
                with torch.inference_mode():
                    return [operator(*row) for row in rows]
            return forward
        optimizer = torch.optim.SGD(operator.parameters(), lr=1e-6)

        def train():
            for row in rows:
                optimizer.zero_grad(set_to_none=True)
                loss = operator(*row)
                loss.backward()
                optimizer.step()
            return [loss]
        return train

    def ours(self, samples):
        operator, inputs = self.operator(), self.inputs(samples)
        options = poptorch.Options().deviceIterations(samples).showCompilationProgressBar(False)
        if self.is_training:
            model = poptorch.trainingModel(operator, options, poptorch.optim.SGD(operator.parameters(), lr=1e-6))
        else:
            model = poptorch.inferenceModel(operator, options)
        return lambda: model(*inputs)

    def agree(self):
        """Whether one sample has the same result on both sides, roughly: that the same thing is measured."""
        ours, eager = self.ours(1)(), self.eager(1)()[0]
        pairs = zip(ours, eager) if isinstance(eager, tuple) else [(ours, eager)]
        return all(a.shape == b.shape and torch.allclose(a.float(), b.float(), rtol=2e-2, atol=2e-2) for a, b in pairs)

    def work(self):
        """Multiplications and additions of a sample, and the bytes that it reads and writes at least: inputs, weights
        and results; in training each parameter twice, since results need not reach memory."""
        operator, inputs = self.operator(), self.inputs(1)
        # In inference mode torch does not say what its composite functions call.
        run = self.eager(1) if self.is_training else lambda: operator(*inputs)
        with torch.no_grad():
            results = bytes_of(self.case.function(*self.values))
        if self.case.is_sparse:
            moved = 2 * results
        else:
            moved = 2 * bytes_of(operator) if self.is_training else bytes_of(operator) + results
        return flops_of(run), bytes_of(inputs) + moved


def measure(case, kind, windows):
    """Best seconds of one sample on each side, and what went into them."""
    sides = Sides(case, kind)
    result = {"name": case.name, "kind": kind}
    if case.is_comparable and not sides.agree():
        result["note"] = "results differ"
    flops, moved = sides.work()
    samples = max(1, min(MOST_SAMPLES, round(BYTES_OF_CALL / moved)))
    ours, eager = alternate([sides.ours(samples), sides.eager(samples)], windows, WINDOW_SECONDS, SECONDS_OF_CASE)
    return {**result, "ours": ours / samples, "eager": eager / samples, "ratio": eager / ours, "samples": samples,
            "flops": flops, "bytes": moved}


def run_cases(cases, options, show):
    """Measures the chosen cases; `show` is told each result as it comes."""
    torch.set_num_threads(options.threads[0])
    results = []
    for case in cases:
        for kind in case.kinds:
            if kind not in options.kinds or not re.search(options.filter, case.name):
                continue
            try:
                result = measure(case, kind, options.windows)
            except Exception as error:  # one operator that cannot run must not hide the others
                result = {"name": case.name, "kind": kind, "note": str(error).strip().splitlines()[0][:100]}
            results.append(result)
            print(show(result), file=sys.stderr, flush=True)
    return results
