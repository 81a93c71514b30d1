"""How long a model takes from capture to program. `./dev bench compile`"""
import sys
import time

import poptorch
import torch

from networks import TutorialCnn, resnet18

REPEATS = 3


def measure(make_model, images, labels):
    """Shortest of a few compilations, in seconds; each starts from a new model."""
    times = []
    for _ in range(REPEATS):
        model = make_model().train()
        options = poptorch.Options().showCompilationProgressBar(False)
        trainer = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9))
        start = time.perf_counter()
        trainer.compile(images, labels)
        times.append(time.perf_counter() - start)
        trainer.destroy()
    return min(times)


def main():
    cases = [
        ("tutorial CNN, batch 16", TutorialCnn, (16, 1, 28, 28), 0.3),
        ("resnet18 64x64, batch 8", resnet18, (8, 3, 64, 64), 2.0),
    ]
    print(f"{'compile for training':28}{'seconds':>9}{'target':>9}")
    too_slow = 0
    for title, make_model, shape, target in cases:
        seconds = measure(make_model, torch.randn(shape), torch.zeros(shape[0], dtype=torch.long))
        too_slow += seconds > target
        print(f"{title:28}{seconds:9.3f}{'< ' + str(target):>9}{'' if seconds <= target else '   missed'}", flush=True)
    return too_slow


if __name__ == "__main__":
    sys.exit(main())
