#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "poptorch/api/image_batches.h"
#include "poptorch/api/known_rows.h"
#include "poptorch/api/sampling.h"
#include "poptorch/python/bindings.h"
#include "poptorch/python/convert.h"

namespace py = pybind11;

namespace poptorch {
namespace {

// As torch does, which takes negative seeds, too.
std::optional<std::uint64_t> seed_of(const std::optional<py::int_>& seed) {
  if (!seed) return std::nullopt;
  return PyLong_AsUnsignedLongLongMask(seed->ptr());
}

py::iterator indices_of(const Order& order) {
  if (order.listed.defined()) return py::iter(py::cast(order.listed).attr("tolist")());
  const auto range = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyRange_Type));
  return py::iter(range(order.begin, order.begin + order.size));
}

ShareSampler make_share(std::int64_t num_elements, std::int64_t combined_batch_size, std::int64_t num_processes,
                        std::int64_t process_id, bool drop_last, bool shuffle, const std::optional<py::int_>& seed) {
  const auto used = shuffle ? std::optional(shared_seed(seed_of(seed))) : std::nullopt;
  return ShareSampler(num_elements, combined_batch_size, num_processes, process_id, drop_last, used);
}

py::tuple saved(const ShareSampler& sampler) {
  const ShareSampler::State state = sampler.state();
  const py::object generator = state.generator.defined() ? py::cast(state.generator) : py::none();
  return py::make_tuple(state.num_elements, state.begin, state.size, state.left_over, generator, state.shifts_window);
}

ShareSampler restored(const py::tuple& saved) {
  ShareSampler::State state;
  state.num_elements = saved[0].cast<std::int64_t>();
  state.begin = saved[1].cast<std::int64_t>();
  state.size = saved[2].cast<std::int64_t>();
  state.left_over = saved[3].cast<std::int64_t>();
  if (!saved[4].is_none()) state.generator = saved[4].cast<at::Tensor>();
  state.shifts_window = saved[5].cast<bool>();
  return ShareSampler(state);
}

// A whole number as samplers and subsets give them: of Python, numpy or torch.
std::optional<std::int64_t> number_in(PyObject* object) {
  if (PyLong_CheckExact(object) || std::string_view(Py_TYPE(object)->tp_name).starts_with("numpy.int")) {
    return PyNumber_AsSsize_t(object, nullptr);  // out of range: as far as it goes
  }
  if (!THPVariable_CheckExact(object)) return std::nullopt;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const bool is_number = tensor.dim() == 0 && tensor.device().is_cpu() && tensor.scalar_type() == at::kLong;
  return is_number ? std::optional(tensor.item<std::int64_t>()) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> numbers_in(const py::list& list) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(list.size());
  for (const py::handle element : list) {
    const auto number = number_in(element.ptr());
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<at::Tensor> made_batch(const ImageBatches& batches, const py::list& indices,
                                     std::optional<at::Tensor> rows) {
  const auto numbers = numbers_in(indices);
  if (!numbers) return std::nullopt;
  const py::gil_scoped_release no_gil;
  return batches.make(*numbers, rows ? std::move(*rows) : at::Tensor());
}

std::optional<std::vector<std::int64_t>> changed(const at::Tensor& images, const at::Tensor& before,
                                                 const at::Tensor& known, const py::list& indices) {
  const auto numbers = numbers_in(indices);
  if (!numbers) return std::nullopt;
  return changed_images(images, before, known, *numbers);
}

std::optional<at::Tensor> picked(const at::Tensor& tensor, const py::list& indices, std::optional<at::Tensor> rows) {
  const auto numbers = numbers_in(indices);
  if (!numbers) return std::nullopt;
  const py::gil_scoped_release no_gil;
  return picked_rows(tensor, *numbers, rows ? std::move(*rows) : at::Tensor());
}

void bind_image_batches(py::module_& module) {
  py::class_<ImageBatches>(module, "ImageBatches")
      .def(py::init([](at::Tensor images, at::Tensor tables, at::Tensor places, at::Tensor constants) {
             return std::make_unique<ImageBatches>(
                 std::move(images), ImageChain{std::move(tables), std::move(places), std::move(constants)});
           }),
           py::arg("images"), py::arg("tables"), py::arg("places"), py::arg("constants"))
      .def("make", &made_batch, py::arg("indices"), py::arg("rows") = py::none())
      .def_property_readonly("row_shape", &ImageBatches::row_shape)
      .def_property_readonly("dtype", [](const ImageBatches& batches) { return dtype_object(batches.type()); });
  module.def("changed_images", &changed, py::arg("images"), py::arg("before"), py::arg("known"), py::arg("indices"));
  module.def("picked_rows", &picked, py::arg("tensor"), py::arg("indices"), py::arg("rows") = py::none());
  module.def("loader_memory", &loader_memory);
}

}  // namespace

void bind_data_loader(py::module_& module) {
  module.def("combined_batch_size", &combined_batch_size, py::arg("batch_size"), py::arg("micro_batches_per_item"));
  module.def("num_items", &num_items, py::arg("num_elements"), py::arg("per_item"), py::arg("drop_last"));
  module.def("warn_about_remainder", &warn_about_remainder, py::arg("elements"), py::arg("num_elements"),
             py::arg("per_item"), py::arg("drop_last"));
  module.def(
      "resolved_loader_mode",
      [](int mode, bool drop_last, std::int64_t combined_batch_size) {
        return static_cast<int>(resolved_mode(static_cast<DataLoaderMode>(mode), drop_last, combined_batch_size));
      },
      py::arg("mode"), py::arg("drop_last"), py::arg("combined_batch_size"));
  module.def("worker_batch_size", &worker_batch_size, py::arg("combined_batch_size"), py::arg("wanted"));
  module.def("piece_size", &piece_size, py::arg("combined_batch_size"), py::arg("num_workers"));
  py::class_<ShareSampler>(module, "ProcessShareSampler")
      .def(py::init(&make_share), py::arg("num_elements"), py::arg("combined_batch_size"), py::arg("num_processes"),
           py::arg("process_id"), py::arg("drop_last"), py::arg("shuffle"), py::arg("seed"))
      .def("__len__", &ShareSampler::size)
      .def("__iter__", [](ShareSampler& sampler) { return indices_of(sampler.next_epoch()); })
      .def(py::pickle(&saved, &restored));
  bind_image_batches(module);
}

}  // namespace poptorch
