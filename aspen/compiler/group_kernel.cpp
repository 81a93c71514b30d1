#include "aspen/compiler/group_kernel.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "aspen/backends/api/strided_rows.h"
#include "aspen/compiler/body_program.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/compiler/memory/offsets.h"
#include "aspen/compiler/tiles.h"
#include "aspen/ops/group/group.h"
#include "aspen/ops/shape/shape.h"

namespace aspen {
namespace {

// Elements of a tile: few enough that its operands and what passes between ops stay in the first-level cache, enough
// that calls of kernels do not show. More of them where operands are few.
constexpr std::int64_t kTileElements = 1024, kFewOperands = 3;

std::int64_t elements_of_tile(std::size_t num_operands) {
  return num_operands <= kFewOperands ? 2 * kTileElements : kTileElements;
}

// Operands of more bytes do not stay in a cache that is close: what the next tile reads is asked for while one is
// computed. The memory of several operands then works at once, and does not wait at the ends of rows and pages.
constexpr std::size_t kFarBytes = std::size_t{1} << 20, kLineBytes = 64;

// Elements that one thread takes at a time, and in how many parts the work is cut at most.
constexpr std::int64_t kElementsPerPart = 8192, kMostParts = 64;

// An operand as the ops of a body read it: all of it, or what a slice leaves.
struct Read {
  std::size_t input = 0;
  const Value* value = nullptr;  // what it is in the body
  TileOperand place;
};

// Where a slice of an operand lies in it.
TileOperand place_of(const Op& slice) {
  const auto& attrs = slice.attrs<SliceAttrs>();
  TileOperand place{.strides = contiguous_strides(slice.input(0)->shape())};
  for (std::size_t i = 0; i < place.strides.size(); ++i) {
    place.offset += attrs.starts[i] * place.strides[i];
    place.strides[i] *= attrs.steps[i];
  }
  return place;
}

bool is_read_whole(const Value& input) {
  return std::any_of(input.users().begin(), input.users().end(), [](const Op* user) { return !user->is("slice"); });
}

// In the order of the operands, so that those which are carried come first.
std::vector<Read> reads_of(const Graph& body, const Shape& shape) {
  std::vector<Read> reads;
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    const Value& input = *body.inputs()[i];
    if (is_read_whole(input)) {
      reads.push_back({.input = i, .value = &input, .place = {.strides = broadcast_strides(input.shape(), shape)}});
    }
    for (const Op* user : input.users()) {
      if (user->is("slice")) reads.push_back({.input = i, .value = user->output(), .place = place_of(*user)});
    }
  }
  return reads;
}

// The body over tensors of the shapes that operands have in a tile. Shapes of the results follow.
std::unique_ptr<Graph> body_of_tile(const Graph& body, const std::vector<Read>& reads, const Tiles& tiles,
                                    bool is_tail) {
  auto graph = std::make_unique<Graph>(body.name());
  GraphCopier copier(*graph);
  for (std::size_t k = 0; k < reads.size(); ++k) {
    const TensorType type{reads[k].value->dtype(), tiles.operand_shape(k, is_tail)};
    copier.map(reads[k].value, graph->add_input(std::to_string(k), type));
  }
  for (const auto& op : body.ops()) {
    if (!op->is("slice")) copier.copy(*op);
  }
  for (const Graph::Output& output : body.outputs()) graph->add_output(output.name, copier[output.value]);
  return graph;
}

// Of all that is read, and of the results, which are one behind the other.
std::vector<TileOperand> places_of(const std::vector<Read>& reads, const Shape& shape) {
  std::vector<TileOperand> places;
  for (const Read& read : reads) places.push_back(read.place);
  places.push_back({.strides = contiguous_strides(shape)});
  return places;
}

// In bytes, from the first element of an operand in a tile.
struct Piece {
  std::size_t offset, size;
};

std::vector<Piece> pieces_of(const Tiles& tiles, std::size_t k, std::size_t element_size) {
  std::vector<Piece> pieces;
  for (const Tiles::Run& run : tiles.runs(k)) {
    pieces.push_back(
        {static_cast<std::size_t>(run.offset) * element_size, static_cast<std::size_t>(run.size) * element_size});
  }
  return pieces;
}

std::size_t bytes_of(const KernelRequest& request) {
  std::size_t bytes = 0;
  for (const KernelInput& input : request.inputs) bytes += input.type.bytes();
  return bytes;
}

class GroupKernel final : public Kernel {
 public:
  GroupKernel(const KernelRequest& request, const Graph& body, const std::vector<Read>& reads, const Backend& backend)
      : carried_(static_cast<std::size_t>(request.attrs.as<GroupAttrs>().carried)),
        tiles_(request.outputs[0].shape, places_of(reads, request.outputs[0].shape),
               elements_of_tile(reads.size() + request.outputs.size())),
        packed_bytes_(aligned(2 * (reads.size() + 1) * sizeof(std::int64_t))) {
    for (std::size_t k = 0; k < reads.size(); ++k) {
      const std::size_t size = size_of(reads[k].value->dtype());
      reads_.push_back({reads[k].input, size, pieces_of(tiles_, k, size), packed_bytes_});
      const auto elements = static_cast<std::size_t>(tiles_.elements(false));
      if (!reads_.back().is_dense()) packed_bytes_ += aligned(elements * size);
    }
    for (const TensorType& output : request.outputs) output_sizes_.push_back(size_of(output.dtype));
    if (tiles_.count() == 0) return;
    if (tiles_.has_whole()) whole_.emplace(*body_of_tile(body, reads, tiles_, false), carried_, request, backend);
    if (tiles_.has_tail()) tail_.emplace(*body_of_tile(body, reads, tiles_, true), carried_, request, backend);
    is_far_ = bytes_of(request) > kFarBytes;
    parts_ = std::min(tiles_.count(), request.outputs[0].numel() / kElementsPerPart);
    parts_ = std::clamp<std::int64_t>(parts_, 1, kMostParts);
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
  struct Operand {
    std::size_t input, size;    // bytes of an element
    std::vector<Piece> pieces;  // of a tile
    std::size_t packed;         // where those of an operand that is not dense are put
    bool is_dense() const { return pieces.size() == 1; }
  };

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
  std::size_t part_bytes() const {
    return packed_bytes_ + whole_bytes() + (tail_ ? aligned(tail_->workspace_bytes()) : 0);
  }

  bool is_in_place(const KernelArgs& args) const {
    for (std::size_t i = 0; i < carried_; ++i) {
      if (args.outputs[i] == args.inputs[i]) return true;
    }
    return false;
  }

  void run_tiles(const KernelArgs& args, std::int64_t begin, std::int64_t end, std::byte* room_of_part) const {
    auto* offsets = reinterpret_cast<std::int64_t*>(room_of_part);  // of operands and results in a tile
    std::int64_t* next_offsets = offsets + reads_.size() + 1;
    std::byte* workspace = room_of_part + packed_bytes_;
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
    tiles_.offsets(at, offsets);
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const bool is_tail = tiles_.is_tail(at);
      const BodyProgram& program = program_of((is_tail ? tail_ : whole_).value());
      std::byte* room = is_tail ? tail_workspace : workspace;
      bind(program, args, offsets, is_tail, in_place ? carried_ : 0, room_of_part, room);
      at = tiles_.after(at);
      if (tile + 1 < end) {
        tiles_.offsets(at, next_offsets);
        if (is_far_) fetch(args, next_offsets);
      }
      program.run(room, step);
      std::swap(offsets, next_offsets);
    }
  }

  std::byte* operand(const KernelArgs& args, std::size_t i, const std::int64_t* offsets) const {
    auto* first = static_cast<std::byte*>(const_cast<void*>(args.inputs[reads_[i].input]));  // only results are written
    return first + static_cast<std::size_t>(offsets[i]) * reads_[i].size;
  }

  void fetch(const KernelArgs& args, const std::int64_t* offsets) const {
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      const std::byte* first = operand(args, i, offsets);
      for (const Piece& piece : reads_[i].pieces) {
        for (std::size_t at = 0; at < piece.size; at += kLineBytes) __builtin_prefetch(first + piece.offset + at);
      }
    }
  }

  // The elements of a tile one behind the other.
  std::byte* put_together(const Operand& read, const std::byte* from, bool is_tail, std::byte* to) const {
    const std::size_t bytes = static_cast<std::size_t>(tiles_.elements(is_tail)) * read.size;
    const Piece* piece = read.pieces.data();
    for (std::size_t at = 0; at < bytes; at += piece++->size) std::memcpy(to + at, from + piece->offset, piece->size);
    return to;
  }

  void bind(const BodyProgram& program, const KernelArgs& args, const std::int64_t* offsets, bool is_tail,
            std::size_t carried, std::byte* packed, std::byte* workspace) const {
    const auto at_result = static_cast<std::size_t>(offsets[reads_.size()]);
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      std::byte* from = operand(args, i, offsets);
      if (!reads_[i].is_dense()) from = put_together(reads_[i], from, is_tail, packed + reads_[i].packed);
      if (i >= carried) {
        program.bind(workspace, i, from);
        continue;
      }
      std::byte* result = static_cast<std::byte*>(args.outputs[i]) + at_result * output_sizes_[i];
      const auto count = static_cast<std::size_t>(tiles_.elements(is_tail));
      if (from != result) std::memcpy(result, from, count * output_sizes_[i]);
      program.bind(workspace, i, result);
    }
    for (std::size_t i = carried; i < output_sizes_.size(); ++i) {
      std::byte* result = static_cast<std::byte*>(args.outputs[i]) + at_result * output_sizes_[i];
      program.bind(workspace, reads_.size() + i - carried, result);
    }
  }

  std::size_t carried_;
  Tiles tiles_;
  std::vector<Operand> reads_;
  std::size_t packed_bytes_;  // the workspace of a part begins with offsets of two tiles and operands put together
  std::vector<std::size_t> output_sizes_;
  bool is_far_ = false;
  std::optional<TileProgram> whole_, tail_;
  std::int64_t parts_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_group_kernel(const KernelRequest& request, const Backend& backend) {
  const Graph& body = graph_of(request.attrs.as<GroupAttrs>().body);
  return std::make_unique<GroupKernel>(request, body, reads_of(body, request.outputs[0].shape), backend);
}

}  // namespace aspen
