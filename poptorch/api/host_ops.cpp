// The CTC decoder, fps and nearest of ops.h: operators like those of custom_op.h that come with the library.
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "poptorch/api/beam_search.h"
#include "poptorch/api/guarded.h"
#include "poptorch/api/points.h"
#include "poptorch/api/spelling.h"
#include "poptorch/capture/custom_op.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/error.h"
#include "poptorch/ops.h"

namespace poptorch {
namespace {

using Tensors = std::vector<at::Tensor>;
using Kernel = std::function<void(const Tensors&, const Tensors&)>;
using c10::ScalarType;

// What `kernel` computes, as tensors like `examples`: part of the model that is being captured, or at once.
Tensors computed(const std::string& op, const Tensors& inputs, Tensors examples, const Kernel& kernel) {
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr) {
    Tensors given;
    for (const at::Tensor& input : inputs) given.push_back(input.detach().contiguous());
    guarded([&] { kernel(given, examples); });
    return examples;
  }
  const auto made = std::make_shared<const CustomOp>(CustomOp{
      .kernel = [kernel](const Tensors& given, const Tensors& results, const auto&) { kernel(given, results); },
      .gradient = [](const CustomOpGradient& call) { return Tensors(call.inputs.size()); }});
  return guarded([&] { return record_custom_op(*recorder, made, op, inputs, examples, {}); });
}

at::Tensor zeros(at::IntArrayRef shape, ScalarType type) {
  const HostScope host;
  return at::zeros(shape, type);
}

std::string shape_text(const at::Tensor& tensor) { return fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")); }

// -- the decoder ----------------------------------------------------------------------------------------------------

struct DecoderSettings {
  std::string op;
  std::int64_t blank, beam_width, top_paths;
};

void check_decoder(const DecoderSettings& settings, const at::Tensor& probs, const at::Tensor& lengths) {
  if (probs.dim() != 3 || !c10::isFloatingType(probs.scalar_type())) {
    throw Error(fmt::format("[{}] probs must be floating point of shape [T, N, C], not {}{}.", settings.op,
                            c10::toString(probs.scalar_type()), shape_text(probs)));
  }
  if (lengths.dim() != 1 || lengths.size(0) != probs.size(1) || !c10::isIntegralType(lengths.scalar_type(), false)) {
    throw Error(fmt::format("[{}] lengths must be {} integers, one for each sample of probs {}, not {}{}.", settings.op,
                            probs.size(1), shape_text(probs), c10::toString(lengths.scalar_type()),
                            shape_text(lengths)));
  }
  if (settings.blank < 0 || settings.blank >= probs.size(2)) {
    throw Error(fmt::format("[{}] blank {} is no class; expected 0 <= blank < {}.", settings.op, settings.blank,
                            probs.size(2)));
  }
  if (settings.top_paths < 1 || settings.beam_width < settings.top_paths) {
    throw Error(fmt::format("[{}] beam_width {} and top_paths {} do not fit; expected 1 <= top_paths <= beam_width.",
                            settings.op, settings.beam_width, settings.top_paths));
  }
}

void decode(const DecoderSettings& settings, const Tensors& inputs, const Tensors& results) {
  const at::Tensor probs = inputs[0].to(ScalarType::Float), lengths = inputs[1].to(ScalarType::Long);
  results[0].fill_(-std::numeric_limits<double>::infinity());
  results[1].zero_();
  results[2].zero_();
  const std::int64_t samples = probs.size(1), classes = probs.size(2);
  for (std::int64_t n = 0; n < samples; ++n) {
    const std::int64_t length = lengths[n].item<std::int64_t>();
    if (length < 0 || length > probs.size(0)) {
      throw aspen::UserError("[{}] the length of sample {} is {}; expected 0 <= length <= {}.", settings.op, n, length,
                             probs.size(0));
    }
    const LogProbabilities sample{probs.data_ptr<float>() + n * classes, static_cast<std::size_t>(samples * classes),
                                  length, classes};
    const auto paths = beam_search(sample, settings.blank, settings.beam_width, settings.top_paths);
    for (std::size_t p = 0; p < paths.size(); ++p) {
      const auto place = static_cast<std::int64_t>(p);
      results[0][n][place].fill_(paths[p].log_probability);
      results[1][n][place].fill_(static_cast<std::int64_t>(paths[p].labels.size()));
      for (std::size_t t = 0; t < paths[p].labels.size(); ++t) {
        results[2][n][place][static_cast<std::int64_t>(t)].fill_(paths[p].labels[t]);
      }
    }
  }
}

// -- points ---------------------------------------------------------------------------------------------------------

at::Tensor as_rows(const at::Tensor& tensor) { return tensor.dim() == 1 ? tensor.unsqueeze(1) : tensor; }

Points points_of(const at::Tensor& rows) { return {rows.data_ptr<float>(), rows.size(0), rows.size(1)}; }

void check_points(const std::string& op, const char* name, const at::Tensor& tensor) {
  if ((tensor.dim() == 1 || tensor.dim() == 2) && c10::isFloatingType(tensor.scalar_type())) return;
  throw Error(fmt::format("[{}] {} must be floating point with a row for each point, not {}{}.", op, name,
                          c10::toString(tensor.scalar_type()), shape_text(tensor)));
}

void check_segments(const at::Tensor& src, const std::vector<std::int64_t>& ptr, double ratio) {
  if (ptr.size() < 2 || !std::is_sorted(ptr.begin(), ptr.end()) || ptr.front() < 0 || ptr.back() > src.size(0)) {
    throw Error(
        fmt::format("[fps] ptr [{}] gives no segments of {} points; expected at least two numbers, "
                    "0 <= ptr[0] <= ptr[1] <= ... <= {}.",
                    fmt::join(ptr, ", "), src.size(0), src.size(0)));
  }
  if (!(ratio > 0 && ratio <= 1)) throw Error(fmt::format("[fps] ratio is {}; expected 0 < ratio <= 1.", ratio));
}

// inputs: the points and, if sampling begins at random ones, a number in [0, 1) for each segment.
void sample(const std::vector<std::int64_t>& ptr, double ratio, const Tensors& inputs, const Tensors& results) {
  const at::Tensor rows = inputs[0].to(ScalarType::Float);
  auto* next = results[0].data_ptr<std::int32_t>();
  for (std::size_t i = 0; i + 1 < ptr.size(); ++i) {
    const std::int64_t length = ptr[i + 1] - ptr[i];
    if (length == 0) continue;
    std::int64_t start = ptr[i];
    if (inputs.size() > 1) {
      const auto drawn = inputs[1].data_ptr<float>()[i] * static_cast<double>(length);
      start += std::min(static_cast<std::int64_t>(drawn), length - 1);
    }
    for (const std::int32_t row :
         farthest_points(points_of(rows), ptr[i], ptr[i + 1], start, sample_count(length, ratio))) {
      *next++ = row;
    }
  }
}

void check_ids(const char* name, const at::Tensor& ids, const at::Tensor& rows) {
  if (ids.dim() == 1 && ids.size(0) == rows.size(0) && c10::isIntegralType(ids.scalar_type(), false)) return;
  throw Error(fmt::format("[nearest] {} must be {} integers, one for each point, not {}{}.", name, rows.size(0),
                          c10::toString(ids.scalar_type()), shape_text(ids)));
}

std::span<const std::int64_t> sorted_ids(const char* name, const at::Tensor& ids) {
  const std::span<const std::int64_t> all(ids.data_ptr<std::int64_t>(), static_cast<std::size_t>(ids.size(0)));
  if (!std::is_sorted(all.begin(), all.end())) throw aspen::UserError("[nearest] {} must be sorted.", name);
  return all;
}

// inputs: x, y, batch ids of x, batch ids of y.
void find_nearest(const Tensors& inputs, const Tensors& results) {
  const at::Tensor x = inputs[0].to(ScalarType::Float), y = inputs[1].to(ScalarType::Float);
  const at::Tensor batch_x = inputs[2].to(ScalarType::Long), batch_y = inputs[3].to(ScalarType::Long);
  const auto of_x = sorted_ids("batch_x", batch_x), of_y = sorted_ids("batch_y", batch_y);
  auto* found = results[0].data_ptr<std::int32_t>();
  for (std::size_t row = 0; row < of_x.size(); ++row) {
    const auto [begin, end] = std::equal_range(of_y.begin(), of_y.end(), of_x[row]);
    if (begin == end) {
      throw aspen::UserError("[nearest] row {} of x is in batch {}, of which y has no rows.", row, of_x[row]);
    }
    found[row] = nearest_point(points_of(y), begin - of_y.begin(), end - of_y.begin(), points_of(x),
                               static_cast<std::int64_t>(row));
  }
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> ctcBeamSearchDecoder(const at::Tensor& probs, const at::Tensor& lengths,
                                                                    std::int64_t blank, std::int64_t beam_width,
                                                                    std::int64_t top_paths) {
  const DecoderSettings settings{spelled("ctcBeamSearchDecoder", "ctc_beam_search_decoder"), blank, beam_width,
                                 top_paths};
  check_decoder(settings, probs, lengths);
  const std::int64_t samples = probs.size(1);
  Tensors results = {zeros({samples, top_paths}, probs.scalar_type()), zeros({samples, top_paths}, ScalarType::Int),
                     zeros({samples, top_paths, probs.size(0)}, ScalarType::Int)};
  if (Recorder::current() != nullptr) {
    results = computed(settings.op, {probs, lengths}, results,
                       [settings](const Tensors& given, const Tensors& made) { decode(settings, given, made); });
  }
  return {results[0], results[1], results[2]};
}

at::Tensor fps(const at::Tensor& src, const std::vector<std::int64_t>& ptr, double ratio, bool random_start) {
  check_points("fps", "src", src);
  check_segments(src, ptr, ratio);
  std::int64_t count = 0;
  for (std::size_t i = 0; i + 1 < ptr.size(); ++i) count += sample_count(ptr[i + 1] - ptr[i], ratio);
  Tensors inputs = {as_rows(src)};
  // Drawn in the model, so that the numbers are those of the device's generator.
  const auto segments = static_cast<std::int64_t>(ptr.size()) - 1;
  if (random_start) inputs.push_back(at::rand({segments}, at::TensorOptions(src.device()).dtype(ScalarType::Float)));
  return computed("fps", inputs, {zeros({count}, ScalarType::Int)},
                  [ptr, ratio](const Tensors& given, const Tensors& made) { sample(ptr, ratio, given, made); })[0];
}

at::Tensor nearest(const at::Tensor& x, const at::Tensor& y, const std::optional<at::Tensor>& batch_x,
                   const std::optional<at::Tensor>& batch_y) {
  check_points("nearest", "x", x);
  check_points("nearest", "y", y);
  const at::Tensor rows_of_x = as_rows(x), rows_of_y = as_rows(y);
  if (rows_of_x.size(1) != rows_of_y.size(1)) {
    throw Error(fmt::format("[nearest] the points of x have {} coordinates and those of y {}.", rows_of_x.size(1),
                            rows_of_y.size(1)));
  }
  const at::Tensor of_x = batch_x.value_or(zeros({x.size(0)}, ScalarType::Int));
  const at::Tensor of_y = batch_y.value_or(zeros({y.size(0)}, ScalarType::Int));
  check_ids("batch_x", of_x, x);
  check_ids("batch_y", of_y, y);
  return computed("nearest", {rows_of_x, rows_of_y, of_x, of_y}, {zeros({x.size(0)}, ScalarType::Int)},
                  find_nearest)[0];
}

}  // namespace poptorch
