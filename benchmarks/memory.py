"""Peak memory of training, ours beside eager PyTorch. `./dev bench memory`

Each side trains each model in a process of its own, one thread: what its resident memory grows by at most, from before
the trainer or the optimiser is made (the model, its weights and the batch are there already) to the end of three steps.
So ours holds the program, the weights on the device and those on the host, what compiling takes, and what the kernels
take for themselves; eager's holds gradients, the optimiser's state, activations, and what its allocator keeps. Before
that, each side trains a small model: code that is read from disk and threads that start are no part of a model.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

from harness.measure import environment, write_json

STEPS, MEBI = 3, 1 << 20
SIDES = ("ours", "eager")


def resident(field):
    """VmRSS: resident bytes of this process; VmHWM: the most there were since `forget_peak`."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) * 1024


def forget_peak():
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def growth_of(side, name):
    """In a process of its own."""
    import networks
    import torch
    from harness import peers
    from harness.model_cases import CASES
    from harness.model_runner import made

    def train(model, inputs, optimizer):
        """What has been used, so that it is not yet torn down."""
        if side == "ours":
            used = peers.our_training(model, inputs, optimizer, 1)
            used(STEPS)
        else:
            used = peers.optimizer_of(torch.optim, optimizer, model.parameters())
            peers.eager_steps(model, inputs, STEPS, used)
        return used

    torch.set_num_threads(1)
    case = next(case for case in CASES if case.name == name)
    small = networks.WithLoss(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(288, 4)))
    train(small, [torch.randn(2, 3, 8, 8), torch.tensor([1, 2])], case.optimizer)
    model = case.with_loss(made(case)).train()
    inputs = [*case.inputs(case.batch), case.labels(case.batch)]
    forget_peak()
    before = resident("VmRSS")
    used = train(model, inputs, case.optimizer)
    peak = resident("VmHWM")
    del used
    return peak - before


def run(side, name):
    result = subprocess.run([sys.executable, __file__, "--child", side, name], env=environment(1), check=True,
                            stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout)


def measure(pattern):
    print(f"{'model':24}{'ours, MiB':>12}{'eager, MiB':>12}{'ours / eager':>14}")
    results = []
    for name in json.loads(subprocess.run([sys.executable, __file__, "--names"], check=True, stdout=subprocess.PIPE,
                                          text=True).stdout):
        if not re.search(pattern, name):
            continue
        bytes_of = {side: run(side, name) for side in SIDES}
        ours, eager = (bytes_of[side] / MEBI for side in SIDES)
        print(f"{name:24}{ours:12.1f}{eager:12.1f}{ours / eager:14.2f}", flush=True)
        results.append({"name": name, **bytes_of})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", metavar="REGEX", help="only models whose name matches")
    parser.add_argument("--json", metavar="FILE", help="writes the results as JSON")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--names", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(growth_of(*options.child)))
    elif options.names:
        from harness.model_cases import CASES
        print(json.dumps([case.name for case in CASES]))
    else:
        results = measure(options.filter)
        if options.json:
            write_json(options.json, [{"threads": 1, "results": results}])


if __name__ == "__main__":
    main()
