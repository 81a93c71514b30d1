"""What __init__ makes: parameters, buffers, sub-modules, ties and hooks that stay."""

from .hooks import hook


def write(draft):
    width, random = draft.config["width"], draft.random
    shapes = [(width,), (width, width), (draft.config["classes"], width), (1, width), (), (3, width), (width, 2)]
    for index in range(random.randint(1, 4)):
        shape = random.choice(shapes)
        trainable = "" if random.random() < 0.9 or index == 0 else ", requires_grad=False"
        draft.add_setup(f"self.w{index} = nn.Parameter({draft.number(0.3, 0.9)} * torch.randn({shape}){trainable})")
    for index in range(random.choice((0, 0, 1, 1, 2))):
        shape = random.choice(shapes)
        value = random.choice((f"torch.zeros({shape})", f"torch.ones({shape})", f"0.5 * torch.randn({shape})"))
        draft.add_setup(f'self.register_buffer("b{index}", {value})')
    for index in range(random.choice((0, 1, 1, 2, 2, 3))):
        draft.add_setup(f"self.m{index} = {_layer(draft)}")
    _ties(draft)
    _parameter_hooks(draft)
    _module_hooks(draft)


def _layer(draft):
    width, random = draft.config["width"], draft.random
    plain = [f"nn.Linear({width}, {width})"] * 3 + [
        f"nn.Linear({width}, {width}, bias=False)",
        f"nn.Sequential(nn.Linear({width}, {width}), nn.ReLU(inplace=True))",
        f"RunningMean({width})", f"DetachedStatistics({width})", "Remembers()", f"Clipped({width})",
        f"UnitRows({width})", f"Quantised({width})", f"Gate({width})", f"Autoencoder({width})",
        f"SmoothedTarget({width})", f"TwoHeads({width})", f"ScaledInside({width})",
    ]
    others = [
        f"nn.LayerNorm({width}, eps=0.1)",
        f"nn.BatchNorm1d({width}, eps=0.5)",
        f"nn.Embedding({draft.config['classes']}, {width})",
        f"nn.Embedding({draft.config['classes']}, {width}, max_norm=1.0)",
        f"nn.Embedding({draft.config['classes']}, {width}, padding_idx=0)",
        "nn.Conv1d(2, 2, 3, padding=1)", "nn.Conv1d(3, 2, 2)",
        f"nn.utils.weight_norm(nn.Linear({width}, {width}))",
        f"nn.utils.spectral_norm(nn.Linear({width}, {width}))",
    ]
    wrapped = [f"Residual({layer})" for layer in plain] + [f"nn.Sequential({a}, nn.Tanh(), {a})" for a in plain[5:]]
    return random.choice(random.choice((plain, plain, others, wrapped)))


def _ties(draft):
    random = draft.random
    if random.random() < 0.1:
        draft.add_setup("self.tied = self.w0")
    names = [name for name in draft.modules() if "weight" in draft.value(f"self.{name}")._parameters]
    if len(names) > 1 and random.random() < 0.6:
        a, b = random.sample(names, 2)
        weights = draft.value(f"self.{a}.weight"), draft.value(f"self.{b}.weight")
        if weights[0].shape == weights[1].shape:
            draft.add_setup(f"self.{a}.weight = self.{b}.weight")
    fitting = [name for name in names if draft.value(f"self.{name}.weight").shape == draft.value("self.w0").shape]
    if fitting and random.random() < 0.2:
        draft.add_setup(f"self.{fitting[0]}.weight = self.w0")


def _parameter_hooks(draft):
    for parameter in draft.parameters():
        if draft.random.random() < 0.12:
            shape = tuple(draft.value(parameter).shape)
            mask = f"lambda grad, mask=(torch.rand({shape}) > 0.4).float(): grad * mask"
            draft.add_setup(f"{parameter}.register_hook({draft.random.choice((hook(draft), hook(draft), mask))})")


def _module_hooks(draft):
    random = draft.random
    for name in draft.modules():
        if random.random() < 0.2:
            draft.add_setup(f"self.{name}." + random.choice((
                "register_full_backward_hook(halve_inputs)", "register_full_backward_hook(from_output)",
                "register_full_backward_hook(watch)", "register_forward_hook(double_output)",
                "register_forward_hook(keep_output)", "register_forward_pre_hook(shrink_input)")))
