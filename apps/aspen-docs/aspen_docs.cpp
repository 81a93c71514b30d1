// aspen-docs: writes docs/ops.md from the op registry, so that the page cannot say anything else than the code.
//   aspen-docs                  prints the page
//   aspen-docs --check <file>   fails when the file is not what would be printed
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "aspen/backends/api/through_float.h"
#include "aspen/backends/cpu/cpu_backend.h"
#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/ir/builder.h"

namespace aspen {
namespace {

// Collects "name: type = default" of every attribute.
class AttrLister final : public AttrVisitor {
 public:
  void operator()(const char* name, std::int64_t& field) override { add(name, "int", std::to_string(field)); }
  void operator()(const char* name, double& field) override { add(name, "float", fmt::format("{}", field)); }
  void operator()(const char* name, bool& field) override { add(name, "bool", field ? "true" : "false"); }
  void operator()(const char* name, DType& field) override { add(name, "dtype", std::string(name_of(field))); }
  void operator()(const char* name, std::string& field) override { add(name, "string", '"' + field + '"'); }
  void operator()(const char* name, std::vector<std::int64_t>& field) override {
    add(name, "ints", fmt::format("[{}]", fmt::join(field, ", ")));
  }
  void operator()(const char* name, std::vector<double>& field) override {
    add(name, "floats", fmt::format("[{}]", fmt::join(field, ", ")));
  }
  void operator()(const char* name, Blob&) override { add(name, "bytes", "none"); }
  void operator()(const char* name, std::shared_ptr<HostFunction>&) override { add(name, "host function", "none"); }
  void operator()(const char* name, std::shared_ptr<CustomGradient>&) override { add(name, "gradient", "none"); }
  void operator()(const char* name, Body&) override { add(name, "graph", "none"); }

  std::vector<std::string> lines;

 private:
  void add(const char* name, const char* type, const std::string& value) {
    lines.push_back(fmt::format("{}: {} = {}", name, type, value));
  }
};

struct NamedKernels {
  std::string name;
  KernelRegistry kernels;
};

std::vector<NamedKernels> backends() {
  std::vector<NamedKernels> result(2);
  result[0].name = "reference";
  register_reference_kernels(result[0].kernels);
  result[1].name = "cpu";
  register_cpu_kernels(result[1].kernels);
  return result;
}

// The request an example makes when its first input (and those of the same type) have element type `dtype`.
// False when the shape rule refuses.
bool request_for(const OpDef& def, const Example& example, DType dtype, KernelRequest& request) {
  Graph graph;
  std::vector<Value*> inputs;
  for (const TensorType& input : example.inputs) {
    bool replaced = input.dtype == example.inputs[0].dtype;
    inputs.push_back(graph.add_input("x", {replaced ? dtype : input.dtype, input.shape}));
  }
  try {
    const Op* op = graph.add_op(def, inputs, example.attrs);
    request = {.op = def.name(), .attrs = example.attrs, .inputs = {}, .outputs = {}};
    for (const Value* input : inputs) request.inputs.push_back({input->type(), true});
    for (const Value* output : op->outputs()) request.outputs.push_back(output->type());
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// Element types of the first input for which some example finds a kernel. Plain kernels take bfloat16 through float32.
std::string supported_types(const OpDef& def, const KernelRegistry& kernels, bool is_plain) {
  std::vector<std::string_view> types;
  for (int i = 0; i < kNumDTypes; ++i) {
    auto dtype = static_cast<DType>(i);
    for (const Example& example : def.examples()) {
      KernelRequest request;
      std::string why;
      if (example.inputs.empty() || !request_for(def, example, dtype, request)) continue;
      if (is_plain && computes_in_bfloat16(request)) {
        request = *widened_request(request, *plain_bfloat16_conversion());
      }
      if (!kernels.create(request, why)) continue;
      types.push_back(name_of(dtype));
      break;
    }
  }
  return fmt::format("{}", fmt::join(types, " "));
}

void write_ports(std::ostream& out, const char* direction, const std::vector<Port>& ports) {
  for (const Port& port : ports) {
    out << "- " << direction << " `" << port.name << (port.variadic ? "..." : "") << "`"
        << (port.optional ? " (optional)" : "") << ": " << port.doc << "\n";
  }
}

void write_op(std::ostream& out, const OpDef& def, const std::vector<NamedKernels>& backends) {
  out << "\n## " << def.name() << "\n\n" << def.summary() << "\n\n";
  write_ports(out, "in", def.input_ports());
  write_ports(out, "out", def.output_ports());
  AttrLister attrs;
  def.default_attrs().visited(attrs);
  for (const std::string& line : attrs.lines) out << "- attribute `" << line << "`\n";
  for (auto [output, input] : def.inplace_pairs()) {
    const auto& ports = def.input_ports();
    out << "- `" << def.output_ports()[std::min(output, def.output_ports().size() - 1)].name
        << "` may take over the buffer of `" << ports[std::min(input, ports.size() - 1)].name << "`\n";
  }
  if (def.is_alias()) out << "- runs no kernel: the output is the input's buffer under another type\n";
  for (const auto& [name, kernels] : backends) {
    if (!kernels.has(def.name())) continue;
    std::string types = supported_types(def, kernels, name == "reference");
    out << "- " << name << (types.empty() ? "" : ": ") << types << "\n";
  }
}

// Text inside a table: a bar would end the cell.
std::string in_cell(const std::string& text) {
  std::string result;
  for (char c : text) result += c == '|' ? "\\|" : std::string(1, c);
  return result;
}

void write_index(std::ostream& out, const std::vector<const OpDef*>& defs, const std::vector<NamedKernels>& backends) {
  out << "| op | what it computes | gradient |";
  for (const auto& backend : backends) out << " " << backend.name << " |";
  out << "\n|---|---|---|" << fmt::format("{}", fmt::join(std::vector<std::string>(backends.size(), "---|"), ""));
  for (const OpDef* def : defs) {
    out << "\n| [" << def->name() << "](#" << def->name() << ") | " << in_cell(def->summary()) << " | "
        << (def->has_gradient() ? "yes" : "") << " |";
    for (const auto& backend : backends) out << (backend.kernels.has(def->name()) ? " yes |" : "  |");
  }
  out << "\n";
}

std::string page() {
  std::vector<NamedKernels> kernels = backends();
  std::vector<const OpDef*> defs = op_registry().all();
  std::ostringstream out;
  out << "# Ops\n\n"
         "Written by `aspen-docs` from the definitions in `aspen/ops/`; `cmake --build --preset release --target "
         "docs`\n"
         "renews it. What a backend has no kernel for runs on the reference kernel. Element types are those of the\n"
         "first input.\n\n";
  write_index(out, defs, kernels);
  for (const OpDef* def : defs) write_op(out, *def, kernels);
  return out.str();
}

}  // namespace
}  // namespace aspen

int main(int argc, char** argv) {
  std::string page = aspen::page();
  if (argc == 1) {
    std::cout << page;
    return 0;
  }
  if (argc != 3 || std::string(argv[1]) != "--check") {
    std::cerr << "usage: aspen-docs [--check <file>]\n";
    return 2;
  }
  std::ifstream file(argv[2]);
  std::ostringstream content;
  content << file.rdbuf();
  if (content.str() == page) return 0;
  std::cerr << argv[2] << " is out of date; renew it with: cmake --build --preset release --target docs\n";
  return 1;
}
