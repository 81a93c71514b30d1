// optim::StateDict as a file: the pickled dictionary that state_dict() of Python gives, by torch's own pickler.
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "poptorch/error.h"
#include "poptorch/model/optimizer_attributes.h"

namespace poptorch::optim {
namespace {

using Dict = c10::impl::GenericDict;

Dict make_dict() { return Dict(c10::StringType::get(), c10::AnyType::get()); }

c10::IValue as_value(double number) { return number; }
c10::IValue as_value(bool flag) { return flag; }
c10::IValue as_value(const Attribute::Pair& pair) { return std::make_tuple(pair.first, pair.second); }

double number_in(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().item<double>();
  return value.toScalar().toDouble();
}

void read(const c10::IValue& value, double& into) { into = number_in(value); }
void read(const c10::IValue& value, bool& into) { into = number_in(value) != 0; }
void read(const c10::IValue& value, Attribute::Pair& into) {
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    into = {number_in(elements.at(0)), number_in(elements.at(1))};
  } else {
    const auto list = value.toList();
    into = {number_in(list.get(0)), number_in(list.get(1))};
  }
}

c10::IValue tensors_value(const std::optional<Tensors>& tensors) {
  if (!tensors) return {};
  Dict dict = make_dict();
  for (const auto& [name, tensor] : *tensors) dict.insert(name, tensor);
  return dict;
}

std::optional<Tensors> tensors_in(const c10::IValue& value) {
  if (value.isNone()) return std::nullopt;
  Tensors tensors;
  for (const auto& entry : value.toGenericDict()) tensors.emplace(entry.key().toStringRef(), entry.value().toTensor());
  return tensors;
}

// first: number of the group's first parameter; torch counts them through all groups.
Dict group_value(const StateDict::Group& group, Kind kind, std::size_t first) {
  Dict dict = make_dict();
  for (const Attribute& attribute : attributes_of(kind)) {
    std::visit([&](auto member) { dict.insert(attribute.name, as_value(group.*member)); }, attribute.member);
  }
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < group.num_parameters; ++i) numbers.push_back(static_cast<std::int64_t>(first + i));
  dict.insert("params", numbers);
  return dict;
}

// By the attributes of its groups.
Kind kind_of(const Dict& group, const std::string& file) {
  for (const Kind kind : {Kind::LAMB, Kind::RMSprop, Kind::SGD, Kind::Adam}) {
    const auto attributes = attributes_of(kind);
    if (std::all_of(attributes.begin(), attributes.end(), [&](const auto& a) { return group.contains(a.name); })) {
      return kind;
    }
  }
  throw Error(fmt::format("[StateDict] the parameter groups in {} are those of no optimiser of poptorch.", file));
}

StateDict::Group group_in(const Dict& dict, Kind kind) {
  StateDict::Group group{default_numbers(kind)};
  for (const Attribute& attribute : attributes_of(kind)) {
    const c10::IValue value = dict.at(attribute.name);
    std::visit([&](auto member) { read(value, group.*member); }, attribute.member);
  }
  group.num_parameters = dict.at("params").toListRef().size();
  return group;
}

StateDict state_in(const c10::IValue& value, const std::string& file) {
  if (!value.isGenericDict()) throw Error(fmt::format("[StateDict] {} does not hold a dictionary.", file));
  const Dict dict = value.toGenericDict();
  if (!dict.contains("ipu_state") || !dict.contains("ipu_param") || !dict.contains("param_groups")) {
    throw Error(
        fmt::format("[StateDict] the state in {} has no entries ipu_state, ipu_param and param_groups: it was "
                    "not saved by a poptorch optimiser.",
                    file));
  }
  StateDict state;
  for (const c10::IValue& value : dict.at("param_groups").toListRef()) {
    const Dict group = value.toGenericDict();
    state.kind = kind_of(group, file);
    state.groups.push_back(group_in(group, state.kind));
  }
  state.ipu_state = tensors_in(dict.at("ipu_state"));
  state.ipu_param = tensors_in(dict.at("ipu_param"));
  return state;
}

}  // namespace

void StateDict::save(const std::string& file) const {
  Dict dict = make_dict();
  dict.insert("ipu_state", tensors_value(ipu_state));
  dict.insert("ipu_param", tensors_value(ipu_param));
  dict.insert("state", make_dict());
  c10::impl::GenericList made(c10::AnyType::get());
  std::size_t first = 0;
  for (const Group& group : groups) {
    made.push_back(group_value(group, kind, first));
    first += group.num_parameters;
  }
  dict.insert("param_groups", made);
  const std::vector<char> bytes = torch::jit::pickle_save(dict);
  std::ofstream stream(file, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  if (!stream) throw Error(fmt::format("[StateDict] {} could not be written.", file));
}

StateDict StateDict::load(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream || bytes.empty()) throw Error(fmt::format("[StateDict] {} could not be read.", file));
  try {
    return state_in(torch::jit::pickle_load(bytes), file);
  } catch (const c10::Error& error) {
    throw Error(fmt::format("[StateDict] {} is no saved optimiser state: {}", file, error.what_without_backtrace()));
  }
}

}  // namespace poptorch::optim
