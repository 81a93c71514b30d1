#include "poptorch/model/optimizer_param.h"

#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include "poptorch/model/optimizer_attributes.h"

namespace poptorch {
namespace {

using optim::Kind, optim::Numbers;

// An entry that is an attribute as it is, or one of its two numbers.
struct PlainEntry {
  const char* entry;
  const char* attribute;
  double& (*number)(Numbers&);
};

const std::vector<PlainEntry>& plain_entries(Kind kind) {
  static const PlainEntry lr{"learningRate", "lr", [](Numbers& n) -> double& { return n.lr; }};
  static const PlainEntry decay{"weightDecay", "weight_decay", [](Numbers& n) -> double& { return n.weight_decay; }};
  static const PlainEntry beta1{"beta1", "betas", [](Numbers& n) -> double& { return n.betas.first; }};
  static const PlainEntry beta2{"beta2", "betas", [](Numbers& n) -> double& { return n.betas.second; }};
  static const PlainEntry eps{"eps", "eps", [](Numbers& n) -> double& { return n.eps; }};
  static const PlainEntry momentum{"momentum", "momentum", [](Numbers& n) -> double& { return n.momentum; }};
  static const PlainEntry alpha{"alpha", "alpha", [](Numbers& n) -> double& { return n.alpha; }};
  static const PlainEntry norm{"maxWeightNorm", "max_weight_norm",
                               [](Numbers& n) -> double& { return n.max_weight_norm; }};
  static const std::vector<PlainEntry> adam{lr, decay, beta1, beta2, eps};
  static const std::vector<PlainEntry> rmsprop{lr, decay, momentum, alpha, eps};
  static const std::vector<PlainEntry> lamb{lr, decay, beta1, beta2, eps, norm};
  if (kind == Kind::RMSprop) return rmsprop;
  return kind == Kind::LAMB ? lamb : adam;
}

std::string key_of(const char* entry, const std::string& parameter) {
  return fmt::format("{}___specific___{}", entry, parameter);
}

enum class Entries : std::uint8_t { kAll, kVariable };

// The entries of one parameter; kVariable: as far as the attribute they are made of may change.
std::map<std::string, double> entries_of(const LoweredOptimizer& lowered, const std::string& name, Numbers numbers,
                                         double loss_scaling, Entries wanted = Entries::kVariable) {
  std::map<std::string, double> entries;
  const auto add = [&](const char* entry, const char* attribute, double value) {
    if (wanted == Entries::kAll || !lowered.is_constant(attribute)) entries.emplace(key_of(entry, name), value);
  };
  if (lowered.kind() != Kind::SGD) {
    for (const PlainEntry& plain : plain_entries(lowered.kind())) {
      add(plain.entry, plain.attribute, plain.number(numbers));
    }
    return entries;
  }
  const double scale = numbers.lr * (1 - numbers.dampening);
  add("scaledLearningRate0", "lr", scale / loss_scaling);
  add("weightDecayScaleFactor0", "weight_decay", 1 - scale * numbers.weight_decay);
  add("momentum0", "momentum", numbers.momentum);
  add("dampening0", "dampening", numbers.dampening);
  return entries;
}

std::optional<double> number_in(const optim::Tensors& loaded, const std::string& key) {
  const auto found = loaded.find(key);
  if (found == loaded.end()) return std::nullopt;
  return found->second.item<double>();
}

bool are_all_in(const optim::Tensors& loaded, const std::map<std::string, double>& entries) {
  for (const auto& [key, value] : entries) {
    const auto sent = static_cast<double>(static_cast<float>(value));
    if (number_in(loaded, key) != sent) return false;
  }
  return !entries.empty();
}

Numbers read_sgd(const optim::Tensors& loaded, const std::string& name, Numbers found, double loss_scaling) {
  found.momentum = number_in(loaded, key_of("momentum0", name)).value_or(found.momentum);
  found.dampening = number_in(loaded, key_of("dampening0", name)).value_or(found.dampening);
  const double taken = 1 - found.dampening;
  const auto scaled_lr = number_in(loaded, key_of("scaledLearningRate0", name));
  if (scaled_lr && taken != 0) found.lr = *scaled_lr * loss_scaling / taken;
  const auto kept = number_in(loaded, key_of("weightDecayScaleFactor0", name));
  if (kept && found.lr * taken != 0) found.weight_decay = (1 - *kept) / (found.lr * taken);
  return found;
}

Numbers read_plain(Kind kind, const optim::Tensors& loaded, const std::string& name, Numbers found) {
  for (const PlainEntry& plain : plain_entries(kind)) {
    if (const auto value = number_in(loaded, key_of(plain.entry, name))) plain.number(found) = *value;
  }
  return found;
}

optim::Tensors tensors_of(const LoweredOptimizer& lowered, const NumbersOfParameters& values, double loss_scaling,
                          Entries wanted) {
  optim::Tensors tensors;
  const auto add = [&](const std::string& key, double value) {
    tensors.emplace(key, at::scalar_tensor(static_cast<float>(value), at::kFloat));
  };
  if (wanted == Entries::kAll || !lowered.is_constant("loss_scaling")) add(kLossScalingEntry, loss_scaling);
  for (const auto& [name, numbers] : values) {
    for (const auto& [key, value] : entries_of(lowered, name, numbers, loss_scaling, wanted)) add(key, value);
  }
  return tensors;
}

}  // namespace

optim::Tensors param_entries(const LoweredOptimizer& lowered, const NumbersOfParameters& values, double loss_scaling) {
  return tensors_of(lowered, values, loss_scaling, Entries::kVariable);
}

optim::Tensors scalar_entries(const LoweredOptimizer& lowered, const NumbersOfParameters& values, double loss_scaling) {
  return tensors_of(lowered, values, loss_scaling, Entries::kAll);
}

NumbersOfParameters read_param(const LoweredOptimizer& lowered, const optim::Tensors& loaded,
                               const NumbersOfParameters& values, double loss_scaling) {
  const NumbersOfParameters of_groups = lowered.by_parameter();
  NumbersOfParameters found = values;
  for (auto& [name, numbers] : found) {
    const auto own = of_groups.find(name);
    if (own != of_groups.end() && are_all_in(loaded, entries_of(lowered, name, own->second, loss_scaling))) {
      for (const Attribute& attribute : attributes_of(lowered.kind())) {
        if (!lowered.is_constant(attribute.name)) attribute.copy(own->second, numbers);
      }
    } else if (lowered.kind() == Kind::SGD) {
      numbers = read_sgd(loaded, name, numbers, loss_scaling);
    } else {
      numbers = read_plain(lowered.kind(), loaded, name, numbers);
    }
  }
  return found;
}

}  // namespace poptorch
