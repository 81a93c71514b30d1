"""What profiling costs: a training step with Options.enableProfiling beside one without. `./dev bench profiling`

Both run in one process and take turns, so that a busy machine slows both alike; the best of many short windows counts.
The profile is written meanwhile, as in any run.
"""
import argparse
import os
import sys
import tempfile

MODELS = ("A: tutorial CNN", "B: pipelining CNN")
LIMIT = 0.03  # of the time of a step
WINDOWS, SECONDS = 60, 0.05


def trainer_of(case, profile_folder):
    import poptorch

    from harness.peers import optimizer_of, quiet_options
    model = case.with_loss(case.network()).train()
    options = quiet_options()
    if profile_folder is not None:
        options.enableProfiling(profile_folder)
    return poptorch.trainingModel(model, options, optimizer_of(poptorch.optim, case.optimizer, model.parameters()))


def seconds_of_steps(case, folder):
    """Of a step without a profile, and with one."""
    from harness.measure import alternate
    batch = [*case.inputs(case.batch), case.labels(case.batch)]
    trainers = [trainer_of(case, None), trainer_of(case, folder)]
    for trainer in trainers:
        trainer(*batch)
    return alternate([lambda trainer=trainer: trainer(*batch) for trainer in trainers], WINDOWS, SECONDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1", help="ASPEN_NUM_THREADS")
    options = parser.parse_args()
    os.environ["ASPEN_NUM_THREADS"] = options.threads
    from harness.model_cases import CASES
    print(f"{'microseconds of a step':28}{'plain':>10}{'profiled':>10}{'cost':>8}")
    missed = []
    for case in CASES:
        if case.name not in MODELS:
            continue
        with tempfile.TemporaryDirectory() as folder:
            plain, profiled = seconds_of_steps(case, folder)
        cost = profiled / plain - 1
        print(f"{case.name:28}{1e6 * plain:10.1f}{1e6 * profiled:10.1f}{100 * cost:7.1f}%")
        if cost > LIMIT:
            missed.append(case.name)
    if missed:
        sys.exit(f"[profiling] more than {100 * LIMIT:.0f} % of a step: {', '.join(missed)}")


if __name__ == "__main__":
    main()
