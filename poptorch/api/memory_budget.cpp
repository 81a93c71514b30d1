#include "poptorch/api/memory_budget.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "poptorch/api/spelling.h"
#include "poptorch/error.h"
#include "poptorch/model/byte_limit.h"

namespace poptorch {
namespace {

constexpr const char* kVariable = "ASPEN_MEMORY_BUDGET";

[[noreturn]] void refuse(const std::string& who, const std::string& given) {
  throw ValueError(
      fmt::format("[{}] {} is no memory budget; expected bytes, with K, M or G behind them or not, for every device "
                  "(\"256M\") or for some (\"IPU0=256M,IPU1=1G\"), and \",auto\" behind it if tensors are to leave the "
                  "devices or be computed again as far as it takes",
                  who, given));
}

// "IPU3": 3.
std::optional<std::int64_t> ipu_of(std::string_view name) {
  std::int64_t number = 0;
  if (!name.starts_with("IPU") || name.size() == 3) return std::nullopt;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 3, end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

void add_part(aspen::MemoryBudget& budget, std::string_view part, const std::string& who, const std::string& text) {
  if (part == "auto") {
    budget.automatic = true;
    return;
  }
  const auto equals = part.find('=');
  const std::optional<std::uint64_t> bytes = parse_bytes(part.substr(equals == part.npos ? 0 : equals + 1));
  if (!bytes) refuse(who, '"' + text + '"');
  if (equals == part.npos) {
    if (budget.bytes != 0) refuse(who, '"' + text + '"');
    budget.bytes = *bytes;
    return;
  }
  const std::optional<std::int64_t> ipu = ipu_of(part.substr(0, equals));
  if (!ipu || !budget.of_device.emplace(*ipu, *bytes).second) refuse(who, '"' + text + '"');
}

std::string spelled_call(aspen::Remedy remedy) {
  const auto location = [](const char* setter) {
    return fmt::format("options.TensorLocations.{}({}().useOnChipStorage({}))", setter,
                       spelled("poptorch::TensorLocationSettings"), spelled(false));
  };
  const auto recomputation = [](int kind) {
    return fmt::format("options.{}.set(\"autoRecomputation\", {})", spelled("Popart", "_Popart"),
                       spelled(fmt::format("std::int64_t{{{}}}", kind), std::to_string(kind)));
  };
  switch (remedy) {
    case aspen::Remedy::kOptimizerStateOffDevice: return location("setOptimizerLocation");
    case aspen::Remedy::kRecomputeNorms: return recomputation(2);
    case aspen::Remedy::kRecomputeParts:
      return recomputation(4) +
             fmt::format(" and {}(x) between the layers", spelled("poptorch::recomputationCheckpoint"));
    case aspen::Remedy::kAccumulatorsOffDevice: return location("setAccumulatorLocation");
    case aspen::Remedy::kActivationsOffDevice: return location("setActivationLocation");
    case aspen::Remedy::kWeightsOffDevice: break;
  }
  return location("setWeightLocation");
}

}  // namespace

aspen::MemoryBudget parse_memory_budget(const std::string& text, const std::string& who) {
  aspen::MemoryBudget budget;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    add_part(budget, std::string_view(text).substr(begin, end - begin), who, text);
    begin = end + 1;
  }
  return budget;
}

std::string text_of(const aspen::MemoryBudget& budget) {
  std::string text = budget.bytes != 0 || budget.of_device.empty() ? std::to_string(budget.bytes) : "";
  for (const auto& [ipu, bytes] : budget.of_device) {
    text += fmt::format("{}IPU{}={}", text.empty() ? "" : ",", ipu, bytes);
  }
  return text + (budget.automatic ? ",auto" : "");
}

aspen::MemoryBudget memory_budget_of(const OptionValue& given, bool automatic) {
  constexpr const char* kWho = "setMemoryBudget";
  const auto written = [&](const OptionValue& value) {
    const auto* text = value.as<std::string>();
    if (text != nullptr) return *text;
    if (!value.is_integer() || value.as<bool>() != nullptr || value.integer() < 0) refuse(kWho, text_of(given));
    return std::to_string(value.integer());
  };
  std::string text;
  if (const auto* entries = given.as<OptionDict>()) {
    for (const auto& [name, value] : *entries) {
      const auto* ipu = std::get_if<std::string>(&name);
      if (ipu == nullptr) refuse(kWho, text_of(given));
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", *ipu, written(value));
    }
  } else {
    text = written(given);
  }
  aspen::MemoryBudget budget = parse_memory_budget(text, kWho);
  budget.automatic = budget.automatic || automatic;
  return budget;
}

aspen::MemoryBudget memory_budget(const OptionStore& options) {
  aspen::MemoryBudget budget;
  const char* environment = std::getenv(kVariable);
  if (const OptionValue* given = options.find(kGeneral, "memory_budget")) {
    budget = parse_memory_budget(*given->as<std::string>(), "setMemoryBudget");
  } else if (environment != nullptr && *environment != '\0') {
    budget = parse_memory_budget(environment, kVariable);
  }
  budget.spelled = spelled_call;
  return budget;
}

}  // namespace poptorch
