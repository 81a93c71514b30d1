"""Single operators at realistic sizes, ours beside eager PyTorch. `./dev bench ops`

Each case runs forward (poptorch.inferenceModel beside torch.inference_mode) and, where it has a gradient, training
(poptorch.trainingModel beside forward, backward and the step of torch.optim.SGD). In training what plays the
operator's input is a parameter, so that its gradient is computed and kept as well as those of the weights, and the loss
is the mean of the result.

What is compared is the operator, not the call: a call of ours makes k samples (deviceIterations(k)), and eager runs k
times, on k tensors that lie one after the other in memory just as ours do. k samples move about 4 MB, but k is at least
1, which it is for most cases, and at most 64. Both sides hold the results of all k samples at a time, both make them
anew in each call, and both times are divided by k. Eager is given every advantage: inference mode, gradients set to
none instead of filled with zeros, the fastest BLAS kernels.

The sides take turns in one process, in windows of about 4 ms or one call, and the best window of each counts. "limit"
is the share of what the machine can do: the time that the multiply-adds at their peak, or the bytes that must be read
and written at the bandwidth of as large a working set, take at least, by our time. In training that is 3 times the
multiply-adds, and reading and writing each parameter; results and gradients need not reach memory. Winograd
convolutions and bfloat16 products may exceed it.
"""
import sys

from harness import command
from harness.measure import geometric_mean

SLOW = 1 / 1.1  # a case whose ratio is below is slower than eager by more than 10 %


def line_of(result):
    if "ratio" not in result:
        return f"{result['name']:28}{result['kind']:10}{'':37} {result['note']}"
    limit = f"{result['limit']:7.0%}" if "limit" in result else ""
    mark = "slow" if result["ratio"] < SLOW else ""
    return (f"{result['name']:28}{result['kind']:10}{result['ours'] * 1e6:11.1f}{result['eager'] * 1e6:11.1f}"
            f"{result['ratio']:8.2f}{limit:7} {mark:5}{result.get('note', '')}").rstrip()


def report(run):
    """Prints a table of what was measured with one number of threads, the slowest first."""
    results = run["results"]
    print(f"\noperators, {run['threads']} thread{'s' * (run['threads'] > 1)}, microseconds of a sample")
    print(f"{'operator':28}{'kind':10}{'ours':>11}{'eager':>11}{'ratio':>8}{'limit':>7}")
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


def measure(options):
    from harness.op_cases import CASES  # of the child: the parent does without torch
    from harness.op_runner import run_cases
    return run_cases(CASES, options, line_of)


def main():
    parser = command.parser_of(__doc__, "operators", ("forward", "training"))
    parser.add_argument("--windows", type=int, default=25, help="most turns of each side (%(default)s)")
    command.run(parser, __file__, measure, report, lambda options: ["--windows", str(options.windows)])


if __name__ == "__main__":
    main()
