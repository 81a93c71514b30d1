// Prefix beam search over the outputs of a network trained with CTC loss; behind ctcBeamSearchDecoder.
// A. Hannun et al., "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace poptorch {

struct LogProbabilities {
  const float* data;  // of one sample: row t begins at t * stride
  std::size_t stride;
  std::int64_t steps, classes;
  double at(std::int64_t step, std::int64_t label) const {
    return data[static_cast<std::size_t>(step) * stride + static_cast<std::size_t>(label)];
  }
};

struct DecodedPath {
  std::vector<std::int64_t> labels;
  double log_probability;
};

// The likeliest label sequences, best first, at most top_paths: those that were among the beam_width likeliest
// prefixes after every step.
std::vector<DecodedPath> beam_search(const LogProbabilities& probabilities, std::int64_t blank, std::int64_t beam_width,
                                     std::int64_t top_paths);

}  // namespace poptorch
