// Files of compiled models: sections of bytes, and the models in them.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "poptorch/api/compile_settings.h"
#include "poptorch/api/saved_model.h"
#include "poptorch/model/session.h"
#include "poptorch/python/bindings.h"
#include "poptorch/strategy.h"

namespace py = pybind11;

namespace poptorch {
namespace {

// The sections of a file, and its name for errors.
struct ModelFile {
  std::string path, who;
  aspen::Sections sections;
};

ModelFile read(const std::string& path, const std::string& who) {
  py::gil_scoped_release no_gil;
  return {path, who, read_model_file(path, who.c_str())};
}

void write(const ModelFile& file) {
  py::gil_scoped_release no_gil;
  write_model_file(file.sections, file.path, file.who.c_str());
}

void set(ModelFile& file, const std::string& name, const py::bytes& bytes) {
  const std::string_view text(bytes);
  const auto content = std::as_bytes(std::span(text));
  file.sections.set(name, {content.begin(), content.end()});
}

py::bytes get(const ModelFile& file, const std::string& name) {
  return using_model_file(file.path, file.who.c_str(), [&] {
    const auto content = file.sections.get(name);
    return py::bytes(reinterpret_cast<const char*>(content.data()), content.size());
  });
}

ModelFile save(Session& session, const std::string& path, const std::string& who, bool with_random_state) {
  ModelFile file{export_path(path, who.c_str()), who, {}};
  py::gil_scoped_release no_gil;
  session.save(file.sections, with_random_state);
  return file;
}

// optimizer: of DeviceOptimizer.compiled; nullptr for inference. with_contents: not the program alone.
void load(Model& model, const ModelFile& file, bool training, const OptionStore& options,
          const ExecutionStrategy& strategy, const std::set<std::int64_t>& ipus, const OptimizerProgram* optimizer,
          bool with_contents) {
  CompileSettings settings = compile_settings(options, strategy, training, ipus);
  if (optimizer != nullptr) add_optimizer(settings, *optimizer);
  py::gil_scoped_release no_gil;
  using_model_file(file.path, file.who.c_str(), [&] {
    model.load(file.sections, settings, with_contents ? FileContents::kAll : FileContents::kProgram);
  });
}

}  // namespace

void bind_saved_models(py::module_& module) {
  py::class_<ModelFile>(module, "ModelFile")
      .def(py::init(&read), py::arg("path"), py::arg("who"))
      .def_readonly("path", &ModelFile::path)
      .def("write", &write)
      .def("has", [](const ModelFile& file, const std::string& name) { return file.sections.has(name); })
      .def("get", &get, py::arg("name"))
      .def("set", &set, py::arg("name"), py::arg("bytes"))
      .def("refuse",
           [](const ModelFile& file, const std::string& why) { refuse_model_file(file.path, file.who.c_str(), why); });
  module.def("save_session", &save, py::arg("session"), py::arg("path"), py::arg("who"), py::arg("with_random_state"));
  module.def("load_model", &load, py::arg("model"), py::arg("file"), py::arg("training"), py::arg("options"),
             py::arg("strategy"), py::arg("ipus"), py::arg("optimizer"), py::arg("with_contents"));
}

}  // namespace poptorch
