"""Steps per second of training the tutorial's CNN, poptorch beside eager PyTorch. `./dev bench train`

Both run on one thread and take turns in one process, so that a busy machine slows both alike; the best turn of each
counts. Eager is measured twice: as it comes, and tuned (OPENBLAS_CORETYPE set to a CPU with AVX-512, where this one has
it), since OpenBLAS does not recognise every CPU and then falls back to slow kernels. The tuned ratio is the fair one.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

SETTINGS = {"ASPEN_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
BATCH, ITERATIONS, TURNS, SECONDS_PER_TURN = 16, 20, 7, 0.5
TARGET = 2.0


def best_rate(run, steps, rate):
    """The better of `rate` and the steps per second of one more turn."""
    start, done = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < SECONDS_PER_TURN:
        run()
        done += steps
    return max(rate, done / elapsed)


def measure():
    """Prints the rates of poptorch and eager in this process, as two numbers."""
    import poptorch
    import torch
    from networks import TutorialCnn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    images = torch.randn(ITERATIONS * BATCH, 1, 28, 28)
    labels = torch.randint(0, 10, (ITERATIONS * BATCH,))

    model = TutorialCnn().train()
    options = poptorch.Options().deviceIterations(ITERATIONS).showCompilationProgressBar(False)
    trainer = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9))

    eager = TutorialCnn().train()
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.001, momentum=0.9)

    def eager_steps():
        for x, y in zip(images.split(BATCH), labels.split(BATCH)):
            optimizer.zero_grad()
            _, loss = eager(x, y)
            loss.backward()
            optimizer.step()

    trainer(images, labels)
    eager_steps()
    ours = theirs = 0.0
    for _ in range(TURNS):
        ours = best_rate(lambda: trainer(images, labels), ITERATIONS, ours)
        theirs = best_rate(eager_steps, ITERATIONS, theirs)
    print(ours, theirs)


def measure_in(environment):
    """The rates found by a process of its own: OpenBLAS reads its settings when it is loaded."""
    result = subprocess.run([sys.executable, __file__, "--measure"], env={**os.environ, **SETTINGS, **environment},
                            check=True, stdout=subprocess.PIPE, text=True)
    return [float(word) for word in result.stdout.split()]


def main():
    has_avx512 = "avx512f" in pathlib.Path("/proc/cpuinfo").read_text()
    baselines = [("eager as it comes", {})]
    if has_avx512:
        baselines.append(("eager, OPENBLAS_CORETYPE=SkylakeX", {"OPENBLAS_CORETYPE": "SkylakeX"}))
    print(f"tutorial CNN, batch {BATCH}, deviceIterations({ITERATIONS}), one thread, best of {TURNS} turns")
    print(f"{'baseline':36}{'poptorch':>12}{'eager':>12}{'ratio':>8}")
    ratios = []
    for title, environment in baselines:
        ours, theirs = measure_in(environment)
        ratios.append(ours / theirs)
        print(f"{title:36}{ours:8.0f} st/s{theirs:8.0f} st/s{ratios[-1]:8.2f}", flush=True)
    print(f"target: at least {TARGET} times eager; {'reached' if min(ratios) >= TARGET else 'missed'}")
    return min(ratios) < TARGET


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure in this process (internal)")
    sys.exit(measure() if parser.parse_args().measure else main())
