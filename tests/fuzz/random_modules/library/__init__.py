"""What generated programs may name."""

from .functions import *
from .modules import *
