"""Views: tensors that show the memory of others."""

from ..draft import Rejected


def view_of(draft, expression, writable, depth=None):
    """`expression` with a random chain of views behind it."""
    for _ in range(depth or draft.random.choice((1, 1, 1, 2, 2, 3))):
        expression += _step(draft, draft.value(expression), writable)
        if draft.value(expression).numel() == 0:
            raise Rejected("an empty view")
    return expression


def _step(draft, tensor, writable):
    random, dim = draft.random, tensor.dim()
    options = [_unsqueeze]
    if dim:
        options += [_select, _slice, _slice, _narrow, _flatten, _view, _reshape, _piece, _dots]
    if dim >= 2:
        options += [_transpose, _transpose, _permute, _diagonal, _second]
    if dim == 2:
        options += [_t]
    if 1 in tensor.shape:
        options += [_squeeze, _squeeze]
        if not writable:
            options += [_expand]
    if dim and not writable:
        options += [_grow, _unfold]
    return random.choice(options)(random, tensor)


def _axis(random, tensor):
    axis = random.randrange(tensor.dim())
    return axis - tensor.dim() if random.random() < 0.3 else axis


def _range(random, length):
    start = random.randrange(length)
    return start, random.randint(start + 1, length)


def _unsqueeze(random, tensor):
    return random.choice((f".unsqueeze({random.randint(-1, tensor.dim())})", "[None]", "[..., None]"))


def _select(random, tensor):
    axis = _axis(random, tensor)
    index = random.randrange(-tensor.shape[axis], tensor.shape[axis])
    return random.choice((f".select({axis}, {index})", f"[{random.randrange(tensor.shape[0])}]"))


def _slice(random, tensor):
    axis = random.randrange(tensor.dim())
    start, end = _range(random, tensor.shape[axis])
    step = random.choice(("", "", ":2", ":3"))
    return f"[{':, ' * axis}{start}:{end}{step}]" if step == "" else f"[{':, ' * axis}{start % 2}:{step}]"


def _narrow(random, tensor):
    axis = _axis(random, tensor)
    start, end = _range(random, tensor.shape[axis])
    return f".narrow({axis}, {start}, {end - start})"


def _dots(random, tensor):
    start, end = _range(random, tensor.shape[-1])
    return random.choice((f"[..., {start}:{end}]", f"[..., {start}]"))


def _second(random, tensor):
    return f"[:, {random.randrange(tensor.shape[1])}]"


def _flatten(random, tensor):
    if not tensor.is_contiguous():
        return ".T" if tensor.dim() == 2 else ".unsqueeze(0)"
    return random.choice((".flatten()", ".view(-1)", ".reshape(-1)", ".ravel()"))


def _view(random, tensor):
    if not tensor.is_contiguous():
        return ".unsqueeze(-1)"
    size = tensor.numel()
    rows = random.choice([n for n in range(1, size + 1) if size % n == 0])
    return random.choice((f".view({rows}, {size // rows})", f".view(-1, {rows})", f".view({rows}, -1)"))


def _reshape(random, tensor):
    if not tensor.is_contiguous():
        return ".unsqueeze(0)"
    return _view(random, tensor).replace("view", "reshape")


def _piece(random, tensor):
    axis = _axis(random, tensor)
    length = tensor.shape[axis]
    size = random.randint(1, length)
    last = (length - 1) // size
    return random.choice((
        f".unbind({axis})[{random.randrange(length)}]",
        f".split({size}, {axis})[{random.randint(0, last)}]",
        f".split([{size}, {length - size}], {axis})[0]" if size < length else f".chunk(1, {axis})[0]",
        f".chunk(2, {axis})[0]",
        f".tensor_split(2, {axis})[{1 if length > 1 else 0}]",
    ))


def _transpose(random, tensor):
    a, b = random.sample(range(tensor.dim()), 2)
    return random.choice((f".transpose({a}, {b})", f".swapaxes({a}, {b})", f".movedim({a}, {b})", ".mT",
                          f".transpose({a - tensor.dim()}, {b})"))


def _permute(random, tensor):
    order = list(range(tensor.dim()))
    random.shuffle(order)
    return f".permute({', '.join(map(str, order))})"


def _t(random, tensor):
    return random.choice((".t()", ".T"))


def _diagonal(random, tensor):
    offset = random.choice((0, 0, 1, -1))
    a, b = random.sample(range(tensor.dim()), 2)
    return random.choice((".diagonal()", f".diagonal({offset}, {a}, {b})"))


def _squeeze(random, tensor):
    return random.choice((".squeeze()", f".squeeze({list(tensor.shape).index(1)})"))


def _expand(random, tensor):
    shape = [random.choice((2, 3)) if length == 1 and random.random() < 0.7 else -1 for length in tensor.shape]
    return f".expand({', '.join(map(str, shape))})"


def _grow(random, tensor):
    return f".expand(2, {', '.join(['-1'] * tensor.dim())})"


def _unfold(random, tensor):
    size = random.randint(1, tensor.shape[-1])
    return f".unfold(-1, {size}, {random.randint(1, 2)})"


def kept_view(draft):
    base = draft.small(draft.operand(), 200)
    draft.add(f"{draft.new_name()} = {view_of(draft, base, writable=draft.random.random() < 0.7)}")


def parts(draft):
    base = draft.pick(draft.floats())
    value, random = draft.value(base), draft.random
    if not value.dim():
        raise Rejected("no axis")
    axis = random.randrange(value.dim())
    length = value.shape[axis]
    if not 2 <= length <= 4:
        raise Rejected("too many parts")
    kind = random.choice(("unbind", "split", "chunk"))
    if kind == "unbind":
        names = ", ".join(draft.new_name() for _ in range(length))
        draft.add(f"{names} = {base}.unbind({axis})")
    elif kind == "split":
        size = random.randint(1, length - 1)
        draft.add(f"{draft.new_name()}, {draft.new_name()} = {base}.split([{size}, {length - size}], dim={axis})")
    else:
        draft.add(f"{draft.new_name()}, {draft.new_name()} = torch.chunk({base}, 2, dim={axis})")


def list_of_tensors(draft):
    base, random = draft.pick(draft.floats()), draft.random
    value, result, parts_name = draft.value(base), draft.new_name(), draft.new_name("parts")
    if not value.dim():
        raise Rejected("no axis")
    axis = random.randrange(value.dim())
    body = random.choice((
        f"[part * {draft.number(0.5, 1.5)} for part in {base}.unbind({axis})]",
        f"[{base}.select({axis}, index) for index in range({value.shape[axis]})]",
        f"list({base}.unbind({axis}))",
    ))
    draft.writable(base)
    change = random.choice((
        f"{parts_name}[0] = {parts_name}[-1].tanh()",
        f"for part in {parts_name}[:2]:\n    part.mul_(0.5)",
        f"{parts_name}.append({parts_name}[0] - 0.1)",
        f"{parts_name}[-1] += 0.2",
        f"{parts_name} = {parts_name}[::-1]",
    ))
    draft.add(f"{parts_name} = {body}\n{change}\n{result} = torch.stack({parts_name}, {axis})", changes=True)


def detached(draft):
    base = draft.operand()
    suffix = draft.random.choice((".detach()", ".detach()", ".data", ".detach().clone()", ".clone()", ".contiguous()",
                                  ".detach().requires_grad_()"))
    if base.startswith("self") and "clone" not in suffix:
        suffix += ".clone()"
    draft.add(f"{draft.new_name()} = {base}{suffix}")


def strided(draft):
    base = draft.pick(draft.floats())
    value = draft.value(base)
    size = value.numel()
    if not value.is_contiguous() or value.storage_offset() or size < 4 or value.storage().size() != size:
        raise Rejected("not the whole of its memory")
    rows = draft.random.randint(1, size // 2)
    step = draft.random.randint(1, max(1, (size - 1) // max(1, rows)))
    view = draft.random.choice((f"({rows},), ({step},)", f"({rows}, 2), (1, {size - rows})",
                                f"({size // 2},), (2,), 1"))
    draft.add(f"{draft.new_name()} = {base}.as_strided({view})")
