#include "aspen/compiler/group_kernel.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "aspen/compiler/body_program.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/memory/offsets.h"
#include "aspen/compiler/tiles.h"
#include "aspen/ops/group/group.h"

namespace aspen {
namespace {

// Bytes of an operand in a tile: few enough that its operands and what passes between ops stay in the first-level
// cache, enough that calls of kernels do not show.
constexpr std::size_t kTileBytes = 4096;

// Tiles that one thread takes at a time, and in how many parts the work is cut at most.
constexpr std::int64_t kTilesPerPart = 8, kMostParts = 64;

// The body over tensors of the shapes that operands have in a tile. Shapes of the results follow.
std::unique_ptr<Graph> body_of_tile(const Graph& body, const Tiles& tiles, bool is_tail) {
  auto graph = std::make_unique<Graph>(body.name());
  GraphCopier copier(*graph);
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    const Value& input = *body.inputs()[i];
    copier.map(&input, graph->add_input(input.name(), {input.dtype(), tiles.operand_shape(i, is_tail)}));
  }
  for (const auto& op : body.ops()) copier.copy(*op);
  for (const Graph::Output& output : body.outputs()) graph->add_output(output.name, copier[output.value]);
  return graph;
}

std::vector<Shape> shapes_of(const KernelRequest& request) {
  std::vector<Shape> shapes;
  for (const KernelInput& input : request.inputs) shapes.push_back(input.type.shape);
  shapes.push_back(request.outputs[0].shape);  // of all results
  return shapes;
}

// Elements of a tile: as many of the widest operand. Narrow ones have no more, or the others would be too large.
std::int64_t tile_of(const KernelRequest& request) {
  std::size_t widest = sizeof(float);
  for (const KernelInput& input : request.inputs) widest = std::max(widest, size_of(input.type.dtype));
  return static_cast<std::int64_t>(kTileBytes / widest);
}

class GroupKernel final : public Kernel {
 public:
  GroupKernel(const KernelRequest& request, const Backend& backend)
      : carried_(static_cast<std::size_t>(request.attrs.as<GroupAttrs>().carried)),
        tiles_(request.outputs[0].shape, shapes_of(request), tile_of(request)) {
    const Graph& body = graph_of(request.attrs.as<GroupAttrs>().body);
    for (const KernelInput& input : request.inputs) input_sizes_.push_back(size_of(input.type.dtype));
    for (const TensorType& output : request.outputs) output_sizes_.push_back(size_of(output.dtype));
    if (tiles_.count() == 0) return;
    if (tiles_.has_whole()) whole_.emplace(*body_of_tile(body, tiles_, false), carried_, request, backend);
    if (tiles_.has_tail()) tail_.emplace(*body_of_tile(body, tiles_, true), carried_, request, backend);
    parts_ = std::clamp<std::int64_t>(tiles_.count() / kTilesPerPart, 1, kMostParts);
  }

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(parts_) * part_bytes(); }

  void run(const KernelArgs& args) const override {
    ThreadTeam* team = args.step->team;
    const bool is_shared = parts_ > 1 && team != nullptr && team->num_threads() > 1;
    auto* workspace = static_cast<std::byte*>(args.workspace);
    const auto run_part = [&](std::int64_t part) {
      run_tiles(args, part * tiles_.count() / parts_, (part + 1) * tiles_.count() / parts_,
                workspace + (is_shared ? static_cast<std::size_t>(part) * part_bytes() : 0));
    };
    if (is_shared) return team->run(parts_, std::ref(run_part));  // a reference: std::function would allocate
    for (std::int64_t part = 0; part < parts_; ++part) run_part(part);
  }

 private:
  // One shape of tiles: with results in places of their own, and with those that are carried in the places of operands.
  struct TileProgram {
    TileProgram(const Graph& body, std::size_t carried, const KernelRequest& owner, const Backend& backend)
        : apart(body, 0, owner, backend) {
      if (carried > 0) in_place.emplace(body, carried, owner, backend);
    }
    std::size_t workspace_bytes() const {
      return std::max(apart.workspace_bytes(), in_place ? in_place->workspace_bytes() : 0);
    }

    BodyProgram apart;
    std::optional<BodyProgram> in_place;
  };

  std::size_t whole_bytes() const { return whole_ ? aligned(whole_->workspace_bytes()) : 0; }
  std::size_t part_bytes() const { return whole_bytes() + (tail_ ? aligned(tail_->workspace_bytes()) : 0); }

  bool is_in_place(const KernelArgs& args) const {
    for (std::size_t i = 0; i < carried_; ++i) {
      if (args.outputs[i] == args.inputs[i]) return true;
    }
    return false;
  }

  void run_tiles(const KernelArgs& args, std::int64_t begin, std::int64_t end, std::byte* workspace) const {
    StepContext step = *args.step;
    step.team = nullptr;  // a tile is for one thread
    const bool in_place = is_in_place(args);
    const auto program_of = [&](const TileProgram& tile) -> const BodyProgram& {
      return in_place ? tile.in_place.value() : tile.apart;
    };
    std::byte* tail_workspace = workspace + whole_bytes();
    if (whole_) program_of(*whole_).begin(workspace);
    if (tail_) program_of(*tail_).begin(tail_workspace);
    Tiles::Place at = tiles_.place(begin);
    for (std::int64_t tile = begin; tile < end; ++tile, at = tiles_.after(at)) {
      const bool is_tail = tiles_.is_tail(at);
      const BodyProgram& program = program_of((is_tail ? tail_ : whole_).value());
      std::byte* room = is_tail ? tail_workspace : workspace;
      bind(program, args, at, in_place ? carried_ : 0, room);
      program.run(room, step);
    }
  }

  void bind(const BodyProgram& program, const KernelArgs& args, Tiles::Place tile, std::size_t carried,
            std::byte* workspace) const {
    const std::size_t num_inputs = input_sizes_.size();
    const auto at_result = static_cast<std::size_t>(tiles_.offset(num_inputs, tile));
    for (std::size_t i = 0; i < num_inputs; ++i) {
      auto* operand = static_cast<std::byte*>(const_cast<void*>(args.inputs[i]));  // a body writes to results only
      operand += static_cast<std::size_t>(tiles_.offset(i, tile)) * input_sizes_[i];
      if (i >= carried) {
        program.bind(workspace, i, operand);
        continue;
      }
      std::byte* result = static_cast<std::byte*>(args.outputs[i]) + at_result * output_sizes_[i];
      const auto count = static_cast<std::size_t>(tiles_.elements(tiles_.is_tail(tile)));
      if (operand != result) std::memcpy(result, operand, count * output_sizes_[i]);
      program.bind(workspace, i, result);
    }
    for (std::size_t i = carried; i < output_sizes_.size(); ++i) {
      std::byte* result = static_cast<std::byte*>(args.outputs[i]) + at_result * output_sizes_[i];
      program.bind(workspace, num_inputs + i - carried, result);
    }
  }

  std::size_t carried_;
  Tiles tiles_;
  std::vector<std::size_t> input_sizes_, output_sizes_;  // bytes of an element
  std::optional<TileProgram> whole_, tail_;
  std::int64_t parts_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_group_kernel(const KernelRequest& request, const Backend& backend) {
  return std::make_unique<GroupKernel>(request, backend);
}

}  // namespace aspen
