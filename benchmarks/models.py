"""Whole models, ours beside eager PyTorch, frozen torch.jit and ONNX Runtime. `./dev bench models`

Training: a call of ours makes k steps (deviceIterations(k), about 10 ms), eager makes k steps with the same batches; it
sets gradients to none, and its optimiser runs in the faster one of its two ways. Inference: one call with a batch of 1
or 8 samples, as a program that answers requests makes it; eager runs in inference mode. ONNX Runtime runs in a process
of node and is told when its turn comes; its times hold what the binding of node costs.

All sides take turns, in windows of about 30 ms or one call, and the best window of each counts. A ratio
says how many times faster we are. "limit" is the share of what the machine can do: the time that the multiply-adds of
products and convolutions at their peak, or reading the parameters and inputs (in training: reading and writing
parameters and the optimiser's state) take at least, by our time.
"""
import argparse
import json
import pathlib
import sys

from harness.measure import describe_baseline, in_child

KINDS = ("training", "inference")
PEERS = ("eager", "jit", "onnx")


def milliseconds(seconds):
    return f"{seconds * 1e3:10.3f}" if seconds is not None else " " * 10


def line_of(result):
    if "ours" not in result:
        return f"{result['name']:24}{result['note']}"
    ratios = "".join(f"{result[peer] / result['ours']:7.2f}" if peer in result else " " * 7 for peer in PEERS)
    limit = f"{result['limit']:7.0%}" if "limit" in result else ""
    differ = f"  results differ: {', '.join(result['differ'])}" if result.get("differ") else ""
    return (f"{result['name']:24}{result['kind']:10}{result['batch']:4}{milliseconds(result['ours'])}"
            f"{''.join(milliseconds(result.get(peer)) for peer in PEERS)}{ratios}{limit}{differ}")


def report(run):
    print(f"\nmodels, {run['threads']} thread{'s' * (run['threads'] > 1)}, milliseconds of a step or a call, "
          "and how many times faster we are")
    print(f"{'model':24}{'kind':10}{'n':>4}{'ours':>10}{''.join(f'{peer:>10}' for peer in PEERS)}"
          f"{''.join(f'{peer:>7}' for peer in PEERS)}{'limit':>7}")
    for result in sorted(run["results"], key=lambda r: KINDS.index(r.get("kind", KINDS[0]))):
        print(line_of(result))
    sys.stdout.flush()


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", metavar="REGEX", help="only models whose name matches")
    parser.add_argument("--threads", type=int, action="append", help="number of threads; may be given more than once")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", dest="kinds", action="append_const", const=kind, help=f"only {kind}")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS, help="beside which we run")
    parser.add_argument("--json", metavar="FILE", help="writes the results as JSON")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.threads, options.kinds = options.threads or [1, 2], options.kinds or KINDS
    return options


def measure_in_child(options):
    baseline = describe_baseline()
    from harness.model_cases import CASES
    from harness.model_runner import run_cases
    json.dump([baseline, run_cases(CASES, options, line_of)], sys.stdout)


def main(arguments):
    options = parse(arguments)
    if options.child:
        return measure_in_child(options)
    runs = []
    for threads in options.threads:
        runs.append(in_child(__file__, threads, ["--filter", options.filter, *(f"--{kind}" for kind in options.kinds),
                                                 "--peers", *options.peers]))
        report(runs[-1])
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
