"""Writing into activations: whole, in part, through views of views."""

from ..draft import Rejected
from .views import view_of


def target(draft):
    """A variable that may be written: inputs are left to `input_changed`."""
    return draft.pick([name for name in draft.floats() if not name.startswith("x")])


CHANGES = (
    "{t}.add_({e})", "{t}.sub_({e})", "{t}.mul_({e})", "{t}.add_({n})", "{t}.mul_({n})", "{t}.add_({e}, alpha=0.3)",
    "{t}.relu_()", "{t}.tanh_()", "{t}.sigmoid_()", "{t}.clamp_(-0.5, 0.5)", "{t}.clamp_(min=-0.3)", "{t}.neg_()",
    "{t}.masked_fill_({t}.detach() > {n}, 0.1)", "{t}.lerp_({f}, 0.4)", "{t}.div_(1.5 + {e}.detach().abs())",
    "{t}.addcmul_({e}, {e}, value=0.2)", "{t}.sin_()", "F.relu({t}, inplace=True)", "F.leaky_relu_({t}, 0.3)",
    "torch.relu_({t})",
)
OVERWRITES = ("{t}.zero_()", "{t}.fill_({n})", "{t}.copy_({e})", "{t}.fill_({e}.mean())", "{t}.copy_({e}.detach())")
BARE = ("{t} += {e}", "{t} *= {n}", "{t} -= {e}", "{t} /= 2")  # of a name or an index


def change_of(draft, expression, templates=None):
    """A statement that writes the tensor `expression`."""
    shape = draft.value(draft.writable(expression)).shape
    source = draft.apart(draft.fitted(draft.operand(), shape), expression)
    template = draft.random.choice(templates or CHANGES + CHANGES + OVERWRITES)
    full = source if draft.value(source).shape == shape else f"{source}.expand({tuple(shape)})"
    return (template.replace("{t}", expression).replace("{e}", source).replace("{f}", full)
            .replace("{n}", draft.number(0.2, 1.2)))


def whole(draft):
    name = target(draft)
    draft.add(change_of(draft, name, CHANGES + BARE), changes=True)


def overwritten(draft):
    draft.add(change_of(draft, target(draft), OVERWRITES), changes=True)


def through_view(draft):
    view = view_of(draft, target(draft), writable=True)
    draft.add(change_of(draft, view), changes=True)


def assigned(draft):
    """y[...] = z and y[...] += z"""
    name, random = target(draft), draft.random
    value = draft.value(name)
    if not value.dim():
        raise Rejected("a scalar")
    index = draft.random.choice(_indices(random, value))
    shape = draft.value(f"{draft.writable(name)}[{index}]").shape
    if 0 in shape:
        raise Rejected("an empty part")
    source = draft.apart(draft.fitted(draft.operand(), shape), name)
    sign = random.choice(("=", "=", "+=", "*=", "-="))
    draft.add(f"{name}[{index}] {sign} {random.choice((source, source, draft.number()))}", changes=True)


def _indices(random, value):
    def one(length):
        start = random.randrange(length)
        return random.choice((str(start), str(-1 - start), f"{start}:", f":{start + 1}", "::2", ":"))

    options = [one(value.shape[0]), "..., " + one(value.shape[-1]), ", ".join(one(length) for length in value.shape)]
    if value.dim() > 1:
        options += [":, " + one(value.shape[1])] * 2
    options.append("torch.tensor([0, -1])" if value.shape[0] > 1 else "0")
    return options


def by_index(draft):
    name, random = target(draft), draft.random
    value = draft.value(name)
    if not value.dim() or value.shape[0] < 2:
        raise Rejected("too short")
    rows = random.sample(range(value.shape[0]), 2)
    source = draft.apart(draft.fitted(draft.operand(), (2, *value.shape[1:])), draft.writable(name))
    full = source if draft.value(source).shape == (2, *value.shape[1:]) else f"{source}.expand{(2, *value.shape[1:])}"
    draft.add(random.choice((
        f"{name}.index_add_(0, torch.tensor({rows}), {full})",
        f"{name}.index_copy_(0, torch.tensor({rows}), {full})",
        f"{name}.index_fill_(0, torch.tensor({rows}), {draft.number()})",
        f"{name}.index_put_((torch.tensor({rows}),), {full}, accumulate=True)",
        f"{name}[{name}.detach() > {draft.number()}] = {draft.number()}",
        f"{name}.scatter_(0, torch.zeros_like({name}[:1], dtype=torch.int64), {name}[:1].detach() * 0.5)",
    )), changes=True)


def reshaped(draft):
    """In-place changes of shape."""
    name = target(draft)
    dim = draft.value(name).dim()
    options = [f"{name}.unsqueeze_(0)", f"{name}.squeeze_()"]
    if dim == 2:
        options.append(f"{name}.t_()")
    if dim >= 2:
        options.append(f"{name}.transpose_(0, {dim - 1})")
    draft.add(draft.random.choice(options), changes=True)


def input_changed(draft):
    name = draft.random.choice([name for name in draft.floats() if name.startswith("x")])
    expression = name if draft.random.random() < 0.5 else view_of(draft, name, writable=True, depth=1)
    draft.add(change_of(draft, expression), changes=True)
