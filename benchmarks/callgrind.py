"""Instructions of a step of models A and B, as callgrind counts them: numbers without noise. `./dev bench callgrind`

A program is compiled and stored, then run from the file on one thread for two numbers of steps; the difference of the
counts is what the inner loop takes, without loading, without Python and without the call. valgrind knows no AVX-512:
programs are compiled for AVX2, so that counts show changes rather than the speed of a machine that has more.

Each program also runs on a runtime that cannot record profiles (unrecorded_steps): as nobody asks for a profile, a step
must take as many instructions as there. Compilers pad and spill as they like: two builds of the same loop differ by an
instruction or two every time it is entered, so that no more than LIMIT of a step counts as none.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ("A: tutorial CNN", "B: pipelining CNN")
FEW, MANY = 5, 15
LIMIT = 1e-5
os.environ.update({"ASPEN_CPU_ISA": "avx2", "DNNL_MAX_CPU_ISA": "AVX2", "ASPEN_NUM_THREADS": "1"})


def stored_programs(folder):
    """Paths of the programs of training and of inference with one sample, by model and kind."""
    import poptorch

    from harness.model_cases import CASES
    from harness.peers import optimizer_of, quiet_options
    programs = {}
    for case in CASES:
        if case.name not in MODELS:
            continue
        model = case.with_loss(case.network()).train()
        trainer = poptorch.trainingModel(model, quiet_options(),
                                         optimizer_of(poptorch.optim, case.optimizer, model.parameters()))
        programs[case.name, "training", case.batch] = (trainer, [*case.inputs(case.batch), case.labels(case.batch)])
        programs[case.name, "inference", 1] = (poptorch.inferenceModel(case.network().eval(), quiet_options()),
                                               case.inputs(1))
    paths = {}
    for n, (key, (executor, inputs)) in enumerate(programs.items()):
        paths[key] = folder / f"{n}.poptorch"
        executor.compileAndExport(str(paths[key]), *inputs)
    return paths


def instructions_of(program, path, steps):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
               ROOT / "build/release/benchmarks" / program, path, str(steps)]
    result = subprocess.run(command, capture_output=True, text=True)
    counted = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode or not counted:
        sys.exit(f"[callgrind] {' '.join(map(str, command))} ended with {result.returncode}:\n{result.stderr[-2000:]}")
    return int(counted[1])


def instructions_of_step(program, path):
    return (instructions_of(program, path, MANY) - instructions_of(program, path, FEW)) / (MANY - FEW)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="writes the results as JSON")
    options = parser.parse_args()
    results, missed = [], []
    print(f"{'model':24}{'kind':10}{'n':>4}{'instructions of a step':>26}{'without recording':>20}{'difference':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for (name, kind, batch), path in stored_programs(pathlib.Path(folder)).items():
            count, without = (instructions_of_step(f"{runtime}_steps", path) for runtime in ("program", "unrecorded"))
            print(f"{name:24}{kind:10}{batch:4}{count:26,.0f}{without:20,.0f}{count - without:12,.1f}", flush=True)
            results.append({"name": name, "kind": kind, "batch": batch, "instructions": count})
            if count > (1 + LIMIT) * without:
                missed.append(name)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    if missed:
        sys.exit(f"[callgrind] steps of {', '.join(missed)} take longer where profiles could be recorded")


if __name__ == "__main__":
    main()
