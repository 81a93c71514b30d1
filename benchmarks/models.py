"""Whole models, ours beside eager PyTorch, frozen torch.jit and ONNX Runtime. `./dev bench models`

Training: a call of ours makes k steps (deviceIterations(k), about 5 ms), eager makes k steps with the same batches; it
sets gradients to none, and its optimiser runs in the faster one of its two ways. Inference: one call with a batch of 1
or 8 samples, as a program that answers requests makes it; eager runs in inference mode. ONNX Runtime runs in a process
of node and is told when its turn comes; its times hold what the binding of node costs.

All sides take turns, in windows of about 5 ms or one call, and the best window of each counts. A ratio
says how many times faster we are. "limit" is the share of what the machine can do: the time that the multiply-adds of
products and convolutions at their peak, or reading the parameters and inputs (in training: reading and writing
parameters and the optimiser's state) take at least, by our time.
"""
import sys

from harness import command

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


def measure(options):
    from harness.model_cases import CASES  # of the child: the parent does without torch
    from harness.model_runner import run_cases
    return run_cases(CASES, options, line_of)


def main():
    parser = command.parser_of(__doc__, "models", KINDS)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS, help="beside which we run")
    command.run(parser, __file__, measure, report, lambda options: ["--peers", *options.peers])


if __name__ == "__main__":
    main()
