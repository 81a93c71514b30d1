"""Trains random modules in eager PyTorch and through poptorch, and leaves a small script for each that differs.

    python tests/fuzz/run.py --modules 2000 --seed 1      module N of the run is that of seed + N
    python tests/fuzz/run.py --one 17                     one module, shrunk if it fails
    python tests/fuzz/run.py --show 17                    prints it

Modules run in processes of their own, so that one that crashes is a failure like others.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import time

os.environ.setdefault("POPTORCH_LOG_LEVEL", "ERR")
OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "build" / "fuzz"


def check(seed, shrunk=True, alone=False):
    """None, or the failure of this seed's module, with a script in build/fuzz. `alone`: see `judge.py`."""
    from random_modules import generate, judge, shrink

    program = generate.generate(seed)
    failure = judge.failure_of(program, alone)
    if failure is None:
        return None
    if shrunk:
        program = shrink.shrink(program, failure.kind)
        failure = judge.failure_of(program, alone=True) or failure  # a crash need not come every time
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / f"{seed}.py").write_text(program.script(failure.details))
    return {"kind": failure.kind, "details": failure.details, "module": program.model_text()}


def work(seeds, shrink):
    """A worker: a line when a module starts, a line when it is done."""
    import torch
    import random_modules.training  # what cannot be loaded is no module's fault

    torch.set_num_threads(1)
    for seed in seeds:
        print(json.dumps({"start": seed}), flush=True)
        failure = check(seed, shrink > 0)
        shrink -= failure is not None
        print(json.dumps({"done": seed, "failure": failure}), flush=True)


class Worker:
    """A process that works through seeds, and another one where the first crashes."""

    def __init__(self, seeds, shrink):
        """`shrink`: how many failing modules to make small; each takes seconds."""
        self._seeds, self._shrink = seeds, shrink

    def results(self):
        """(seed, failure or None) for each."""
        while self._seeds:
            process = self._start("--work", f"{self._seeds[0]}:{self._seeds[-1] + 1}")
            current = None
            for line in process.stdout:
                message = json.loads(line)
                if "start" in message:
                    current = message["start"]
                    continue
                self._seeds = range(message["done"] + 1, self._seeds[-1] + 1)
                self._shrink -= message["failure"] is not None
                yield message["done"], message["failure"]
            code = process.wait()
            if current is None:
                raise RuntimeError(f"[fuzz] a process ended with {code} before its first module; see above")
            if self._seeds:
                self._seeds = range(current + 1, self._seeds[-1] + 1)
                yield current, self._crash(current, code)

    def _start(self, *arguments):
        command = [sys.executable, __file__, *arguments, "--shrink", str(max(self._shrink, 0))]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def _crash(self, seed, code):
        details, _ = self._start("--one", str(seed)).communicate()
        self._shrink -= 1
        return {"kind": f"crash {code}", "details": details, "module": ""}


def run(first, count, jobs, shrink):
    from concurrent.futures import ThreadPoolExecutor

    size = -(-count // jobs)
    shares = [range(start, min(start + size, first + count)) for start in range(first, first + count, size)]
    kinds = collections.Counter()

    def share(seeds):
        for seed, failure in Worker(seeds, shrink).results():
            if failure is not None:
                kinds[failure["kind"]] += 1
                print(f"== {seed}: {failure['kind']}\n{failure['details']}\n{failure['module']}", flush=True)

    start = time.time()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(share, shares))
    for kind, number in kinds.most_common():
        print(f"{number:5} {kind}")
    failures = sum(kinds.values())
    print(f"fuzz: {count} modules from seed {first}, {failures} failures ({time.time() - start:.0f} s)")
    if failures:
        print(f"scripts in {OUTPUT}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=None, help="first seed; by default one of the clock")
    parser.add_argument("--one", type=int, help="only the module of this seed")
    parser.add_argument("--show", type=int, help="print the module of this seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--shrink", type=int, default=20, help="how many failing modules each process makes small")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(range(*map(int, options.work.split(":"))), options.shrink)
    elif options.show is not None:
        from random_modules import generate

        print(generate.generate(options.show).script("as generated"))
    elif options.one is not None:
        failure = check(options.one, options.shrink > 0, alone=True)
        script = OUTPUT / f"{options.one}.py"
        print(f"{failure['details']}\n{failure['module']}\nscript: {script}" if failure else "equal")
        return 1 if failure else 0
    else:
        seed = int(time.time()) if options.seed is None else options.seed
        return 1 if run(seed, options.modules, options.jobs, options.shrink) else 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
