"""The public names of the Python package, and what is behind them."""
import enum
import inspect

import poptorch

GROUPS = ("Training", "Precision", "TensorLocations", "Distributed", "Jit", "_Popart")  # of options


def members(cls):
    """Public members that our package gives to a class. torch adds some of its own to classes of optimisers."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("poptorch")]
    found = {name: value for base in ours for name, value in vars(base).items() if not name.startswith("_")}
    return sorted(n for n, v in found.items() if not (getattr(v, "__module__", None) or "").startswith("torch"))


def public_names():
    """Names of the package, then those of the members of its classes."""
    names, classes = [], {}
    for prefix, module in (("", poptorch), ("optim.", poptorch.optim), ("profiling.", poptorch.profiling)):
        for name, value in sorted(vars(module).items()):
            is_ours = getattr(value, "__module__", "").startswith("poptorch") or name == "BlockId"
            if name.startswith("_") or inspect.ismodule(value) or not is_ours:
                continue
            names.append(prefix + name)
            if inspect.isclass(value) and not issubclass(value, (enum.Enum, Exception)):
                classes[prefix + name] = value
    for group in GROUPS:
        names.append(f"Options.{group}")
        classes[f"Options.{group}"] = type(getattr(poptorch.Options(), group))
    return names, [f"{name}.{member}" for name, cls in classes.items() for member in members(cls)]


def find(name):
    """What a name stands for; of a property, the property itself."""
    found = poptorch
    for part in name.split("."):
        if found is poptorch.Options and part in GROUPS:
            found = type(getattr(poptorch.Options(), part))
        else:
            found = inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
    return found.__func__ if isinstance(found, staticmethod) else found
