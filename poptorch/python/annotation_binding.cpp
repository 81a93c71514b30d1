// Blocks, name scopes, attributes and groups of convolutions, as context managers where C++ has scopes.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>

#include "poptorch/annotations.h"
#include "poptorch/api/capture_context.h"
#include "poptorch/block.h"
#include "poptorch/error.h"
#include "poptorch/python/arguments.h"
#include "poptorch/python/bindings.h"

namespace py = pybind11;

namespace poptorch {
namespace {

// Any object is a name: 1 is the block "1".
BlockLabel label_of(const py::object& user_id, const py::object& ipu_id) {
  BlockLabel label;
  if (!user_id.is_none()) label.user_id = py::str(user_id).cast<std::string>();
  if (ipu_id.is_none()) return label;
  if (!is_integer(ipu_id)) {
    throw Error(fmt::format("[Block] block \"{}\" is on IPU {}; ids are whole numbers from 0.",
                            label.user_id.value_or("without a name"), repr_of(ipu_id)));
  }
  label.ipu_id = ipu_id.cast<std::int64_t>();
  return label;
}

void start_block(const py::object& user_id, const py::object& ipu_id) {
  if (CaptureContext::current() != nullptr) Block::start(label_of(user_id, ipu_id));
}

void end_block() {
  if (CaptureContext* context = CaptureContext::current()) context->end_block();
}

// What `with` opens: entered again before it is left, it opens another one.
template <class Scope, class Argument>
class Manager {
 public:
  explicit Manager(Argument argument) : argument_(std::move(argument)) {}
  const Argument& argument() const { return argument_; }
  void enter() { open_.push_back(std::make_unique<Scope>(argument_)); }
  void exit() { open_.pop_back(); }

 private:
  Argument argument_;
  std::vector<std::unique_ptr<Scope>> open_;
};
using NameScopes = Manager<NameScope, std::string>;
using Attributes = Manager<Attribute, Attribute::Groups>;

template <class Managed, class Class>
void bind_scope(Class& bound) {
  bound.attr("__module__") = "poptorch";
  bound.def("__enter__", [](const py::object& self) {
    self.cast<Managed&>().enter();
    return self;
  });
  bound.def("__exit__", [](Managed& self, const py::args&) { self.exit(); });
}

Attribute::Groups groups_of(const py::kwargs& attributes) {
  Attribute::Groups groups;
  for (const auto& [group, entries] : attributes) {
    const auto name = group.cast<std::string>();
    if (!PyDict_Check(entries.ptr())) {
      throw ArgumentError(fmt::format("The attributes of {} must be a dict, not {}", name, repr_of(entries)));
    }
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(entries)) {
      if (!is_text(key) || !is_text(value)) {
        throw ArgumentError(
            fmt::format("Attributes are strings with string names, not {}: {}", repr_of(key), repr_of(value)));
      }
      groups[name][key.cast<std::string>()] = value.cast<std::string>();
    }
  }
  return groups;
}

// One value or a list of them; None: no value.
template <class Convert>
auto each(const py::object& value, const Convert& convert) {
  std::vector<decltype(convert(value))> values;
  if (value.is_none()) return values;
  if (!is_list_or_tuple(value)) {
    values.push_back(convert(value));
    return values;
  }
  for (const py::handle item : value) values.push_back(convert(py::reinterpret_borrow<py::object>(item)));
  return values;
}

double proportion(const py::object& item) {
  if (PyFloat_Check(item.ptr())) return item.cast<double>();
  throw ArgumentError(fmt::format("A memory proportion must be a float, not {}", repr_of(item)));
}

c10::ScalarType partials_type(const py::object& item) {
  if (THPDtype_Check(item.ptr())) return reinterpret_cast<THPDtype*>(item.ptr())->scalar_type;
  throw ValueError(fmt::format("A partials type must be torch.float or torch.half, not {}", repr_of(item)));
}

bool dithering(const py::object& item) {
  if (PyBool_Check(item.ptr())) return item.cast<bool>();
  throw ValueError(fmt::format("enableConvDithering expects bools, not {}", repr_of(item)));
}

std::int64_t tiles(const py::object& value) {
  if (is_integer(value)) return value.cast<std::int64_t>();
  throw ArgumentError(fmt::format("perConvReservedTiles expects an int, not {}", repr_of(value)));
}

double back_off(const py::object& value) {
  if (PyFloat_Check(value.ptr())) return value.cast<double>();
  throw ArgumentError(fmt::format("cycleBackOff expects a float, not {}", repr_of(value)));
}

void bind_multi_conv(py::module_& module) {
  using Pointer = std::shared_ptr<MultiConv>;
  py::class_<MultiConv, Pointer> bound(
      module, "MultiConv",
      "Groups independent convolutions: a hint for their planning; results are those of separate convolutions.");
  bound.attr("__module__") = "poptorch";
  bound.def(py::init<>());
  const auto setter = [&](const char* name, const char* documentation, auto set) {
    bound.def(
        name,
        [set](Pointer self, const py::object& value) {
          set(*self, value);
          return self;
        },
        py::arg("value"), documentation);
  };
  using Value = const py::object&;
  setter("availableMemoryProportions", "The share of memory each convolution may take: one number, or one for each.",
         [](MultiConv& self, Value value) { self.availableMemoryProportions(each(value, proportion)); });
  setter("partialsTypes", "The type each convolution accumulates in: torch.float or torch.half, or one for each.",
         [](MultiConv& self, Value value) { self.partialsTypes(each(value, partials_type)); });
  setter("enableConvDithering", "Whether the convolutions are spread over the device: one bool, or one for each.",
         [](MultiConv& self, Value value) { self.enableConvDithering(each(value, dithering)); });
  setter("planType", "Whether the convolutions are planned in parallel or one after the other.",
         [](MultiConv& self, Value value) {
           if (value.is_none()) return self.planType(std::nullopt);
           return self.planType(member_of("MultiConvPlanType", value) == "Serial" ? MultiConvPlanType::Serial
                                                                                  : MultiConvPlanType::Parallel);
         });
  setter("perConvReservedTiles", "Tiles that each convolution has for itself.",
         [](MultiConv& self, Value value) { self.perConvReservedTiles(tiles(value)); });
  setter("cycleBackOff", "How far the planner may exceed the best time.",
         [](MultiConv& self, Value value) { self.cycleBackOff(back_off(value)); });
  bound.def("__enter__", [](Pointer self) {
    self->begin();
    return self;
  });
  bound.def("__exit__", [](MultiConv& self, const py::object& type, const py::object&, const py::object&) {
    type.is_none() ? self.end() : self.abandon();
  });
}

}  // namespace

void bind_annotations(py::module_& module) {
  module.def("start_block", &start_block, py::arg("user_id"), py::arg("ipu_id"));
  module.def("end_block", &end_block);
  module.def("use_auto_id", &Block::useAutoId);

  py::class_<NameScopes> names(module, "NameScope", "Prefixes the names of the ops in its scope.");
  names.def(py::init([](const py::object& name) {
              if (is_text(name)) return std::make_unique<NameScopes>(name.cast<std::string>());
              throw ArgumentError(fmt::format("NameScope expects a str, not {}", type_name_of(name)));
            }),
            py::arg("name"));
  names.def_property_readonly("name", &NameScopes::argument, "The prefix.");
  bind_scope<NameScopes>(names);

  py::class_<Attributes> attributes(
      module, "Attribute",
      "Gives the ops in its scope attributes: groups of strings, hints to the compiler that change no result.");
  attributes.def(py::init([](const py::kwargs& groups) { return std::make_unique<Attributes>(groups_of(groups)); }));
  attributes.def_property_readonly_static("active", [](const py::object&) { return Attribute::active(); });
  bind_scope<Attributes>(attributes);
  bind_multi_conv(module);
}

}  // namespace poptorch
