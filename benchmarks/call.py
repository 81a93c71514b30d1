"""What one call costs beside its steps: the time of a call of one step less a step's share of a call of a hundred.
`./dev bench call`

Tiny models, so that little but the call is left: arguments, checks, weights that may have changed, outputs. Both run in
one process and take turns, so that a busy machine slows both alike; the best of many short turns counts.
"""
import os
import sys
import time

import poptorch
import torch
from torch import nn

BATCH, WIDTH, MANY, TURNS, SECONDS_PER_TURN = 4, 8, 100, 100, 0.01
LIMIT = 10.0  # microseconds


class Layers(nn.Module):
    def __init__(self, depth, trains):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(depth)))
        self.trains = trains

    def forward(self, x, target):
        x = self.layers(x)
        return (x, nn.functional.mse_loss(x, target)) if self.trains else x + target


class Contender:
    """A model that runs so many steps a call, and its best time so far."""

    def __init__(self, depth, trains, steps):
        options = poptorch.Options().deviceIterations(steps).showCompilationProgressBar(False)
        model = Layers(depth, trains)
        if trains:
            self.run = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.01))
        else:
            self.run = poptorch.inferenceModel(model, options)
        self.batch = torch.randn(steps * BATCH, WIDTH), torch.randn(steps * BATCH, WIDTH)
        self.run(*self.batch)
        self.best = float("inf")

    def turn(self):
        start, calls = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - start) < SECONDS_PER_TURN:
            self.run(*self.batch)
            calls += 1
        self.best = min(self.best, 1e6 * elapsed / calls)


def main():
    os.environ.setdefault("ASPEN_NUM_THREADS", "1")
    torch.set_num_threads(1)
    print(f"{'microseconds':32}{'one step':>10}{'of ' + str(MANY):>10}{'a call':>10}")
    missed = []
    for title, depth, trains in (("inference, 1 layer", 1, False), ("training, 1 layer", 1, True),
                                 ("inference, 30 layers", 30, False), ("training, 30 layers", 30, True)):
        one, many = Contender(depth, trains, 1), Contender(depth, trains, MANY)
        for _ in range(TURNS):
            one.turn()
            many.turn()
        cost = one.best - many.best / MANY
        print(f"{title:32}{one.best:10.2f}{many.best / MANY:10.2f}{cost:10.2f}", flush=True)
        if cost > LIMIT:
            missed.append(title)
    print(f"target: a call costs at most {LIMIT:.0f} microseconds; "
          + ("reached" if not missed else "missed by " + ", ".join(missed)))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
