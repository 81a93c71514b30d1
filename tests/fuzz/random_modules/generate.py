"""Seed -> program. The same seed gives the same program, whatever ran before."""

import random as random_numbers
import warnings

from . import ingredients, judge
from .draft import Draft, Rejected
from .ingredients import setup
from .program import Program

ATTEMPTS = 50  # programs per seed; nearly always one of the first three is valid


def generate(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _first_valid(seed)


def _first_valid(seed):
    for attempt in range(ATTEMPTS):
        program = _write(seed, random_numbers.Random(f"{seed}/{attempt}"))
        if program is not None and judge.is_valid(program):
            return program
    raise RuntimeError(f"[fuzz] seed {seed}: none of {ATTEMPTS} programs runs in eager PyTorch; see generate.py")


def _config(random):
    width = random.choice((3, 4, 4, 5))
    classes = random.choice((3, 5))
    inputs = [("float", random.choice(((width,), (width,), (2, width), (3, width))))]
    if random.random() < 0.4:
        inputs.append((str(classes), random.choice(((), (), (2,)))))
    if random.random() < 0.2:
        inputs.append(("float", (width,)))
    optimizers = (
        {"name": "SGD", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.1},
        {"name": "SGD", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.1},
        {"name": "SGD", "lr": 0.2, "momentum": 0.5, "weight_decay": 0.05, "nesterov": True},
        {"name": "SGD", "lr": 0.2},
        {"name": "Adam", "lr": 0.02, "eps": 0.01, "weight_decay": 0.1},  # a large eps: else noise becomes a step
        {"name": "AdamW", "lr": 0.02, "eps": 0.01, "weight_decay": 0.1},
    )
    return {"rows": random.choice((2, 3, 4)), "steps": 3, "accumulation": random.choice((1, 1, 1, 1, 2, 3)),
            "inputs": inputs, "optimizer": random.choice(optimizers), "width": width, "classes": classes}


def _write(seed, random):
    config = _config(random)
    draft = Draft(random, config)
    setup.write(draft)
    kinds, weights = list(ingredients.FORWARD), list(ingredients.FORWARD.values())
    opening = random.sample(ingredients.OPENING, random.randint(1, 3))  # something to differentiate
    wanted, tries, used = random.randint(6, 15), 0, []
    while len(draft.forward) < wanted and tries < 60:
        tries += 1
        kind = opening.pop() if opening else random.choices(kinds, weights)[0]
        try:
            kind(draft)
            used.append(kind)
        except Rejected:
            pass
    program = Program(seed, setup=draft.setup, forward=draft.forward, config=config, kinds=used)
    _finish(draft, program)
    return program if program.losses else None


def _finish(draft, program):
    """The loss: a few numbers that depend on the last things computed; further results, with and without gradient."""
    random = draft.random
    candidates = [name for name in draft.floats() if draft.value(name).requires_grad]
    if not candidates:
        return
    chosen = [name for name in candidates if random.random() < 0.6 or name == candidates[-1]]
    terms = ("{}.mean()", "({} * 0.7).sin().mean()", "{}.pow(2).mean()", "torch.tanh({}).sum() * 0.2", "{}.sum() * 0.1")
    program.losses = [random.choice(terms).replace("{}", name) for name in chosen]
    program.losses += _labelled(draft)
    if random.random() < 0.15:
        parameter = random.choice(draft.parameters(False))
        program.losses.append(f"0.1 * {parameter}.pow(2).sum()")
    program.mark = random.choice(('poptorch.identity_loss(loss, "sum")', 'poptorch.identity_loss(loss, "mean")',
                                  "F.mse_loss(loss, torch.zeros_like(loss))", "F.l1_loss(loss, loss.detach() - 1)",
                                  'poptorch.identity_loss(loss * 1.0, "none")'))
    names = draft.variables()
    program.results = [random.choice(names) + random.choice(("", "", ".detach()")) for _ in range(random.randint(0, 3))]
    if draft.buffers() and random.random() < 0.3:
        program.results.append(random.choice(draft.buffers()) + ".clone()")


def _labelled(draft):
    """Losses of torch as terms of the final one."""
    inputs = enumerate(draft.config["inputs"])
    labels = [f"x{index}" for index, (kind, shape) in inputs if kind != "float" and not shape]
    scores = [name for name in draft.floats() if draft.value(name).dim() == 2 and draft.value(name).requires_grad
              and draft.value(name).shape[0] == draft.config["rows"]
              and draft.value(name).shape[1] >= draft.config["classes"]]
    return [f"F.cross_entropy({draft.pick(scores)}, {labels[0]})"] if labels and scores else []
