#include "aspen/compiler/passes/fold_constants.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "aspen/backends/api/convert.h"
#include "aspen/base/log.h"
#include "aspen/compiler/evaluate.h"
#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"

namespace aspen {
namespace {

// Inputs and results above this are not worth their place in the program.
constexpr std::size_t kLargestFolded = 64 << 10;

using Bytes = std::vector<std::byte>;

// The number every element is, if they are all the same.
std::optional<double> uniform(const TensorType& type, const Bytes& bytes) {
  std::size_t size = size_of(type.dtype);
  if (bytes.empty()) return std::nullopt;
  for (std::size_t i = size; i < bytes.size(); i += size) {
    if (std::memcmp(bytes.data(), bytes.data() + i, size) != 0) return std::nullopt;
  }
  return dispatch_stored(type.dtype, [&](auto tag) {
    typename decltype(tag)::type value;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return convert<double>(value);
  });
}

class Folder {
 public:
  Folder(Graph& graph, const Backend& backend) : graph_(graph), b_(graph), backend_(backend) {}

  void run() {
    for (auto place = graph_.ops().begin(); place != graph_.ops().end();) {
      Op* op = (place++)->get();
      if (can_fold(*op)) fold(op);
    }
  }

 private:
  bool can_fold(const Op& op) const {
    const OpDef& def = op.def();
    if (def.is_source() || def.is_alias() || !op.is_function()) return false;
    auto is_known = [](const Value* value) {
      return value == nullptr || (value->producer() != nullptr && value->producer()->def().is_source() &&
                                  value->type().bytes() <= kLargestFolded);
    };
    auto outputs = op.outputs();
    return op.num_inputs() > 0 && std::all_of(op.inputs().begin(), op.inputs().end(), is_known) &&
           std::all_of(outputs.begin(), outputs.end(),
                       [](const Value* output) { return output->type().bytes() <= kLargestFolded; });
  }

  const Bytes& bytes_of(const Value* source) {
    auto found = known_.find(source->id());
    if (found == known_.end())
      found = known_.emplace(source->id(), evaluate(*source->producer(), {}, backend_)[0]).first;
    return found->second;
  }

  void fold(Op* op) {
    std::vector<const Bytes*> inputs;
    for (const Value* input : op->inputs()) inputs.push_back(input == nullptr ? nullptr : &bytes_of(input));
    std::vector<Bytes> results;
    try {
      results = evaluate(*op, inputs, backend_);
    } catch (const UserError& e) {
      // An index out of range, say: it is reported by the run, with the micro-batch, if the op is ever reached.
      log::debug("fold_constants leaves {}: {}", op->name(), e.what());
      return;
    }
    b_.like(*op);
    b_.before = op;
    for (std::size_t i = 0; i < op->num_outputs(); ++i) {
      Value* output = op->output(i);
      if (!output->is_used()) continue;
      auto number = uniform(output->type(), results[i]);
      Value* folded = number ? build::full(b_, output->dtype(), output->shape(), *number)
                             : build::constant(b_, output->type(), results[i]);
      known_.emplace(folded->id(), std::move(results[i]));
      replace_value(graph_, output, folded);
    }
    graph_.erase(op);
  }

  Graph& graph_;
  Builder b_;
  const Backend& backend_;
  std::unordered_map<std::int64_t, Bytes> known_;  // contents of sources, by value id
};

}  // namespace

void fold_constants(Graph& graph, const PassContext& context) {
  if (context.backend != nullptr) Folder(graph, *context.backend).run();
}

}  // namespace aspen
