#include "aspen/program_file/program_codec.h"

#include <optional>

#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/make_kernels.h"
#include "aspen/program_file/program_fields.h"
#include "aspen/program_file/sections.h"
#include "aspen/program_file/stored_body.h"
#include "aspen/runtime/copy_kernel.h"
#include "aspen/runtime/packing.h"

namespace aspen {
namespace {

// -- streams that know attributes -------------------------------------------------------------------------------------
class ProgramWriter : public ByteWriter<ProgramWriter> {
 public:
  void attributes(const std::string& op, Attrs& attrs);
};

class ProgramReader : public ByteReader<ProgramReader> {
 public:
  ProgramReader(std::span<const std::byte> bytes, const HostFunctionReader& host_functions)
      : ByteReader(bytes), host_functions_(host_functions) {}
  void attributes(const std::string& op, Attrs& attrs);

 private:
  const HostFunctionReader& host_functions_;
};

// -- attributes -------------------------------------------------------------------------------------------------------
// A field is its kind and its value: a file of another version with fields of other kinds is noticed.
enum class Kind : std::uint8_t {
  kInteger,
  kReal,
  kFlag,
  kType,
  kText,
  kIntegers,
  kReals,
  kBlob,
  kFunction,
  kGradient,
  kBody
};

template <class Stream>
class AttributeFields : public AttrVisitor {
 public:
  explicit AttributeFields(Stream& stream) : stream_(stream) {}

  void operator()(const char* name, std::int64_t& field) override { plain(name, Kind::kInteger, field); }
  void operator()(const char* name, double& field) override { plain(name, Kind::kReal, field); }
  void operator()(const char* name, bool& field) override { plain(name, Kind::kFlag, field); }
  void operator()(const char* name, DType& field) override {
    begin(name, Kind::kType);
    stream_.choice(field, static_cast<DType>(kNumDTypes - 1));
  }
  void operator()(const char* name, std::string& field) override { plain(name, Kind::kText, field); }
  void operator()(const char* name, std::vector<std::int64_t>& field) override { plain(name, Kind::kIntegers, field); }
  void operator()(const char* name, std::vector<double>& field) override { plain(name, Kind::kReals, field); }
  void operator()(const char* name, Blob& field) override {
    std::vector<std::byte> bytes;
    if (field.bytes) bytes = *field.bytes;
    plain(name, Kind::kBlob, bytes);
    if constexpr (Stream::kReads) field.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  }
  void operator()(const char* name, Body& field) override {
    StoredBody stored;
    if constexpr (!Stream::kReads) {
      if (field != nullptr) stored = stored_body(graph_of(field));
    }
    plain(name, Kind::kBody, stored);
    if constexpr (Stream::kReads) field = make_body(stored);
  }
  // Gradients of the user's are gone from a compiled program.
  void operator()(const char* name, std::shared_ptr<CustomGradient>& field) override {
    begin(name, Kind::kGradient);
    field = nullptr;
  }

 protected:
  void begin(const char* name, Kind kind) {
    Kind stored = kind;
    stream_.choice(stored, Kind::kBody);
    if (stored != kind) throw FileError("attribute {} has another type than it should", name);
  }
  template <class T>
  void plain(const char* name, Kind kind, T& field) {
    begin(name, kind);
    stream_(field);
  }

  Stream& stream_;
};

class AttributeWriter final : public AttributeFields<ProgramWriter> {
 public:
  using AttributeFields::AttributeFields;
  using AttributeFields::operator();
  void operator()(const char* name, std::shared_ptr<HostFunction>& field) override {
    begin(name, Kind::kFunction);
    bool present = field != nullptr;
    stream_(present);
    if (!present) return;
    std::string function = field->name();
    std::optional<std::vector<std::byte>> stored = field->stored();
    if (!stored) {
      throw UserError(
          "[program file] {} is a function of this process alone, and a program that calls it cannot be stored. Leave "
          "it out of the model, or store the model and compile it where it is to run.",
          function);
    }
    stream_(function, *stored);
  }
};

class AttributeReader final : public AttributeFields<ProgramReader> {
 public:
  AttributeReader(ProgramReader& stream, const HostFunctionReader& host_functions)
      : AttributeFields(stream), host_functions_(host_functions) {}
  using AttributeFields::operator();
  void operator()(const char* name, std::shared_ptr<HostFunction>& field) override {
    begin(name, Kind::kFunction);
    bool present = false;
    stream_(present);
    if (!present) return;
    std::string function;
    std::vector<std::byte> stored;
    stream_(function, stored);
    if (host_functions_) field = host_functions_(function, stored);
    if (field == nullptr) throw FileError("it calls {} on the host, which is not known here", function);
  }

 private:
  const HostFunctionReader& host_functions_;
};

void ProgramWriter::attributes(const std::string&, Attrs& attrs) {
  AttributeWriter writer(*this);
  attrs.visited(writer);
}

void ProgramReader::attributes(const std::string& op, Attrs& attrs) {
  const OpDef* def = op_registry().try_find(op);
  if (def == nullptr) throw FileError("it has an op \"{}\", which is not known here", op);
  AttributeReader reader(*this, host_functions_);
  attrs = def->default_attrs().visited(reader);
}

// -- names and kinds of attributes ------------------------------------------------------------------------------------
// Of each op its name and its attributes, as text.
class AttributeNames final : public AttrVisitor {
 public:
  void operator()(const char* name, std::int64_t&) override { add(name, Kind::kInteger); }
  void operator()(const char* name, double&) override { add(name, Kind::kReal); }
  void operator()(const char* name, bool&) override { add(name, Kind::kFlag); }
  void operator()(const char* name, DType&) override { add(name, Kind::kType); }
  void operator()(const char* name, std::string&) override { add(name, Kind::kText); }
  void operator()(const char* name, std::vector<std::int64_t>&) override { add(name, Kind::kIntegers); }
  void operator()(const char* name, std::vector<double>&) override { add(name, Kind::kReals); }
  void operator()(const char* name, Blob&) override { add(name, Kind::kBlob); }
  void operator()(const char* name, std::shared_ptr<HostFunction>&) override { add(name, Kind::kFunction); }
  void operator()(const char* name, std::shared_ptr<CustomGradient>&) override { add(name, Kind::kGradient); }
  void operator()(const char* name, Body&) override { add(name, Kind::kBody); }
  std::string text;

 private:
  void add(const char* name, Kind kind) { text += fmt::format(" {}:{}", name, static_cast<int>(kind)); }
};

// -- kernels ----------------------------------------------------------------------------------------------------------
void add_kernels(Program& program, const Backend& backend, const ProgramLimits& limits) {
  std::vector<Instruction*> instructions;
  std::vector<const KernelRequest*> requests;
  for (auto* tasks : {&program.step, &program.update}) {
    for (Task& task : *tasks) {
      for (Instruction& instruction : task.instructions) {
        if (instruction.is_copy) {
          instruction.kernel = make_copy_kernel(instruction.outputs[0].bytes);
          continue;
        }
        instructions.push_back(&instruction);
        requests.push_back(&instruction.request);
      }
    }
  }
  const MadeKernels made = make_kernels(requests, backend);
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const auto& [kernel, error] = made.of_request[i];
    if (error != nullptr) std::rethrow_exception(error);
    Instruction& instruction = *instructions[i];
    instruction.kernel = kernel;
    if (kernel->workspace_bytes() <= instruction.workspace.bytes) continue;
    throw FileError("a kernel of {} wants {} bytes of workspace here and has {} in the program",
                    to_string(instruction.request), kernel->workspace_bytes(), instruction.workspace.bytes);
  }
  plan_packing(program, limits.memory - memory_of(program));
}

}  // namespace

std::vector<std::byte> encode_program(const Program& program) {
  ProgramWriter writer;
  visit(writer, const_cast<Program&>(program));  // one list of fields serves both directions; a writer changes none
  return writer.take();
}

std::unique_ptr<Program> decode_program(std::span<const std::byte> bytes, const Backend& backend,
                                        const HostFunctionReader& host_functions, const ProgramLimits& limits) {
  try {
    auto program = std::make_unique<Program>();
    ProgramReader reader(bytes, host_functions);
    visit(reader, *program);
    reader.expect_end();
    check_program(*program, limits);
    add_kernels(*program, backend, limits);
    return program;
  } catch (const FileError&) {
    throw;
  } catch (const std::exception& error) {  // of an op that is asked for what it cannot do
    throw FileError("{}", error.what());
  }
}

std::uint64_t op_set() {
  AttributeNames names;
  for (const OpDef* def : op_registry().all()) {
    names.text += "\n" + def->name();
    def->default_attrs().visited(names);
  }
  return checksum(std::as_bytes(std::span(names.text)));
}

}  // namespace aspen
