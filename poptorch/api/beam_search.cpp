#include "poptorch/api/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace poptorch {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double larger = std::max(a, b);
  return larger == kImpossible ? kImpossible : larger + std::log1p(std::exp(std::min(a, b) - larger));
}

// How likely a prefix is, apart by how its last step ended: the next label merges with the same label only without a
// blank between them.
struct Ending {
  double blank = kImpossible, label = kImpossible;
  double total() const { return log_add(blank, label); }
};

using Prefix = std::vector<std::int64_t>;
using Beam = std::vector<std::pair<Prefix, Ending>>;

// The likeliest first; equally likely ones in the order of their labels, so that results do not depend on the search.
void keep_likeliest(Beam& beam, std::int64_t count) {
  std::sort(beam.begin(), beam.end(), [](const auto& a, const auto& b) {
    const double first = a.second.total(), second = b.second.total();
    return first != second ? first > second : a.first < b.first;
  });
  if (static_cast<std::int64_t>(beam.size()) > count) beam.resize(static_cast<std::size_t>(count));
}

Beam extended(const Beam& beam, const LogProbabilities& probabilities, std::int64_t step, std::int64_t blank) {
  std::map<Prefix, Ending> next;
  for (const auto& [prefix, ending] : beam) {
    Ending& same = next[prefix];
    same.blank = log_add(same.blank, ending.total() + probabilities.at(step, blank));
    if (!prefix.empty()) same.label = log_add(same.label, ending.label + probabilities.at(step, prefix.back()));
    for (std::int64_t label = 0; label < probabilities.classes; ++label) {
      if (label == blank) continue;
      const bool repeats = !prefix.empty() && prefix.back() == label;
      Prefix longer = prefix;
      longer.push_back(label);
      Ending& grown = next[std::move(longer)];
      const double before = repeats ? ending.blank : ending.total();
      grown.label = log_add(grown.label, before + probabilities.at(step, label));
    }
  }
  Beam possible;
  for (auto& [prefix, ending] : next) {
    if (ending.total() != kImpossible) possible.emplace_back(prefix, ending);
  }
  return possible;
}

}  // namespace

std::vector<DecodedPath> beam_search(const LogProbabilities& probabilities, std::int64_t blank, std::int64_t beam_width,
                                     std::int64_t top_paths) {
  Beam beam = {{{}, {.blank = 0}}};
  for (std::int64_t step = 0; step < probabilities.steps; ++step) {
    beam = extended(beam, probabilities, step, blank);
    keep_likeliest(beam, beam_width);
  }
  keep_likeliest(beam, top_paths);
  std::vector<DecodedPath> paths;
  for (auto& [prefix, ending] : beam) paths.push_back({std::move(prefix), ending.total()});
  return paths;
}

}  // namespace poptorch
