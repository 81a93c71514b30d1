"""Arithmetic between the interesting things, so that gradients are not trivial."""

from ..draft import Rejected


def _let(draft, expression):
    draft.add(f"{draft.new_name()} = {expression}")


UNARY = (
    "torch.tanh({})", "torch.sigmoid({})", "torch.sin({})", "{}.relu()", "{}.abs()", "F.gelu({})", "F.elu({})",
    "F.leaky_relu({}, 0.2)", "{} * {n}", "{} + {n}", "-{}", "{}.clamp(-0.7, 0.7)", "1 / (1.5 + {}.abs())",
    "torch.exp(-{}.abs())", "{}.pow(2) * 0.3", "torch.sqrt({}.abs() + 0.5)", "F.softplus({})",
    "torch.log1p({}.abs())", "{}.type_as({})", "{}.to({}.dtype) * 1.1", "torch.zeros_like({}) + {n}",
)
WITH_AXIS = ("torch.softmax({}, -1)", "F.layer_norm({}, ({m},), eps=0.1)", "torch.cumsum({}, -1) * 0.5",
             "F.log_softmax({}, -1)", "{}.flip(-1)", "torch.roll({}, 1, -1)", "{} - {}.mean(-1, keepdim=True)",
             "F.pad({}, (1, 1))", "{} / (1 + {}.norm(dim=-1, keepdim=True))")


def unary(draft):
    name = draft.small(draft.operand())
    value = draft.value(name)
    template = draft.random.choice(UNARY + (WITH_AXIS if value.dim() and value.shape[-1] > 1 else ()))
    width = str(value.shape[-1] if value.dim() else 1)
    _let(draft, template.replace("{n}", draft.number(0.3, 1.3)).replace("{m}", width).replace("{}", name))


BINARY = ("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (1.5 + {b}.abs())", "torch.maximum({a}, {b})",
          "torch.add({a}, {b}, alpha=0.5)", "torch.lerp({a}, {b}, 0.3)", "{b} - 0.5 * {a}", "{b} * {a}",
          "torch.addcmul({a}, {a}, {b}, value=0.2)", "torch.atan2({a}, {b}.abs() + 1.0)")


def binary(draft):
    a = draft.small(draft.operand())
    b = draft.fitted(draft.operand(), draft.value(a).shape)
    template = draft.random.choice(BINARY)
    if "lerp" in template and draft.value(b).dim() == 0:
        template = BINARY[0]
    _let(draft, template.replace("{a}", a).replace("{b}", b))


def with_parameter(draft):
    """An input and a parameter, whatever their shapes."""
    a = draft.random.choice([name for name in draft.floats() if name.startswith("x")])
    b = draft.fitted(draft.random.choice(draft.parameters()), draft.value(a).shape)
    _let(draft, draft.random.choice(BINARY[:4]).replace("{a}", a).replace("{b}", b))


def product(draft):
    random = draft.random
    a = draft.small(draft.pick(draft.floats()))
    value = draft.value(a)
    if not value.dim():
        raise Rejected("a scalar")
    width = value.shape[-1]
    matrices = [name for name in (*draft.parameters(False), *draft.floats()) if draft.value(name).dim() == 2]
    right = [name for name in matrices if draft.value(name).shape[0] == width]
    transposed = [name for name in matrices if draft.value(name).shape[1] == width]
    options = []
    if right:
        b = random.choice(right)
        options += [f"{a} @ {b} * 0.5", f"torch.matmul({a}, {b}).tanh()"]
    if transposed:
        b = random.choice(transposed)
        options += [f"F.linear({a}, {b}) * 0.5", f"torch.einsum('...i,ji->...j', {a}, {b}) * 0.5",
                    f"({b} @ {a}.transpose(-1, -2)).sin()" if value.dim() >= 2 else f"{b} @ {a}"]
    if value.dim() == 3:
        options += [f"torch.bmm({a}, {a}.transpose(1, 2)) * 0.2", f"({a} @ {a}.mT).softmax(-1) @ {a}"]
    if value.dim() == 2:
        options += [f"{a}.t() @ {a} * 0.2"]
    if value.dim() == 1:
        options += [f"torch.outer({a}, {a}) * 0.5", f"torch.dot({a}, {a}) * 0.2"]
    if not options:
        raise Rejected("nothing fits")
    _let(draft, random.choice(options))


def reduction(draft):
    a = draft.operand()
    value = draft.value(a)
    if not value.dim():
        raise Rejected("a scalar")
    axis = draft.random.randrange(-value.dim(), value.dim())
    _let(draft, draft.random.choice((
        f"{a}.sum({axis}) * 0.3", f"{a}.mean({axis})", f"{a}.mean({axis}, keepdim=True)", f"{a}.mean()",
        f"{a}.logsumexp({axis})", f"{a}.max({axis})[0]", f"{a}.amax({axis})", f"{a}.var(unbiased=False) * 0.5",
        f"torch.sort({a}, {axis}, stable=True)[0]",
    )))


def joined(draft):
    a, random = draft.small(draft.operand(), 60), draft.random
    value = draft.value(a)
    b = draft.small(draft.operand(), 60)
    fitted = draft.fitted(b, value.shape)
    other = fitted if draft.value(fitted).shape == value.shape else f"{fitted}.expand({tuple(value.shape)})"
    axis = random.randrange(-1, value.dim()) if value.dim() else 0
    options = [f"torch.stack([{a}, {other}], {axis})", f"torch.stack(({other}, {a})).mean(0)"]
    if value.dim():
        axis = random.randrange(value.dim())
        options += [f"torch.cat([{a}, {other}], {axis})", f"torch.cat(({other}, {a}, {a}), dim={axis})",
                    f"torch.hstack([{a}, {other}])"]
    _let(draft, random.choice(options))


def selected(draft):
    a, random = draft.small(draft.operand()), draft.random
    b = draft.fitted(draft.operand(), draft.value(a).shape)
    _let(draft, random.choice((
        f"torch.where({a} > {draft.number()}, {a}, {b})",
        f"torch.where({b} < {draft.number()}, {b}, 0.5 * {a})",
        f"{a}.masked_fill({a} > {draft.number(0, 1)}, {draft.number()})",
        f"{a} * ({b} > {draft.number()})",
        f"torch.where(({a} < {draft.number()}).detach(), {a}, {a}.detach())",
    )))


def indexed(draft):
    a, random = draft.small(draft.operand()), draft.random
    value = draft.value(a)
    if not value.dim():
        raise Rejected("a scalar")
    axis = random.randrange(value.dim())
    length = value.shape[axis]
    indices = [random.randrange(length) for _ in range(random.randint(1, 3))]
    options = [f"{a}.index_select({axis}, torch.tensor({indices}))", f"{a}[{':, ' * axis}torch.tensor({indices})]",
               f"{a}.gather({axis}, torch.sort({a}.detach(), {axis}, stable=True)[1])", f"{a}[{':, ' * axis}{indices}]"]
    labels = [name for name in draft.variables() if name.startswith("x") and name not in draft.floats()]
    if labels:
        count = int(draft.config["inputs"][int(labels[0][1:])][0])
        label = f"{labels[0]}.reshape(-1)"
        if value.shape[0] >= count:
            options += [f"{a}[{label}]", f"torch.index_select({a}, 0, {label})"] * 2
            if value.dim() == 2:
                options += [f"F.embedding({labels[0]}, {a})"] * 6
    _let(draft, random.choice(options))


def by_shape(draft):
    a, name = draft.small(draft.operand()), draft.new_name()
    draft.add(f"if {a}.dim() > 1 and {a}.shape[-1] > {draft.random.randint(2, 4)}:\n"
              f"    {name} = {a}[..., 1:] * {draft.number(0.5, 1.5)}\nelse:\n    {name} = {a}.sum() * 0.1 + {a}")


def by_gradient(draft):
    """Programs ask whether there will be a gradient."""
    a, name = draft.small(draft.operand()), draft.new_name()
    draft.add(f"{name} = {a} * {draft.number(0.5, 1.5)} if {a}.requires_grad else {a}.tanh()")


def checkpointed(draft):
    """Of a value of its own: written later, eager PyTorch would recompute from what was written."""
    a = draft.small(draft.operand())
    _let(draft, f"torch.utils.checkpoint.checkpoint(lambda t: torch.tanh(t) * t, {a} + 0.1, "
                f"use_reentrant={draft.random.choice((True, False))})")
