"""What a compiled model was made of: layers, parameters and buffers, to notice when the module has got others."""

from . import poptorch_core
from ._logging import logger


class CompiledParts:
    """Taken when a model is compiled. Looked at in each call, so it is no more than a list."""

    def __init__(self, module):
        self._parts = []  # the dictionary that holds a part, its name there, the part
        self._paths = []
        for path, child in module.named_modules(remove_duplicate=False):
            for holder in ("_modules", "_parameters", "_buffers"):
                parts = getattr(child, holder, None)
                if not isinstance(parts, dict):  # a scripted module keeps them elsewhere, and for good
                    continue
                for name, part in parts.items():
                    self._parts.append((parts, name, part))
                    self._paths.append(f"{path}.{name}" if path else name)
        self._warned = set()

    def warn_of_changes(self):
        if not poptorch_core.holds_all(self._parts):
            self._warn()

    def _warn(self):
        changed = [
            path for path, (parts, name, part) in zip(self._paths, self._parts) if parts.get(name) is not part
        ]
        changed = [path for path in changed if path not in self._warned]
        self._warned.update(changed)
        if changed:
            logger.warning(
                "parts of the model were replaced after it was compiled, which the program does not follow: %s. Call "
                "destroy() to have it compiled anew",
                poptorch_core.summary(changed),
            )
