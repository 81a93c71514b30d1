// The functions of poptorch/ops.h under their Python names. Arguments may be any object: what is of the wrong kind is
// answered as the API promises for each function.
#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "poptorch/error.h"
#include "poptorch/ops.h"
#include "poptorch/python/arguments.h"
#include "poptorch/python/bindings.h"

namespace py = pybind11;

namespace poptorch {
namespace {

using Object = const py::object&;
using Tensors = std::vector<at::Tensor>;

at::Tensor identity_loss(Object x, Object reduction) {
  return identityLoss(tensor_argument("identity_loss", x), py::str(reduction).cast<std::string>());
}

FloatFormat float_format(const std::string& name) {
  if (name == "auto") return FloatFormat::Auto;
  if (name == "fixed") return FloatFormat::Fixed;
  if (name == "scientific") return FloatFormat::Scientific;
  if (name == "none") return FloatFormat::None;
  throw py::key_error(name);
}

at::Tensor print_tensor(Object tensor, const std::string& title, bool print_gradient, std::int64_t summarise_threshold,
                        std::int64_t edge_items, std::int64_t max_line_width, std::int64_t digits,
                        const std::string& format, const std::string& separator, const std::string& open_bracket,
                        const std::string& close_bracket) {
  return ipuPrintTensor(tensor_argument("ipu_print_tensor", tensor), title,
                        {print_gradient, summarise_threshold, edge_items, max_line_width, digits, float_format(format),
                         separator, open_bracket, close_bracket});
}

at::Tensor checkpoint(const py::handle& tensor) {
  if (is_tensor(tensor)) return recomputationCheckpoint(to_tensor(tensor));
  throw ValueError(fmt::format("recomputationCheckpoint expects tensors, not a {}", type_name_of(tensor)));
}

// One tensor, several, or a list or tuple of them; the result is of the same kind.
py::object checkpoints(const py::args& tensors) {
  const bool is_container = tensors.size() == 1 && is_list_or_tuple(tensors[0]);
  if (tensors.size() == 1 && !is_container) return py::cast(checkpoint(tensors[0]));
  py::list kept;
  for (const py::handle tensor : is_container ? py::sequence(tensors[0]) : py::sequence(tensors)) {
    kept.append(checkpoint(tensor));
  }
  return is_container ? py::type::of(tensors[0])(kept) : py::tuple(kept);
}

at::Tensor available_memory(Object tensor, Object proportion) {
  const at::Tensor checked = tensor_argument("set_available_memory", tensor);
  if (!is_integer(proportion) && !PyFloat_Check(proportion.ptr())) {
    throw Error(fmt::format("[set_available_memory] the proportion must be a number, not {}.", repr_of(proportion)));
  }
  return setAvailableMemory(checked, proportion.cast<double>());
}

MatMulSerializationMode serialization_mode(Object mode) {
  const std::string name = member_of("MatMulSerializationMode", mode);
  if (name == "InputChannels") return MatMulSerializationMode::InputChannels;
  if (name == "ReducingDim") return MatMulSerializationMode::ReducingDim;
  return name == "OutputChannels" ? MatMulSerializationMode::OutputChannels : MatMulSerializationMode::Disabled;
}

at::Tensor serialized_matmul(Object lhs, Object rhs, Object mode, Object factor, Object keep_precision) {
  if (!is_tensor(lhs) || !is_tensor(rhs)) throw ArgumentError("serializedMatMul multiplies two tensors");
  const MatMulSerializationMode checked = serialization_mode(mode);
  if (!is_integer(factor)) throw ArgumentError(fmt::format("factor must be an int, not {}", repr_of(factor)));
  if (!PyBool_Check(keep_precision.ptr())) {
    throw ArgumentError(fmt::format("keep_precision must be a bool, not {}", repr_of(keep_precision)));
  }
  return serializedMatMul(to_tensor(lhs), to_tensor(rhs), checked, factor.cast<std::int64_t>(),
                          keep_precision.cast<bool>());
}

std::int64_t integer(const char* op, const char* name, Object value) {
  if (is_integer(value) && !PyBool_Check(value.ptr())) return value.cast<std::int64_t>();
  throw Error(fmt::format("[{}] {} must be an int, not {}.", op, name, repr_of(value)));
}

at::Tensor start_of(const char* op, Object start) {
  if (is_tensor(start)) return to_tensor(start);
  throw Error(fmt::format("[{}] start must be an integer tensor of one element, not {}.", op, repr_of(start)));
}

at::Tensor slice(Object tensor, Object dim, Object start, Object size, Object step) {
  const char* op = "dynamic_slice";
  return dynamicSlice(tensor_argument(op, tensor), integer(op, "dim", dim), start_of(op, start),
                      integer(op, "size", size), integer(op, "step", step));
}

at::Tensor update(Object input, Object src, Object dim, Object start, Object size) {
  const char* op = "dynamic_update";
  return dynamicUpdate(tensor_argument(op, input), tensor_argument(op, src), integer(op, "dim", dim),
                       start_of(op, start), integer(op, "size", size));
}

// What a Python body returns: a tensor, or a list or tuple of them.
Body body_of(const py::function& body) {
  return [&body](const Tensors& values) {
    py::tuple arguments(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) arguments[i] = values[i];
    const py::object results = body(*arguments);
    if (!is_list_or_tuple(results)) return Tensors{results.cast<at::Tensor>()};
    return results.cast<Tensors>();
  };
}

Tensors inputs_of(const char* what, Object inputs) {
  if (auto tensors = tensor_list(inputs)) return *tensors;
  throw ValueError(fmt::format("{} must be a list of tensors, not {}", what, repr_of(inputs)));
}

Tensors loop(std::int64_t count, const py::function& body, Object inputs) {
  return forLoop(count, body_of(body), inputs_of("The inputs of for_loop", inputs));
}

Tensors choose(Object condition, const py::function& then_body, Object then_inputs, const py::function& else_body,
               Object else_inputs) {
  const Tensors yes = inputs_of("then_inps of cond", then_inputs), no = inputs_of("else_inps of cond", else_inputs);
  if (!is_tensor(condition)) throw Error("[cond] the condition must be a bool tensor of one element.");
  return cond(to_tensor(condition), body_of(then_body), yes, body_of(else_body), no);
}

OverlapMode overlap_mode(Object mode) {
  const std::string name = member_of("OverlapMode", mode);
  if (name == "NoOverlap") return OverlapMode::NoOverlap;
  return name == "OverlapAccumulationLoop" ? OverlapMode::OverlapAccumulationLoop
                                           : OverlapMode::OverlapDeviceIterationLoop;
}

void bind_markers(py::module_& module) {
  module.def("identity_loss", &identity_loss, py::arg("x"), py::arg("reduction"),
             "Marks a value as the loss to train on, after reducing it by \"sum\", \"mean\" or \"none\".");
  module.def(
      "nop", [](Object tensor) { return nop(tensor_argument("nop", tensor)); }, py::arg("tensor"),
      "The tensor itself, through an op that is never optimised away.");
  module.def("ipu_print_tensor", &print_tensor, py::arg("tensor"), py::arg("title") = "",
             py::arg("print_gradient") = true, py::arg("summarise_threshold") = 1000, py::arg("edge_items") = 3,
             py::arg("max_line_width") = 80, py::arg("digits") = 4, py::arg("float_format") = "auto",
             py::arg("separator") = ", ", py::arg("open_bracket") = "(", py::arg("close_bracket") = ")",
             "The tensor itself; each time it is computed it is printed to stderr, and so is its gradient.");
  module.def("recomputationCheckpoint", &checkpoints,
             "Marks tensors to be kept for the backward pass rather than computed again.");
  module.def("set_available_memory", &available_memory, py::arg("tensor"), py::arg("available_memory_proportion"),
             "How much memory the op that made the tensor may use for itself: a hint that changes no result.");
}

}  // namespace

void bind_ops(py::module_& module) {
  bind_markers(module);
  module.def("serializedMatMul", &serialized_matmul, py::arg("lhs"), py::arg("rhs"), py::arg("mode"),
             py::arg("factor") = 0, py::arg("keep_precision") = false,
             "torch.matmul in `factor` parts, so that less memory is needed at a time.");
  module.def("dynamic_slice", &slice, py::arg("tensor"), py::arg("dim"), py::arg("start"), py::arg("size"),
             py::arg("step"),
             "tensor[start : start + size : step] along dim, with a start that is known only when the model runs.");
  module.def("dynamic_update", &update, py::arg("input"), py::arg("src"), py::arg("dim"), py::arg("start"),
             py::arg("size"), "A copy of input whose window [start, start + size) along dim is src.");
  module.def(
      "for_loop", &loop, py::arg("count"), py::arg("body"), py::arg("inputs"),
      "Calls body `count` times, each time on the tensors the previous call returned.\n\n"
      "The body is recorded once and becomes a loop of the program; what it makes and does not return cannot be "
      "used outside. Bodies that write to tensors outside, call functions with a backward pass of their own, put "
      "hooks on gradients or begin blocks are recorded once a turn.");
  module.def(
      "cond", &choose, py::arg("condition"), py::arg("then_body"), py::arg("then_inps"), py::arg("else_body"),
      py::arg("else_inps"),
      "What then_body(*then_inps) returns if the condition holds, else what else_body(*else_inps) does.\n\n"
      "The other one does not run: it writes to no buffer, prints nothing and cannot fail. Where a body calls "
      "functions "
      "with a backward pass of their own, puts hooks on gradients or begins blocks, both are computed and the results "
      "chosen between.");
  module.def("set_overlap_for_input",
             [](const at::Tensor& tensor, Object mode) { return setOverlapForInput(tensor, overlap_mode(mode)); });
  module.def("set_overlap_for_output",
             [](const at::Tensor& tensor, Object mode) { return setOverlapForOutput(tensor, overlap_mode(mode)); });
}

}  // namespace poptorch
