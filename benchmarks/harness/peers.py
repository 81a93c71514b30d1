"""The sides of a comparison of whole models: ours, eager PyTorch, torch.jit, ONNX Runtime. Each is a function of how
often it runs, which returns the seconds that took."""
import functools
import json
import pathlib
import subprocess
import tempfile
import warnings

import poptorch
import torch

from .measure import ROOT, seconds_of

ONNX_MODULE = ROOT / "build/onnxruntime/node_modules/onnxruntime-node"


def timed(run):
    return lambda repeats: repeats * seconds_of(run, repeats)


def quiet_options():
    return poptorch.Options().showCompilationProgressBar(False)


# ---- Inference: one call with one batch

def our_inference(network, inputs):
    model = poptorch.inferenceModel(network, quiet_options())
    return timed(lambda: model(*inputs)), model(*inputs)


def eager_inference(network, inputs):
    def run():
        with torch.inference_mode():
            return network(*inputs)
    return timed(run), run()


def jit_inference(network, inputs):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.jit.freeze(torch.jit.trace(network, inputs, check_trace=False))

    def run():
        with torch.inference_mode():
            return model(*inputs)
    for _ in range(4):  # the executor of torch.jit profiles, then compiles
        run()
    return timed(run), run()


class OnnxRuntime:
    """A process of node that holds the model; it is told how often to run it and answers with the seconds."""

    def __init__(self, network, inputs, threads):
        if not ONNX_MODULE.exists():
            raise RuntimeError(f"onnxruntime-node is not at {ONNX_MODULE}; ./dev bench models installs it, "
                               "--peers eager jit goes without")
        self.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.folder.name)
        described = []
        for n, value in enumerate(inputs):
            value.numpy().tofile(folder / f"input{n}")
            described.append({"type": str(value.dtype).split(".")[1], "shape": list(value.shape),
                              "file": str(folder / f"input{n}")})
        (folder / "inputs.json").write_text(json.dumps(described))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(network, tuple(inputs), str(folder / "model.onnx"), opset_version=14)
        script = pathlib.Path(__file__).with_name("onnx_peer.js")
        self.process = subprocess.Popen(
            ["node", script, ONNX_MODULE, folder / "model.onnx", str(threads), folder / "inputs.json"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = torch.tensor(json.loads(self.process.stdout.readline()))  # the beginning of its result

    def __call__(self, repeats):
        self.process.stdin.write(f"{repeats}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.folder.cleanup()


# ---- Training: a call of ours makes `steps` steps, eager does as many

def optimizer_of(library, name, parameters, **more):
    settings = {"SGD": {"lr": 1e-4, "momentum": 0.9}, "AdamW": {"lr": 1e-5}}[name]
    return getattr(library, name)(parameters, **settings, **more)


def our_training(model, inputs, optimizer, steps):
    options = quiet_options().deviceIterations(steps)
    trainer = poptorch.trainingModel(model, options, optimizer_of(poptorch.optim, optimizer, model.parameters()))
    inputs = [torch.cat([value] * steps) for value in inputs]
    return timed(lambda: trainer(*inputs))


def eager_training(make_model, inputs, optimizer, steps):
    """The faster one of the optimiser's two ways: a loop over the parameters in Python, or lists of them at once."""
    runs = []
    for foreach in (False, True):
        model = make_model()
        runs.append(functools.partial(eager_steps, model, inputs, steps,
                                      optimizer_of(torch.optim, optimizer, model.parameters(), foreach=foreach)))
    return timed(min(runs, key=lambda run: min(seconds_of(run) for _ in range(3))))


def eager_steps(model, inputs, steps, optimizer):
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        _, loss = model(*inputs)
        loss.backward()
        optimizer.step()
