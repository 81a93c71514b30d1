"""OptionsDict: the checked key/value store that Options and each of its groups are built on."""

import copy
import enum

from .enums import CommGroupType


def _text(value):
    """A stable text for a value: equal settings give equal text, and never an address."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_text(value[k])}" for k in sorted(value, key=str)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(_text(v) for v in value)) + "}"
    return repr(value)


class OptionsDict:
    """Keys are declared with their defaults; a value must have the type of the one it replaces.

    Keys are read as attributes or by calling the object, written by assignment or set(). Once frozen nothing changes.
    Attributes that start with an underscore are ordinary ones: set in __init__, through _init_attributes.
    """

    def __init__(self, **defaults):
        self.__dict__["_values"] = defaults
        self.__dict__["_is_frozen"] = False

    def _init_attributes(self, **attributes):
        self.__dict__.update(attributes)

    # -- keys -----------------------------------------------------------------------------------------------------
    def _check_not_frozen(self):
        if self.__dict__.get("_is_frozen", False):
            raise AttributeError(
                "Can't modify frozen Options: they were given to a model or a data loader. "
                "Make a copy with clone() and change that."
            )

    def set(self, **kwargs):
        self._check_not_frozen()
        for key, value in kwargs.items():
            if key not in self._values:
                raise AssertionError(
                    f"Invalid option {key}: {type(self).__name__} has {', '.join(sorted(self._values))}"
                )
            current = self._values[key]
            if not isinstance(value, type(current)):
                raise AssertionError(
                    f"Unexpected type {type(value).__name__} of {value!r} for option {key}; "
                    f"expected {type(current).__name__}"
                )
            self._values[key] = value
        return self

    def createOrSet(self, **kwargs):
        self._check_not_frozen()
        for key, value in kwargs.items():
            if key in self._values:
                self.set(**{key: value})
            else:
                self._values[key] = value
        return self

    def exists(self, key):
        return key in self._values

    def deleteIfExists(self, key):
        self._check_not_frozen()
        self._values.pop(key, None)
        return self

    def __call__(self, key):
        if key not in self._values:
            raise AssertionError(f"Invalid option {key}: {type(self).__name__} has {', '.join(sorted(self._values))}")
        return self._values[key]

    def __getattr__(self, name):
        # Only called when normal lookup fails. While unpickling, there are no values yet.
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"{type(self).__name__} has no option {name}, or it was not set")

    def __setattr__(self, name, value):
        self._check_not_frozen()
        if name == "__class__":  # programs refine a group by giving it a subclass
            object.__setattr__(self, name, value)
        elif name in self.__dict__:
            self.__dict__[name] = value
        elif name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        else:
            self._assign(name, value)

    def _assign(self, name, value):
        self.set(**{name: value})

    # -- freezing, copies, text -----------------------------------------------------------------------------------
    def _groups(self):
        """The groups inside: frozen, copied and printed with this object."""
        return {}

    def _freeze(self, frozen=True):
        self.__dict__["_is_frozen"] = frozen
        for group in self._groups().values():
            group._freeze(frozen)

    @property
    def is_frozen(self):
        return self._is_frozen

    def __deepcopy__(self, memo):
        other = self.__class__.__new__(self.__class__)
        memo[id(self)] = other
        for name, value in self.__dict__.items():
            other.__dict__[name] = copy.deepcopy(value, memo)
        other.__dict__["_is_frozen"] = False
        return other

    def __getstate__(self):
        return self.__dict__.copy()

    def __setstate__(self, state):
        self.__dict__.update(state)

    def _entries(self):
        return [f"{key}={_text(self._values[key])}" for key in sorted(self._values)]

    def __repr__(self):
        return f"{type(self).__name__.lstrip('_')}({', '.join(self._entries())})"

    def toDict(self):
        """A plain copy of the values, enumerations as integers."""
        plain = {}
        for key, value in self._values.items():
            if isinstance(value, CommGroupType):
                value = value.value
            plain[key] = copy.deepcopy(value)
        return plain
