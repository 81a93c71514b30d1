#include "poptorch/model/optimizer_attributes.h"

#include <fmt/format.h>

#include <array>

#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

using optim::Kind, optim::Numbers;

constexpr Attribute kLr{"lr", &Numbers::lr}, kWeightDecay{"weight_decay", &Numbers::weight_decay},
    kMomentum{"momentum", &Numbers::momentum}, kDampening{"dampening", &Numbers::dampening},
    kNesterov{"nesterov", &Numbers::nesterov}, kBetas{"betas", &Numbers::betas}, kEps{"eps", &Numbers::eps},
    kAlpha{"alpha", &Numbers::alpha}, kCentered{"centered", &Numbers::centered},
    kMaxWeightNorm{"max_weight_norm", &Numbers::max_weight_norm};

constexpr std::array kSgd{kLr, kWeightDecay, kMomentum, kDampening, kNesterov};
constexpr std::array kAdam{kLr, kWeightDecay, kBetas, kEps};
constexpr std::array kRmsprop{kLr, kWeightDecay, kMomentum, kAlpha, kEps, kCentered};
constexpr std::array kLamb{kLr, kWeightDecay, kBetas, kEps, kMaxWeightNorm};

constexpr std::array<std::pair<Kind, const char*>, 5> kNames{{{Kind::SGD, "sgd"},
                                                              {Kind::Adam, "adam"},
                                                              {Kind::AdamW, "adamw"},
                                                              {Kind::RMSprop, "rmsprop"},
                                                              {Kind::LAMB, "lamb"}}};

std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(bool value) { return spelled(value); }
std::string text_of(const Attribute::Pair& value) { return fmt::format("({}, {})", value.first, value.second); }

void check(const char* what, double value, bool is_valid) {
  if (!is_valid) throw ValueError(fmt::format("Invalid {}: {}", what, value));
}

}  // namespace

bool Attribute::is_same(const Numbers& a, const Numbers& b) const {
  return std::visit([&](auto m) { return a.*m == b.*m; }, member);
}

void Attribute::copy(const Numbers& from, Numbers& to) const {
  std::visit([&](auto m) { to.*m = from.*m; }, member);
}

std::string Attribute::text(const Numbers& numbers) const {
  return std::visit([&](auto m) { return text_of(numbers.*m); }, member);
}

std::span<const Attribute> attributes_of(Kind kind) {
  switch (kind) {
    case Kind::SGD: return kSgd;
    case Kind::Adam:
    case Kind::AdamW: return kAdam;
    case Kind::RMSprop: return kRmsprop;
    case Kind::LAMB: break;
  }
  return kLamb;
}

const char* name_of(Kind kind) { return kNames.at(static_cast<std::size_t>(kind)).second; }

std::optional<Kind> kind_named(std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (name == known) return kind;
  }
  return std::nullopt;
}

Numbers default_numbers(Kind kind) {
  Numbers numbers;
  if (kind == Kind::SGD || kind == Kind::RMSprop) numbers.lr = 1e-2;
  if (kind == Kind::AdamW || kind == Kind::LAMB) numbers.weight_decay = 1e-2;
  return numbers;
}

bool is_constant_by_value(Kind kind, const Attribute& attribute, const Numbers& numbers) {
  const std::string_view name = attribute.name;
  if (name == "lr") return false;
  for (const char* always : {"betas", "alpha", "nesterov", "centered"}) {
    if (name == always) return true;
  }
  return attribute.is_same(numbers, default_numbers(kind));
}

void check_accum_type(const char* name, at::ScalarType type) {
  if (type == at::kHalf || type == at::kFloat) return;
  throw ArgumentError(fmt::format("{} must be float16 or float32, not {}", name, c10::toString(type)));
}

void check_numbers(Kind kind, const Numbers& numbers) {
  check("learning rate", numbers.lr, numbers.lr >= 0);
  check("weight_decay value", numbers.weight_decay, numbers.weight_decay >= 0);
  check("momentum value", numbers.momentum, numbers.momentum >= 0);
  check("epsilon value", numbers.eps, numbers.eps >= 0);
  check("alpha value", numbers.alpha, numbers.alpha >= 0);
  check("max_weight_norm value", numbers.max_weight_norm, numbers.max_weight_norm >= 0);
  check("beta parameter at index 0", numbers.betas.first, numbers.betas.first >= 0 && numbers.betas.first < 1);
  check("beta parameter at index 1", numbers.betas.second, numbers.betas.second >= 0 && numbers.betas.second < 1);
  if (kind == Kind::SGD && numbers.nesterov && (numbers.momentum == 0 || numbers.dampening != 0)) {
    throw ValueError(fmt::format("Nesterov needs a momentum and no dampening; they are {} and {}", numbers.momentum,
                                 numbers.dampening));
  }
}

}  // namespace poptorch
