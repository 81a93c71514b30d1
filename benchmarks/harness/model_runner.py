"""Measures one model after the other, all sides taking turns. Runs in the child of `./dev bench models`."""
import re
import sys

import torch

from . import peers
from .measure import alternate_timed
from .work import bytes_of, flops_of

WINDOW_SECONDS, CALL_SECONDS, MOST_STEPS, SECONDS_OF_CASE, WINDOWS = 0.005, 0.005, 32, 8.0, 100


def made(case):
    """A network of the case. Two calls while training give its normalisations statistics to work with."""
    torch.manual_seed(0)
    network = case.network().train()
    with torch.no_grad():
        for _ in range(2):
            network(*case.inputs(4))
    return network


def agree(a, b):
    """Whether two results are the same, roughly: that the same thing is measured."""
    return a.shape == b.shape and ((a - b).abs().max() <= 0.01 * b.abs().max()).item()


def measure_inference(case, batch, options):
    network = made(case)
    inputs = case.inputs(batch)
    flops = flops_of(lambda: network(*inputs))  # in training mode, where no shortcut hides what is called
    network.eval()
    eager, expected = peers.eager_inference(network, inputs)
    ours, result = peers.our_inference(network, inputs)
    sides = {"ours": ours, "eager": eager}
    wrong = [] if agree(result, expected) else ["ours"]
    if "jit" in options.peers:
        sides["jit"], _ = peers.jit_inference(network, inputs)
    if "onnx" in options.peers:
        onnx = sides["onnx"] = peers.OnnxRuntime(network, inputs, options.threads[0])
        wrong += [] if agree(onnx.first, expected.flatten()[:onnx.first.numel()]) else ["onnx"]
    times = dict(zip(sides, alternate_timed(sides.values(), WINDOWS, WINDOW_SECONDS, SECONDS_OF_CASE)))
    if "onnx" in sides:
        sides["onnx"].close()
    parameters = 2 * bytes_of(expected) if case.is_sparse else bytes_of(network)
    return {"kind": "inference", "batch": batch, **times, "flops": flops, "differ": wrong,
            "bytes": parameters + bytes_of(inputs) + bytes_of(expected)}


def measure_training(case, options):
    inputs = [*case.inputs(case.batch), case.labels(case.batch)]

    def model():
        return case.with_loss(made(case)).train()

    once = peers.eager_training(model, inputs, case.optimizer, 1)
    steps = max(1, min(MOST_STEPS, round(CALL_SECONDS / min(once(1) for _ in range(2)))))
    sides = [peers.our_training(model(), inputs, case.optimizer, steps),
             peers.eager_training(model, inputs, case.optimizer, steps)]
    ours, eager = (seconds / steps for seconds in alternate_timed(sides, WINDOWS, WINDOW_SECONDS, SECONDS_OF_CASE))
    copies = {"SGD": 2, "AdamW": 3}[case.optimizer]  # of each parameter: itself and the optimiser's state
    parameters = 0 if case.is_sparse else 2 * copies * bytes_of(list(model().parameters()))
    return {"kind": "training", "batch": case.batch, "ours": ours, "eager": eager, "steps": steps,
            "flops": flops_of(lambda: once(1)), "bytes": parameters + bytes_of(inputs)}


def run_cases(cases, options, show):
    """Measures the chosen cases; `show` is told each result as it comes."""
    torch.set_num_threads(options.threads[0])
    results = []
    for case in cases:
        if not re.search(options.filter, case.name):
            continue
        parts = [lambda: measure_training(case, options)] if "training" in options.kinds else []
        if "inference" in options.kinds:
            parts += [lambda batch=batch: measure_inference(case, batch, options) for batch in (1, 8)]
        for part in parts:
            try:
                result = {"name": case.name, **part()}
            except Exception as error:  # one model that cannot run must not hide the others
                result = {"name": case.name, "note": str(error).strip().splitlines()[0][:100]}
            results.append(result)
            print(show(result), file=sys.stderr, flush=True)
    return results
