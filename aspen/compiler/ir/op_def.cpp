#include "aspen/compiler/ir/op_def.h"

#include <algorithm>

namespace aspen {
namespace {

std::size_t port_index(const std::vector<Port>& ports, std::string_view port, const std::string& op) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == port) return i;
  }
  throw InternalError("op {} has no port \"{}\"", op, port);
}

}  // namespace

const char* InferContext::who() const { return def_.name().c_str(); }

std::size_t OpDef::input_index(std::string_view port) const { return port_index(inputs_, port, name_); }

std::size_t OpDef::output_index(std::string_view port) const { return port_index(outputs_, port, name_); }

std::vector<TensorType> OpDef::infer(const std::vector<Value*>& inputs, const Attrs& attrs) const {
  bool variadic = !inputs_.empty() && inputs_.back().variadic;
  if (variadic ? inputs.size() + 1 < inputs_.size() : inputs.size() != inputs_.size()) {
    throw InternalError("op {} takes {} inputs, not {}", name_, inputs_.size(), inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Port& port = input_port(i);
    if (inputs[i] == nullptr && !port.optional) throw InternalError("input \"{}\" of {} is missing", port.name, name_);
    if (inputs[i] != nullptr) check_width(inputs[i]->type(), takes_wide_ || does_read_wide(i));
  }
  std::vector<TensorType> types = infer_(InferContext(*this, inputs, attrs));
  for (const TensorType& type : types) check_width(type, takes_wide_);
  return types;
}

void OpDef::check_width(const TensorType& type, bool may_be_wide) const {
  if (type.dtype != DType::kI64 || may_be_wide) return;
  throw UserError("[{}] {} has integers of 64 bits; `narrow` brings them to 32.", name_, to_string(type));
}

const OpDef& OpRegistry::find(std::string_view name) const {
  if (const OpDef* def = try_find(name)) return *def;
  std::vector<std::string> names;
  for (const auto& [known, def] : defs_) names.push_back(known);
  throw UserError("there is no op \"{}\"; close matches: {}.", name, near_matches(name, names));
}

const OpDef* OpRegistry::try_find(std::string_view name) const {
  auto found = defs_.find(name);
  return found == defs_.end() ? nullptr : found->second.get();
}

std::vector<const OpDef*> OpRegistry::all() const {
  std::vector<const OpDef*> result;
  for (const auto& [name, def] : defs_) result.push_back(def.get());
  return result;
}

OpDef& OpRegistry::insert(std::string name) {
  auto [place, fresh] = defs_.try_emplace(name, std::make_unique<OpDef>(name));
  if (!fresh) throw InternalError("op {} is defined twice", name);
  return *place->second;
}

}  // namespace aspen
