#include "aspen/backends/cpu/row_tiles.h"

#include <algorithm>
#include <array>
#include <vector>

#include "aspen/backends/cpu/chunks.h"

namespace aspen {
namespace {

constexpr std::int64_t kTile = 4096;      // elements of the largest operand or result in a tile, about
constexpr std::int64_t kLeastTiles = 16;  // so that there are enough for the threads of a device
constexpr std::size_t kMostPorts = 8;

// The first axes become one of so many rows.
TensorType with_rows(TensorType type, std::int64_t shared_axes, std::int64_t rows) {
  for (std::int64_t i = 0; i < shared_axes; ++i) type.shape[i] = i + 1 < shared_axes ? 1 : rows;
  return type;
}

KernelRequest tile_request(const KernelRequest& request, std::int64_t shared_axes, std::int64_t rows) {
  KernelRequest tile = request;
  for (KernelInput& input : tile.inputs) {
    if (input.present) input.type = with_rows(input.type, shared_axes, rows);
  }
  for (TensorType& output : tile.outputs) output = with_rows(output, shared_axes, rows);
  return tile;
}

class RowTilesKernel final : public Kernel {
 public:
  struct Tiles {
    std::int64_t count = 0;
    std::unique_ptr<Kernel> whole, last;  // nullptr: the last is as the others
  };

  RowTilesKernel(const KernelRequest& tile, double nanoseconds, Tiles tiles)
      : tiles_(std::move(tiles)), chunks_(cut(tiles_.count, nanoseconds)) {
    for (const KernelInput& input : tile.inputs) input_bytes_.push_back(input.present ? input.type.bytes() : 0);
    for (const TensorType& output : tile.outputs) output_bytes_.push_back(output.bytes());
    std::size_t bytes = std::max(tiles_.whole->workspace_bytes(), tiles_.last ? tiles_.last->workspace_bytes() : 0);
    chunk_bytes_ = (bytes + 63) / 64 * 64;
  }

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(chunks_.count()) * chunk_bytes_; }
  void reserve(std::size_t num_threads) const override {
    tiles_.whole->reserve(num_threads);
    if (tiles_.last) tiles_.last->reserve(num_threads);
  }

  void run(const KernelArgs& args) const override {
    StepContext step = args.step != nullptr ? *args.step : StepContext{};
    step.team = nullptr;  // a tile is for one thread
    for_each_chunk(args, chunks_, [&](const Chunk& chunk) {
      void* workspace = static_cast<std::byte*>(args.workspace) + static_cast<std::size_t>(chunk.index) * chunk_bytes_;
      for (std::int64_t tile = chunk.begin; tile < chunk.end; ++tile) run_tile(args, tile, workspace, step);
    });
  }

 private:
  void run_tile(const KernelArgs& args, std::int64_t tile, void* workspace, const StepContext& step) const {
    std::array<const void*, kMostPorts> inputs{};
    std::array<void*, kMostPorts> outputs{};
    const auto at = static_cast<std::size_t>(tile);
    for (std::size_t i = 0; i < input_bytes_.size(); ++i) {
      if (input_bytes_[i] > 0) inputs[i] = static_cast<const std::byte*>(args.inputs[i]) + at * input_bytes_[i];
    }
    for (std::size_t i = 0; i < output_bytes_.size(); ++i) {
      outputs[i] = static_cast<std::byte*>(args.outputs[i]) + at * output_bytes_[i];
    }
    const Kernel& kernel = tiles_.last && tile + 1 == tiles_.count ? *tiles_.last : *tiles_.whole;
    kernel.run({.inputs = std::span(inputs.data(), input_bytes_.size()),
                .outputs = std::span(outputs.data(), output_bytes_.size()),
                .workspace = workspace,
                .step = &step});
  }

  Tiles tiles_;
  Chunks chunks_;
  std::vector<std::size_t> input_bytes_, output_bytes_;  // of a whole tile
  std::size_t chunk_bytes_ = 0;
};

}  // namespace

KernelFactory by_row_tiles(KernelFactory make, SharedAxes shared_axes) {
  return [make = std::move(make), shared_axes = std::move(shared_axes)](const KernelRequest& request,
                                                                        std::string& why) -> std::unique_ptr<Kernel> {
    std::int64_t elements = 0;  // of the largest
    for (const KernelInput& input : request.inputs) {
      if (input.present) elements = std::max(elements, input.type.numel());
    }
    for (const TensorType& output : request.outputs) elements = std::max(elements, output.numel());
    const bool is_large = elements >= kLeastTiles * kTile;
    const std::int64_t shared = is_large ? shared_axes(request) : 0;
    const Shape& shape = request.outputs[0].shape;
    const std::int64_t rows = numel(Shape(shape.begin(), shape.begin() + shared));
    if (rows < kLeastTiles || std::max(request.inputs.size(), request.outputs.size()) > kMostPorts) {
      why = fmt::format("{}: too few rows for tiles", request.op);
      return nullptr;
    }
    const std::int64_t tile = std::clamp<std::int64_t>(kTile / (elements / rows), 1, rows), rest = rows % tile;
    KernelRequest whole = tile_request(request, shared, tile);
    RowTilesKernel::Tiles tiles{.count = (rows + tile - 1) / tile, .whole = make(whole, why), .last = nullptr};
    if (rest != 0) tiles.last = make(tile_request(request, shared, rest), why);
    if (tiles.whole == nullptr || (rest != 0 && tiles.last == nullptr)) return nullptr;
    return std::make_unique<RowTilesKernel>(whole, kMathCost * static_cast<double>(elements), std::move(tiles));
  };
}

}  // namespace aspen
