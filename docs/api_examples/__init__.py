"""The examples of docs/api.md, by its sections, in its order. tools/api_reference.py reads them; tests run them all."""
from .example import EXAMPLES, Network, body_of, run
from . import models
from . import options
from . import placement
from . import ops
from . import optimisers
from . import data
from . import errors_and_log
