"""Seconds of the published basics tutorial, start to end: the unchanged program beside its twin in eager PyTorch, which
is the same program with eager_twin/poptorch.py in the place of poptorch. `./dev bench basics`

Each is a process of its own, imports and pictures included. They take turns, and the best turn of each counts. Eager
runs with OPENBLAS_CORETYPE set to a CPU with AVX-512, where this one has it.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parents[1] / "shared" / "programs"
TARGET = 4.0


def environment(home, twin):
    settings = {**os.environ, "HOME": str(home), "MPLBACKEND": "Agg"}
    if twin:
        settings["PYTHONPATH"] = os.pathsep.join([str(HERE / "eager_twin"), os.environ.get("PYTHONPATH", "")])
        if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text():
            settings.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    return settings


def run(program, home, twin):
    """The seconds of one turn and the accuracy it reached."""
    start = time.perf_counter()
    result = subprocess.run([sys.executable, program], cwd=home / "run", env=environment(home, twin),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    if result.returncode != 0:
        sys.exit(f"{program} failed:\n{result.stderr[-4000:]}")
    return seconds, float(re.search(r"Eval accuracy: ([\d.]+)%", result.stdout).group(1))


def main(programs, home, turns, only):
    if not (programs / "basics.py").exists():
        print(f"no published programs in {programs}; give --programs FOLDER")
        return 0
    if not (home / "run").exists():
        subprocess.run([sys.executable, programs / "prepare", home], check=True)
    titles = {"poptorch": "poptorch", "eager": "eager PyTorch, its twin"}
    best = {}
    for turn in range(turns):
        for name in [only] if only else titles:
            seconds, accuracy = run(programs / "basics.py", home, name == "eager")
            best[name] = min(seconds, best.get(name, seconds))
            print(f"turn {turn + 1}  {titles[name]:24}{seconds:8.1f} s   accuracy {accuracy:.2f} %", flush=True)
    if only:
        return 0
    ratio = best["eager"] / best["poptorch"]
    print(f"best of {turns}: {best['poptorch']:.1f} s and {best['eager']:.1f} s, ratio {ratio:.2f}")
    print(f"target: at least {TARGET} times eager; {'reached' if ratio >= TARGET else 'missed'}")
    return ratio < TARGET


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=PROGRAMS, help="folder of the published programs")
    parser.add_argument("--home", type=pathlib.Path, help="folder with their data; prepared if it is empty")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--only", choices=["poptorch", "eager"], help="measure one of them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(arguments.programs.resolve(), (arguments.home or pathlib.Path(temporary)).resolve(),
                      arguments.turns, arguments.only))
