// The registry of operators of the user's own, and the call of one by its name.
#include "poptorch/custom_op.h"

#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "poptorch/api/guarded.h"
#include "poptorch/api/spelling.h"
#include "poptorch/capture/custom_op.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

void require_ascii(const std::string& text, const std::string& what) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 128; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return;
  throw ValueError(fmt::format("{} must be ASCII, not \"{}\"", what, text));
}

// Libraries are loaded at any time, on any thread.
class Registry {
 public:
  using Entry = std::shared_ptr<const CustomOp>;

  void add(Entry op) {
    const std::lock_guard lock(mutex_);
    ops_.push_back(std::move(op));
  }

  void remove(const Entry& op) {
    const std::lock_guard lock(mutex_);
    ops_.erase(std::remove(ops_.begin(), ops_.end(), op), ops_.end());
  }

  Entry find(const std::string& title, const std::string& name, const std::string& domain, std::int64_t version) const {
    const std::lock_guard lock(mutex_);
    std::vector<Entry> found;
    std::vector<std::string> known;
    for (const Entry& op : ops_) {
      if (op->name == name && op->domain == domain && op->version == version) found.push_back(op);
      known.push_back(fmt::format("{}.{} version {}", op->domain, op->name, op->version));
    }
    if (found.size() == 1) return found.front();
    if (found.size() > 1) {
      throw Error(fmt::format("[{}] {} operators are registered under this name; load one library of them only.", title,
                              found.size()));
    }
    std::sort(known.begin(), known.end());
    throw Error(
        fmt::format("[{}] no such operator is registered; load the library that has it first{}. Registered: {}.", title,
                    spelled("", ", with torch.ops.load_library(path)"),
                    known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> ops_;
};

Registry& registry() {
  static auto* made = new Registry;  // never destroyed: libraries may be unloaded after us
  return *made;
}

}  // namespace

CustomOpAttributes::CustomOpAttributes(Map values) : values_(std::move(values)) {
  for (const auto& [name, value] : values_) {
    require_ascii(name, "The name of an attribute");
    const std::string what = fmt::format("Attribute \"{}\"", name);
    if (const auto* text = std::get_if<std::string>(&value)) require_ascii(*text, what);
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& text : *texts) require_ascii(text, what);
    }
  }
}

const CustomOpAttributes::Value& CustomOpAttributes::find(const std::string& name) const {
  const auto place = values_.find(name);
  if (place != values_.end()) return place->second;
  throw Error(fmt::format("attribute \"{}\" is not given.", name));
}

void CustomOpAttributes::fail_type(const std::string& name) const {
  static const char* const kTypes[] = {"an int",         "a float",          "a text",
                                       "a list of ints", "a list of floats", "a list of texts"};
  throw Error(fmt::format("attribute \"{}\" is {}, which the operator does not expect.", name,
                          kTypes[values_.at(name).index()]));
}

RegisteredCustomOp::RegisteredCustomOp(CustomOp op) : op_(std::make_shared<const CustomOp>(std::move(op))) {
  registry().add(op_);
}

RegisteredCustomOp::~RegisteredCustomOp() { registry().remove(op_); }

std::shared_ptr<const CustomOp> find_custom_op(const std::string& title, const std::string& name,
                                               const std::string& domain, std::int64_t version) {
  return registry().find(title, name, domain, version);
}

std::vector<at::Tensor> customOp(const std::vector<at::Tensor>& inputs, const std::string& name,
                                 const std::string& domain, std::int64_t domain_version,
                                 const std::vector<at::Tensor>& example_outputs, const CustomOpAttributes& attributes) {
  const std::string title =
      fmt::format("{} {}.{} version {}", spelled("customOp", "custom_op"), domain, name, domain_version);
  Recorder* recorder = Recorder::current();
  if (recorder != nullptr) {
    const auto op = find_custom_op(title, name, domain, domain_version);
    return guarded([&] { return record_custom_op(*recorder, op, title, inputs, example_outputs, attributes); });
  }
  std::vector<at::Tensor> results;
  for (const at::Tensor& example : example_outputs) results.push_back(at::zeros_like(example));
  return results;
}

}  // namespace poptorch
