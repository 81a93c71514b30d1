"""Members of executors that the engine does not do yet."""

from .errors import createPoptorchError


def _refuse(what, supported, where):
    raise createPoptorchError(f"[{where}] {what} is not supported yet; {supported}.")


class UnavailableMembers:
    """Members of an executor that need something the engine does not do yet."""

    def save(self, filename, export_model=True, save_rng_state=True):
        """Refused for now: programs cannot be saved."""
        _refuse("Saving a compiled model", "save model.state_dict() and compile the model again", "save")

    def compileAndExport(self, filename, *args, export_model=True, **kwargs):
        """Refused for now: programs cannot be saved."""
        _refuse("Saving a compiled model", "save model.state_dict() and compile the model again", "compileAndExport")

    def loadExecutable(self, filename):
        """Refused for now: programs cannot be loaded."""
        _refuse("Loading a compiled model", "call the model, which compiles it", "loadExecutable")


def importPoptorchMetadataFromFile(filename):
    """What a file written by save tells of the model in it. Refused for now."""
    _refuse("Loading a compiled model", "wrap the model, load its state_dict() and call it",
            "importPoptorchMetadataFromFile")


def load(filename, edit_opts_fn=None):
    """A model from a file written by save. Refused for now."""
    _refuse("Loading a compiled model", "wrap the model, load its state_dict() and call it", "load")
