#!/usr/bin/env python3
"""Writes docs/api.md: every public name of the Python package, from its docstring, with the examples of
docs/api_examples. Needs the interpreter that `./dev python` names.

usage: api_reference.py [FILE]
"""
import enum
import inspect
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "tools")]

import api_examples  # pylint: disable=wrong-import-position
import public_names  # pylint: disable=wrong-import-position

# Members that several classes have from a common base: told once, where this says.
SHARED = {
    "Options": ("set", "createOrSet", "exists", "deleteIfExists", "is_frozen", "toDict"),
    "optim.Optimizer": ("state_dict", "load_state_dict", "ipu_state", "ipu_param", "has_state_to_upload"),
}

# pybind11 drops the docstrings of static properties.
STATIC_PROPERTIES = {"Attribute.active": "The attributes in force where this is asked."}

INTRODUCTION = """# The Python API

Written by `tools/api_reference.py` from the docstrings and from [`api_examples`](api_examples), whose examples run
in the tests. They begin with

```python
import torch
import poptorch

{network}

model, x, labels = Network(), torch.randn(16, 4), torch.randint(0, 3, (16,))
```
"""


def own_names():
    """The public names, without members that are told elsewhere."""
    names, members = public_names.public_names()
    groups = {f"Options.{group}" for group in public_names.GROUPS}
    told = []
    for member in members:
        owner, name = member.rsplit(".", 1)
        from_options = owner in groups | {"TensorLocationSettings"} and name in SHARED["Options"]
        from_optimizer = owner.startswith("optim.") and owner != "optim.Optimizer" and name in SHARED["optim.Optimizer"]
        is_own_set = member == "Options._Popart.set"  # by a key, unlike that of the others
        if is_own_set or not (member in groups or from_options or from_optimizer):
            told.append(member)
    return names, told


def documentation(name):
    """The docstring, without the signature that pybind11 puts first."""
    found = public_names.find(name)
    text = inspect.getdoc(found) or STATIC_PROPERTIES.get(name, "")
    if isinstance(found, type) and issubclass(found, enum.Enum):
        text += f" Members: {', '.join(f'`{member.name}`' for member in found)}."
    lines = text.split("\n")
    if re.match(r"\w*\(.*\)( -> .*)?$", lines[0]):
        lines = lines[1:]
    return "\n".join(lines).strip()


def signature(name):
    """The name as it is called; alone, if it is not."""
    found = public_names.find(name)
    if isinstance(found, type) and (issubclass(found, (enum.Enum, Exception)) or name.startswith("Options.")):
        return name
    if isinstance(found, property) or not callable(found):
        return name
    try:
        parameters = [p.replace(annotation=p.empty) for p in inspect.signature(found).parameters.values()]
        parameters = [p for p in parameters if p.name != "self"]
        return name + str(inspect.Signature(parameters))
    except ValueError:
        written = (inspect.getdoc(found.__init__ if isinstance(found, type) else found) or "").split("\n")[0]
        arguments = re.match(r"\w+\((.*)\)", written)
        if arguments is None:
            return name
        kept = [a.split(":")[0] + ("=" + a.split(" = ")[1] if " = " in a else "") for a in arguments[1].split(", ")]
        return f"{name}({', '.join(a for a in kept if a != 'self')})"


def examples_by_name():
    return {name: body for _, names, body in api_examples.EXAMPLES for name in names}


def owner_of(name):
    """The heading under which a name is told: that of its class, or its own."""
    headings = set(own_names()[0])
    while name not in headings:
        name = name.rsplit(".", 1)[0]
    return name


def reference():
    names, members = own_names()
    shown = set()
    lines = [INTRODUCTION.format(network=inspect.getsource(api_examples.Network).strip())]
    sections = list(dict.fromkeys(section for section, _, _ in api_examples.EXAMPLES))
    home = {}  # the section of each heading
    for section, covered, _ in api_examples.EXAMPLES:
        for name in covered:
            home.setdefault(owner_of(name), section)
    for section in sections:
        lines.append(f"\n## {section}\n")
        for name in sorted((n for n in names if home.get(n) == section), key=list(home).index):
            lines.append(f"\n### `{signature(name)}`\n\n{documentation(name)}\n")
            own = [member for member in members if owner_of(member) == name]
            if own:
                lines.append("\n| member | |\n|---|---|\n")
                for member in own:
                    text = documentation(member).replace("\n", " ").replace("|", "\\|")
                    lines.append(f"| `{signature(member)[len(name) + 1:]}` | {text} |\n")
            for _, covered, function in api_examples.EXAMPLES:
                if function not in shown and owner_of(covered[0]) == name:
                    shown.add(function)
                    lines.append(f"\n```python\n{api_examples.body_of(function)}\n```\n")
    return "".join(lines)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "api.md"
    target.write_text(reference(), encoding="utf-8")
