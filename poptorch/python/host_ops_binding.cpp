// The CTC decoder, fps and nearest under their Python names.
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
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

auto decode(Object probs, Object lengths, std::int64_t blank, std::int64_t beam_width, std::int64_t top_paths) {
  const char* op = "ctc_beam_search_decoder";
  return ctcBeamSearchDecoder(tensor_argument(op, probs), tensor_argument(op, lengths), blank, beam_width, top_paths);
}

std::optional<std::vector<std::int64_t>> integer_list(Object values) {
  const auto is_number = [](const py::handle& value) { return is_integer(value) && !PyBool_Check(value.ptr()); };
  return list_of<std::int64_t>(values, is_number, [](const py::handle& value) { return value.cast<std::int64_t>(); });
}

at::Tensor sample(Object src, Object ptr, Object ratio, Object random_start) {
  const at::Tensor points = tensor_argument("fps", src);
  const auto segments = integer_list(ptr);
  if (!segments) throw Error(fmt::format("[fps] ptr must be a list of ints, not {}.", repr_of(ptr)));
  if (!is_float(ratio) && !is_integer(ratio)) {
    throw Error(fmt::format("[fps] ratio must be a number, not {}.", repr_of(ratio)));
  }
  if (!PyBool_Check(random_start.ptr())) {
    throw Error(fmt::format("[fps] random_start must be a bool, not {}.", repr_of(random_start)));
  }
  return fps(points, *segments, ratio.cast<double>(), random_start.cast<bool>());
}

std::optional<at::Tensor> batch_ids(const char* name, Object ids) {
  if (ids.is_none()) return std::nullopt;
  if (is_tensor(ids)) return to_tensor(ids);
  if (const auto list = integer_list(ids)) return at::tensor(*list);
  throw Error(fmt::format("[nearest] {} must be a tensor or a list of ints, not {}.", name, repr_of(ids)));
}

at::Tensor find_nearest(Object x, Object y, Object batch_x, Object batch_y) {
  return nearest(tensor_argument("nearest", x), tensor_argument("nearest", y), batch_ids("batch_x", batch_x),
                 batch_ids("batch_y", batch_y));
}

}  // namespace

void bind_host_ops(py::module_& module) {
  module.def("ctc_beam_search_decoder", &decode, py::arg("probs"), py::arg("lengths"), py::arg("blank") = 0,
             py::arg("beam_width") = 100, py::arg("top_paths") = 1,
             "The likeliest label sequences: their log-probabilities, lengths and labels. On the host: zeros.");
  module.def("fps", &sample, py::arg("src"), py::arg("ptr"), py::arg("ratio") = 0.5, py::arg("random_start") = false,
             "Farthest point sampling in each segment ptr[i]:ptr[i + 1]: the indices of ceil(length * ratio) rows.");
  module.def("nearest", &find_nearest, py::arg("x"), py::arg("y"), py::arg("batch_x") = py::none(),
             py::arg("batch_y") = py::none(),
             "For each row of x the index of the nearest row of y, within the same batch.");
}

}  // namespace poptorch
