"""What advice is worth: pipelines with uneven stages are profiled, the first advice on their stages is applied as it is
written, and the gain that it promises is compared with the one that there is. `./dev bench advice`

Each model trains on two devices, each with a cpu of its own; the second stage begins much too late or much too early. The
blocks that the advice says are executed on a copy of the model. Then the two take turns, so that a busy machine slows
both alike, and the best turn of each counts.
"""
import argparse
import copy
import json
import pathlib
import re
import sys
import tempfile
import time

import torch

import auto_pipeline
import poptorch

TARGET = 0.8  # of the gain that is promised
SECONDS, TURNS = 2.0, 9  # of the run that is profiled; of each of the two that are compared

# Models and the module that their second stage begins with.
CASES = {"transformer, late": (auto_pipeline.transformer, "model.network.layers[5]"),
         "transformer, early": (auto_pipeline.transformer, "model.network.layers[0]"),
         "resnet18, late": (auto_pipeline.resnet18, "model.network.layer4"),
         "resnet18, early": (auto_pipeline.resnet18, "model.network.layer1[1]")}


def trainer_of(model, blocks, profile=None):
    model = copy.deepcopy(model)
    exec(blocks, {"poptorch": poptorch, "model": model})  # pylint: disable=exec-used
    options = poptorch.Options().showCompilationProgressBar(False)
    options.setExecutionStrategy(poptorch.PipelinedExecution())
    options.Training.gradientAccumulation(auto_pipeline.ACCUMULATION)
    if profile is not None:
        options.enableProfiling(str(profile))
    return poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=1e-3))


def advice_on_stages(model, data, blocks):
    """The blocks that the profile of a run asks for, and the gain they promise."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(model, blocks, folder)
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            trainer(*data)
        trainer.destroy()
        advice = json.loads((pathlib.Path(folder) / "training" / "profile.json").read_text())["analysis"]["advice"]
    for title, how, gain in zip(advice["title"], advice["how"], advice["gain"]):
        written = re.findall(r"poptorch\.BeginBlock\(.*?, ipu_id=\d+\)", how)
        if title.startswith("Move work") and written:
            return "\n".join(written), gain
    sys.exit(f"[advice] nothing is said about {blocks}: {advice['title']}")


def gain_of(model, data, before, after):
    """The part of the time of a step that is saved."""
    trainers = [trainer_of(model, blocks) for blocks in (before, after)]
    best = [float("inf")] * 2
    for turn in range(TURNS + 1):
        for i, trainer in enumerate(trainers):
            trainer(*data)
            seconds = auto_pipeline.seconds_of(trainer, data, 1)
            if turn > 0:  # the first warms up
                best[i] = min(best[i], seconds)
    return 1 - best[1] / best[0], best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=", ".join(f'"{name}"' for name in CASES))
    missed = []
    print(f"{'':20}{'before':>10}{'after':>10}{'promised':>10}{'reached':>10}{'of it':>8}  advice")
    for name in parser.parse_args().cases or CASES:
        build, begin = CASES[name]
        torch.manual_seed(0)
        model, data = build()
        before = f"poptorch.BeginBlock({begin}, ipu_id=1)"
        after, promised = advice_on_stages(model, data, before)
        reached, (slow, fast) = gain_of(model, data, before, after)
        print(f"{name:20}{1e3 * slow:7.1f} ms{1e3 * fast:7.1f} ms{100 * promised:8.1f} %{100 * reached:8.1f} %"
              f"{100 * reached / promised:6.0f} %  {after}", flush=True)
        if reached < TARGET * promised:
            missed.append(name)
    print("targets: " + ("reached" if not missed else "missed: " + ", ".join(missed)))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
