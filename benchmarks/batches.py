"""Training with larger and larger batches: a sample should never take longer in a larger one. `./dev bench batches`

Measured as in `./dev bench models`, eager taking turns. "gain" says how many times more samples go through in a second
than with the smallest batch.
"""
import dataclasses
import re
import sys

from harness import command

BATCHES = (16, 32, 64, 128, 256, 512, 1024)
MODELS = "A:|B:|MLP|DLRM"  # whose batches of 1,024 fit any machine
KINDS = ("training",)


def line_of(result):
    return (f"{result['name']:24}{result['batch']:6}{result['ours'] / result['batch'] * 1e6:12.2f}"
            f"{result['eager'] / result['batch'] * 1e6:12.2f}{result['eager'] / result['ours']:8.2f}")


def gains(results):
    """Of each model by batch."""
    by_model = {}
    for result in results:
        by_model.setdefault(result["name"], {})[result["batch"]] = result["batch"] / result["ours"]
    return {name: {batch: rate / rates[min(rates)] for batch, rate in rates.items()}
            for name, rates in by_model.items()}


def report(run):
    print(f"\nmicroseconds of a sample in training, {run['threads']} thread{'s' * (run['threads'] > 1)}")
    print(f"{'model':24}{'batch':>6}{'ours':>12}{'eager':>12}{'ratio':>8}{'gain':>8}")
    gain = gains(run["results"])
    for result in run["results"]:
        print(f"{line_of(result)}{gain[result['name']][result['batch']]:8.2f}")
    sys.stdout.flush()


def measure(options):
    import torch  # of the child: the parent does without torch

    from harness.model_cases import CASES
    from harness.model_runner import measure_training
    torch.set_num_threads(options.threads[0])
    results = []
    for case in CASES:
        if not re.search(MODELS, case.name) or not re.search(options.filter, case.name):
            continue
        for batch in BATCHES:
            results.append({"name": case.name, **measure_training(dataclasses.replace(case, batch=batch), options)})
            print(line_of(results[-1]), file=sys.stderr, flush=True)
    return results


def main():
    command.run(command.parser_of(__doc__, "models", KINDS), __file__, measure, report, lambda options: [])


if __name__ == "__main__":
    main()
