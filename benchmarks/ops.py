"""Single operators at realistic sizes, ours beside eager PyTorch. `./dev bench ops`

Each case runs forward (poptorch.inferenceModel beside torch.inference_mode) and, where it has a gradient, training
(poptorch.trainingModel beside forward, backward and the step of torch.optim.SGD). In training what plays the operator's
input is a parameter, so that its gradient is computed and kept as well as those of the weights, and the loss is the mean
of the result.

What is compared is the operator, not the call: a call of ours makes k samples (deviceIterations(k)), and eager runs k
times, on k tensors that lie one after the other in memory just as ours do. k is chosen so that eager takes about half a
millisecond (but at most 64 and no more than 64 MB of samples), and is 1 for most cases. Both sides hold the results of
all k samples at a time, both make them anew in each call, and both times are divided by k. Eager is given every
advantage: inference mode, gradients set to none instead of filled with zeros, the fastest BLAS kernels.

The sides take turns in one process, in windows of about 12 ms, and the best window of each counts.
"""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time

WINDOW_SECONDS, SHORTEST_CALL, MOST_SAMPLES, MOST_BYTES = 0.012, 0.5e-3, 64, 64 << 20
SLOW = 1 / 1.1  # a case whose ratio is below is slower than eager by more than 10 %
THREAD_SETTINGS = ("ASPEN_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Operator:
    """Makes the two sides of a case: callables that run k samples each."""

    def __init__(self, case, kind):
        import torch
        self.case, self.kind, self.is_training = case, kind, kind == "training"
        torch.manual_seed(0)
        self.values = [argument.make() for argument in case.arguments]

    def module(self):
        """The operator as a module that owns its weights, and in training what plays its inputs."""
        import copy

        import poptorch
        import torch
        arguments, values, is_training, function = self.case.arguments, self.values, self.is_training, self.case.function
        is_parameter = [a.role == "weight" or a.role == "activation" and is_training for a in arguments]

        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                for n, (argument, value) in enumerate(zip(arguments, values)):
                    if argument.role == "layer":
                        self.add_module(f"argument{n}", copy.deepcopy(value))
                    elif is_parameter[n]:
                        self.register_parameter(f"argument{n}", torch.nn.Parameter(value.clone()))

            def forward(self, *inputs):
                rest = iter(inputs)
                result = function(*(getattr(self, f"argument{n}") if a.role == "layer" or is_parameter[n] else next(rest)
                                    for n, a in enumerate(arguments)))
                if not is_training:
                    return result
                return poptorch.identity_loss(result[0] if isinstance(result, tuple) else result, "mean")

        return Module().train(is_training)

    def inputs(self, samples):
        """What is passed to the call: `samples` times the same values, one after the other in memory."""
        import torch
        passed = [value for a, value in zip(self.case.arguments, self.values)
                  if a.role == "data" or a.role == "activation" and not self.is_training]
        return [torch.cat([value] * samples) for value in passed]

    def eager(self, samples):
        import torch
        module, inputs = self.module(), self.inputs(samples)
        rows = [value.chunk(samples) for value in inputs]
        rows = list(zip(*rows)) if rows else [()] * samples
        if not self.is_training:
            def forward():
                with torch.inference_mode():
                    return [module(*row) for row in rows]
            return forward
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-6)

        def train():
            for row in rows:
                optimizer.zero_grad(set_to_none=True)
                loss = module(*row)
                loss.backward()
                optimizer.step()
            return loss
        return train

    def ours(self, samples):
        import poptorch
        module, inputs = self.module(), self.inputs(samples)
        options = poptorch.Options().deviceIterations(samples).showCompilationProgressBar(False)
        if self.is_training:
            model = poptorch.trainingModel(module, options, poptorch.optim.SGD(module.parameters(), lr=1e-6))
        else:
            model = poptorch.inferenceModel(module, options)
        return lambda: model(*inputs)

    def agrees(self):
        """Whether one sample has the same result on both sides, roughly: that the same thing is measured."""
        import torch
        ours, eager = self.ours(1)(), self.eager(1)()
        eager = eager if self.is_training else eager[0]
        pairs = zip(ours, eager) if isinstance(eager, tuple) else [(ours, eager)]
        return all(a.shape == b.shape and torch.allclose(a.float(), b.float(), rtol=2e-2, atol=2e-2) for a, b in pairs)


def seconds_of(run, repeats=1):
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def measure(case, kind, windows):
    """Best seconds of one sample on each side, and what went into them."""
    operator = Operator(case, kind)
    result = {"name": case.name, "kind": kind}
    if case.is_comparable and not operator.agrees():
        result["note"] = "results differ"
    once = operator.eager(1)
    shortest = min(seconds_of(once) for _ in range(5))
    bytes_of_sample = sum(value.numel() * value.element_size() for value in operator.inputs(1)) or 1
    samples = max(1, min(round(SHORTEST_CALL / shortest), MOST_SAMPLES, MOST_BYTES // bytes_of_sample))
    sides = [operator.ours(samples), operator.eager(samples)]
    repeats = [max(1, round(WINDOW_SECONDS / min(seconds_of(side) for _ in range(3)))) for side in sides]
    best = [math.inf, math.inf]
    for _ in range(windows):
        best = [min(b, seconds_of(side, n)) for b, side, n in zip(best, sides, repeats)]
    ours, eager = (seconds / samples for seconds in best)
    return {**result, "ours": ours, "eager": eager, "ratio": eager / ours, "samples": samples}


def run_cases(options):
    """Measures the chosen cases in this process; results are printed as they come."""
    import torch

    from op_cases import CASES
    torch.set_num_threads(options.threads[0])
    results = []
    for case in CASES:
        for kind in case.kinds:
            if kind not in options.kinds or not re.search(options.filter, case.name):
                continue
            try:
                result = measure(case, kind, options.windows)
            except Exception as error:  # one operator that cannot run must not hide the others
                result = {"name": case.name, "kind": kind, "note": str(error).strip().splitlines()[0][:100]}
            results.append(result)
            print(line_of(result), file=sys.stderr, flush=True)
    return results


def line_of(result):
    if "ratio" not in result:
        return f"{result['name']:28}{result['kind']:10}{'':30} {result['note']}"
    return (f"{result['name']:28}{result['kind']:10}{result['ours'] * 1e6:11.1f}{result['eager'] * 1e6:11.1f}"
            f"{result['ratio']:8.2f} {'slow' if result['ratio'] < SLOW else '':5}{result.get('note', '')}").rstrip()


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def report(results, threads):
    print(f"\noperators, {threads} thread{'s' * (threads > 1)}, microseconds of a sample, slowest first")
    print(f"{'operator':28}{'kind':10}{'ours':>11}{'eager':>11}{'ratio':>8}")
    for result in sorted(results, key=lambda r: r.get("ratio", 0)):
        print(line_of(result))
    for kind in ("forward", "training"):
        ratios = [r["ratio"] for r in results if r["kind"] == kind and "ratio" in r]
        if ratios:
            print(f"{kind}: {len(ratios)} cases, geometric mean {geometric_mean(ratios):.2f} times eager, "
                  f"{sum(ratio < SLOW for ratio in ratios)} slower than eager by more than 10 %")
    failed = sum("ratio" not in r for r in results)
    if failed:
        print(f"{failed} cases did not run")
    sys.stdout.flush()


def environment(threads):
    """Of a process that measures: OpenBLAS reads its settings when it is loaded, and does not know every CPU."""
    settings = {name: str(threads) for name in THREAD_SETTINGS}
    if "OPENBLAS_CORETYPE" not in os.environ and "avx512f" in pathlib.Path("/proc/cpuinfo").read_text():
        settings["OPENBLAS_CORETYPE"] = "SkylakeX"
    return {**os.environ, **settings}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", metavar="REGEX", help="only operators whose name matches")
    parser.add_argument("--threads", type=int, action="append", help="number of threads; may be given more than once")
    parser.add_argument("--forward", dest="kinds", action="append_const", const="forward", help="only forward")
    parser.add_argument("--training", dest="kinds", action="append_const", const="training", help="only training")
    parser.add_argument("--windows", type=int, default=9, help="turns of each side (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="writes the results as JSON")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.threads, options.kinds = options.threads or [1, 2], options.kinds or ["forward", "training"]
    return options


def main(arguments):
    options = parse(arguments)
    if options.child:
        json.dump(run_cases(options), sys.stdout)
        return
    everything = []
    for threads in options.threads:
        command = [sys.executable, __file__, "--child", "--threads", str(threads), "--filter", options.filter,
                   "--windows", str(options.windows), *(f"--{kind}" for kind in options.kinds)]
        child = subprocess.run(command, env=environment(threads), check=True, stdout=subprocess.PIPE, text=True)
        results = json.loads(child.stdout)
        report(results, threads)
        everything += [{**result, "threads": threads} for result in results]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
