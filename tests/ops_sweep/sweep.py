"""Compares the operators of torch's own database with eager PyTorch: values, types and gradients.

    python tests/ops_sweep/sweep.py                      all of them
    python tests/ops_sweep/sweep.py add "linalg.*"       some of them
    python tests/ops_sweep/sweep.py --samples 0 pad      with every sample torch has

For each it says whether it is native (on the device), runs on the host, or is refused, and why; what is wrong, an
internal error or a crash fails the run. A check is one sample of the arguments in one form: as inputs of a model, as
parameters, as values computed from parameters, in place.
"""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "build" / "ops"


def run(names, samples, jobs):
    from operator_sweep import database, report, workers

    found, failures = {}, []
    keys = [operator.key for operator in database.operators(names)]

    def note(key, outcomes):
        found[key] = outcomes
        print(report.line_of(key, outcomes), flush=True)
        for failure in report.failures_of(key, outcomes):
            failures.append(failure)

    start = time.time()
    workers.sweep(keys, samples, jobs, note)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "outcomes.json").write_text(json.dumps(found, indent=1))
    if failures:
        print("\n" + "\n".join(failures))
    print(f"\n{report.summary_of(found)} ({time.time() - start:.0f} s)")
    return len(failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="names of operators; one that ends in * means all that begin so")
    parser.add_argument("--samples", type=int, default=12, help="how many of torch's samples to check; 0 for all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        from operator_sweep import workers

        workers.work()
        return 0
    return 1 if run(options.names, options.samples, options.jobs) else 0


if __name__ == "__main__":
    raise SystemExit(main())
