"""Trains one module in eager PyTorch and through poptorch, and says where they part.

Stands alone: a reproduction script (`program.py`) carries the text of this file.
"""

import math
import warnings

import poptorch
import torch

RELATIVE, ABSOLUTE = 1e-4, 1e-5  # float32 through a few steps of training; programs are tame enough (see `judge.py`)


def make(cls, dtype=torch.float32, nudge=0.0):
    """A fresh model of class cls. `nudge` moves each parameter by that proportion, to see how much rounding matters."""
    torch.default_generator.manual_seed(1)
    model = cls().to(dtype)  # drawn in float32, so that the same numbers come in every type
    if nudge:
        for parameter in model.parameters():
            parameter.data.mul_(1 + nudge * torch.randn(parameter.shape, dtype=dtype))
    return model


def batches(inputs, steps, rows, dtype=torch.float32):
    """The inputs of all steps; `rows` is how many a step takes."""
    torch.default_generator.manual_seed(2)
    result = []
    for _ in range(steps):
        step = []
        for kind, shape in inputs:
            shape = (rows, *shape)
            step.append(torch.randn(shape, dtype=torch.float32).to(dtype) if kind == "float"
                        else torch.randint(0, int(kind), shape))
        result.append(step)
    return result


def optimizer_of(config, model):
    settings = dict(config["optimizer"])
    return getattr(torch.optim, settings.pop("name"))(model.parameters(), **settings)


def state_of(model):
    """Parameters and buffers, also those a state_dict leaves out."""
    found = {}
    for prefix, child in model.named_modules():
        prefix = f"{prefix}." if prefix else ""
        for kind, tensors in (("parameter", child._parameters), ("buffer", child._buffers)):
            for name, tensor in tensors.items():
                if tensor is not None:
                    found[f"{kind} {prefix}{name}"] = tensor.detach().clone()
    return found


def train_eager(cls, config, dtype=torch.float32, nudge=0.0):
    """What a run leaves behind, by name: results and inputs of every step, parameters and buffers at the end."""
    before = torch.get_default_dtype()
    model = make(cls, dtype, nudge)
    optimizer = optimizer_of(config, model)
    accumulation, rows = config["accumulation"], config["rows"]
    seen = {}
    torch.set_default_dtype(dtype)
    try:
        for step, inputs in enumerate(batches(config["inputs"], config["steps"], rows * accumulation, dtype)):
            optimizer.zero_grad(set_to_none=True)
            for index in range(accumulation):
                part = slice(index * rows, (index + 1) * rows)
                micro_batch = [value[part].clone() for value in inputs]  # memory of its own, as on a device
                results = model(*micro_batch)
                results[0].backward()
                for value, changed in zip(inputs, micro_batch):
                    value[part] = changed.detach()
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= accumulation
            note_step(seen, step, results, inputs)  # before the update: results may be views of parameters
            optimizer.step()
    finally:
        torch.set_default_dtype(before)
    seen.update(state_of(model))
    return seen


def train_poptorch(cls, config):
    model = make(cls)
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Training.gradientAccumulation(config["accumulation"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executor = poptorch.trainingModel(model, options, optimizer_of(config, model))
        seen = {}
        try:
            for step, inputs in enumerate(batches(config["inputs"], config["steps"],
                                                  config["rows"] * config["accumulation"])):
                note_step(seen, step, executor(*inputs), inputs)
            executor.copyWeightsToHost()
            seen.update(state_of(model))
        finally:
            executor.destroy()
    return seen


def note_step(seen, step, results, inputs):
    """A forward returns its loss first."""
    for index, value in enumerate(results):
        name = "loss" if index == 0 else f"result {index}"
        seen[f"step {step}, {name}"] = value.detach().clone()
    for index, value in enumerate(inputs):
        seen[f"step {step}, input {index} afterwards"] = value.clone()


def distance(actual, expected):
    """How far apart two tensors are, in tolerances: 1 is the most that passes."""
    if actual.shape != expected.shape:
        return math.inf
    if actual.numel() == 0:
        return 0.0
    actual, expected = actual.double(), expected.double()
    gap = (actual - expected).abs() / (ABSOLUTE + RELATIVE * expected.abs())
    gap = torch.where(torch.isfinite(expected), gap, (actual != expected).double() * math.inf)
    worst = gap.max().item()
    return math.inf if math.isnan(worst) else worst


def differences(actual, expected):
    """(name, distance) of everything that is further apart than rounding explains, in order of appearance."""
    missing = [(name, math.inf) for name in expected if name not in actual]
    gaps = [(name, distance(actual[name], expected[name])) for name in expected if name in actual]
    return missing + [(name, gap) for name, gap in gaps if gap > 1]


def compare(cls, config):
    """What a reproduction script runs."""
    expected, actual = train_eager(cls, config), train_poptorch(cls, config)
    apart = differences(actual, expected)
    for name, gap in apart:
        print(f"{name}: {gap:.3g} tolerances apart\n  eager    {expected[name].tolist()}\n"
              f"  poptorch {actual[name].tolist() if name in actual else 'missing'}")
    print("MISMATCH" if apart else "equal")
    return not apart
