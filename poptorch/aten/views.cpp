// Views: results that share storage with their argument.
#include "poptorch/aten/support/view_chain.h"

#include <algorithm>
#include <limits>

namespace poptorch {
namespace {

ChainMaker chain_of(Call& call, std::string_view argument = "self") {
  return ChainMaker(call.value(argument)->shape());
}

void view(Call& call, const ChainMaker& chain, std::string_view argument = "self") {
  call.view(argument, chain.steps());
}

// view(Tensor(a) self, SymInt[] size), reshape(Tensor(a) self, SymInt[] shape)
Handler reshape_to(const char* sizes) {
  return [sizes](Call& call) {
    Value* x = call.value("self");
    call.reshaped("self", complete_shape(call.integers(sizes), x->type().numel(), call.name()));
  };
}

// view_as(Tensor(a) self, Tensor other)
void view_as(Call& call) { call.reshaped("self", call.value("other")->shape()); }

// flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1)
void flatten(Call& call) {
  Shape shape = call.value("self")->shape();
  std::int64_t start = axis_argument(call, "start_dim", shape), end = axis_argument(call, "end_dim", shape);
  if (start > end) {
    throw UserError("[flatten] start_dim {} comes after end_dim {}; expected start_dim <= end_dim.", start, end);
  }
  if (shape.empty()) return call.reshaped("self", {1});
  Shape merged(shape.begin(), shape.begin() + start);
  std::int64_t extent = 1;
  for (auto axis = start; axis <= end; ++axis) extent *= shape[axis];
  merged.push_back(extent);
  merged.insert(merged.end(), shape.begin() + end + 1, shape.end());
  call.reshaped("self", merged);
}

// squeeze(Tensor(a) self)
void squeeze_all(Call& call) {
  Shape shape = call.value("self")->shape();
  shape.erase(std::remove(shape.begin(), shape.end(), 1), shape.end());
  view(call, chain_of(call).reshape(std::move(shape)));
}

// squeeze.dim(Tensor(a) self, int dim)
void squeeze_axis(Call& call) {
  ChainMaker chain = chain_of(call);
  std::int64_t axis = axis_argument(call, "dim", chain.shape());
  if (!chain.shape().empty() && chain.shape()[axis] == 1) chain.squeeze(axis);
  view(call, chain);
}

// unsqueeze(Tensor(a) self, int dim)
void unsqueeze(Call& call) {
  ChainMaker chain = chain_of(call);
  Shape larger(chain.shape().size() + 1, 1);
  view(call, chain.unsqueeze(axis_argument(call, "dim", larger)));
}

// t(Tensor(a) self)
void t(Call& call) {
  ChainMaker chain = chain_of(call);
  if (chain.shape().size() > 2)
    throw UserError("[t] takes at most 2 axes, not shape {}; use transpose.", to_string(chain.shape()));
  if (chain.shape().size() == 2) chain.swap(0, 1);
  view(call, chain);
}

// transpose.int(Tensor(a) self, int dim0, int dim1), swapaxes(Tensor(a) self, int axis0, int axis1)
Handler swap_axes(const char* first, const char* second) {
  return [first, second](Call& call) {
    ChainMaker chain = chain_of(call);
    std::int64_t a = axis_argument(call, first, chain.shape()), b = axis_argument(call, second, chain.shape());
    view(call, a == b ? chain : chain.swap(a, b));
  };
}

// permute(Tensor(a) self, int[] dims)
void permute(Call& call) {
  ChainMaker chain = chain_of(call);
  Axes axes = call.integers("dims");
  for (auto& axis : axes) axis = axis_in(axis, chain.shape(), "permute");
  view(call, chain.transpose(std::move(axes)));
}

void expand_to(Call& call, const Shape& sizes) {
  ChainMaker chain = chain_of(call);
  const Shape& shape = chain.shape();
  if (sizes.size() < shape.size()) {
    throw UserError("[expand] {} sizes {} are fewer than the axes of shape {}.", sizes.size(), to_string(sizes),
                    to_string(shape));
  }
  Shape target = sizes;
  std::size_t added = sizes.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t& size = target[added + i];
    if (size == -1) size = shape[i];
    if (size != shape[i] && shape[i] != 1) {
      throw UserError("[expand] axis {} of shape {} has size {} and cannot become {}; only axes of size 1 grow.", i,
                      to_string(shape), shape[i], size);
    }
  }
  view(call, chain.broadcast(std::move(target)));
}

// expand(Tensor(a) self, SymInt[] size, *, bool implicit=False)
void expand(Call& call) { expand_to(call, call.integers("size")); }
// expand_as(Tensor(a) self, Tensor other)
void expand_as(Call& call) { expand_to(call, call.value("other")->shape()); }

// slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)
void slice(Call& call) {
  ChainMaker chain = chain_of(call);
  if (chain.shape().empty()) return view(call, chain);
  std::int64_t axis = axis_argument(call, "dim", chain.shape()), step = call.integer("step");
  if (step < 1) throw UserError("[slice] step {} is not positive; expected step >= 1 (flip reverses).", step);
  auto [start, end] =
      slice_bounds(integer_or(call, "start", 0), integer_or(call, "end", std::numeric_limits<std::int64_t>::max()),
                   chain.shape()[axis]);
  view(call, chain.slice(axis, start, end, step));
}

// narrow(Tensor(a) self, int dim, int start, int length)
void narrow(Call& call) {
  ChainMaker chain = chain_of(call);
  std::int64_t axis = axis_argument(call, "dim", chain.shape()), size = chain.shape().at(axis);
  std::int64_t start = call.integer("start"), length = call.integer("length");
  if (start < 0) start += size;
  if (start < 0 || length < 0 || start + length > size) {
    throw UserError("[narrow] start {} and length {} leave axis {} of size {}.", start, length, axis, size);
  }
  view(call, chain.slice(axis, start, start + length));
}

// select.int(Tensor(a) self, int dim, int index)
void select(Call& call) {
  ChainMaker chain = chain_of(call);
  std::int64_t axis = aspen::normalize_axis(call.integer("dim"), chain.shape(), "select");
  std::int64_t index = call.integer("index"), size = chain.shape()[axis];
  if (index < -size || index >= size) {
    throw UserError("[select] index {} is out of range for axis {} of size {}; expected {} <= index < {}.", index, axis,
                    size, -size, size);
  }
  view(call, chain.row(axis, index < 0 ? index + size : index));
}

// diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1)
void diagonal(Call& call) {
  ChainMaker chain = chain_of(call);
  std::int64_t offset = call.integer("offset"), axis1 = axis_argument(call, "dim1", chain.shape()),
               axis2 = axis_argument(call, "dim2", chain.shape());
  if (axis1 > axis2) {
    std::swap(axis1, axis2);
    offset = -offset;
  }
  // The chain merges both axes: where memory does not allow that, what is left has no strides in it.
  const auto rank = static_cast<std::int64_t>(chain.shape().size());
  const bool merges = axis1 == rank - 2 && axis2 == rank - 1 && call.is_contiguous("self");
  const bool is_empty = -offset >= chain.shape()[axis1] || offset >= chain.shape()[axis2];
  if (!merges && !is_empty) decline("the axes cannot be merged");
  view(call, chain.diagonal(offset, axis1, axis2));
}

// unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]
void unbind(Call& call) {
  Shape shape = call.value("self")->shape();
  std::int64_t axis = aspen::normalize_axis(call.integer("dim"), shape, "unbind");
  std::vector<Call::ViewChain> chains;
  for (std::int64_t i = 0; i < shape[axis]; ++i) chains.push_back(ChainMaker(shape).row(axis, i).steps());
  call.view_list("self", chains);
}

// Pieces of the given sizes along an axis; views, or copies for the unsafe_ forms.
void split_by(Call& call, std::int64_t axis, const std::vector<std::int64_t>& sizes, bool copies) {
  Value* x = call.value("self");
  std::vector<Call::ViewChain> chains;
  std::vector<Value*> values;
  std::int64_t start = 0;
  for (auto size : sizes) {
    ChainMaker chain(x->shape());
    chain.slice(axis, start, start + size);
    start += size;
    if (copies) values.push_back(chain.apply(call.b, x));
    chains.push_back(chain.steps());
  }
  if (start != x->shape()[axis]) {
    throw UserError("[{}] the sizes add up to {}, but axis {} of shape {} has {} elements.", call.name(), start, axis,
                    to_string(x->shape()), x->shape()[axis]);
  }
  if (copies)
    call.result_list(values, call.dtype("self"));
  else
    call.view_list("self", chains);
}

std::vector<std::int64_t> equal_pieces(std::int64_t extent, std::int64_t piece) {
  if (piece <= 0) piece = std::max<std::int64_t>(extent, 1);
  std::vector<std::int64_t> sizes;
  for (std::int64_t start = 0; start < extent; start += piece) sizes.push_back(std::min(piece, extent - start));
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

// split.Tensor(Tensor(a -> *) self, int split_size, int dim=0), unsafe_split.Tensor(...)
Handler split(bool copies) {
  return [copies](Call& call) {
    const Shape& shape = call.value("self")->shape();
    std::int64_t axis = aspen::normalize_axis(call.integer("dim"), shape, "split");
    split_by(call, axis, equal_pieces(shape[axis], call.integer("split_size")), copies);
  };
}

// split_with_sizes(Tensor(a -> *) self, int[] split_sizes, int dim=0), split.sizes(..., int[] split_size, ...)
Handler split_sizes(const char* sizes, bool copies) {
  return [sizes, copies](Call& call) {
    const Shape& shape = call.value("self")->shape();
    split_by(call, aspen::normalize_axis(call.integer("dim"), shape, "split"), call.integers(sizes), copies);
  };
}

// chunk(Tensor(a -> *) self, int chunks, int dim=0), unsafe_chunk(...)
Handler chunk(bool copies) {
  return [copies](Call& call) {
    const Shape& shape = call.value("self")->shape();
    std::int64_t axis = aspen::normalize_axis(call.integer("dim"), shape, "chunk"), chunks = call.integer("chunks");
    if (chunks < 1) throw UserError("[chunk] {} chunks were asked for; expected at least 1.", chunks);
    split_by(call, axis, equal_pieces(shape[axis], (shape[axis] + chunks - 1) / chunks), copies);
  };
}

}  // namespace

void register_views(HandlerTable& table) {
  table.add("aten::view", reshape_to("size"));
  table.add("aten::_unsafe_view", reshape_to("size"));
  table.add("aten::_reshape_alias", reshape_to("size"));
  table.add("aten::reshape", reshape_to("shape"));
  table.add("aten::view_as", view_as);
  table.add("aten::flatten.using_ints", flatten);
  table.add("aten::squeeze", squeeze_all);
  table.add("aten::squeeze.dim", squeeze_axis);
  table.add("aten::unsqueeze", unsqueeze);
  table.add("aten::t", t);
  table.add("aten::transpose.int", swap_axes("dim0", "dim1"));
  table.add("aten::swapaxes", swap_axes("axis0", "axis1"));
  table.add("aten::permute", permute);
  table.add("aten::expand", expand);
  table.add("aten::expand_as", expand_as);
  table.add("aten::slice.Tensor", slice);
  table.add("aten::narrow", narrow);
  table.add("aten::select.int", select);
  table.add("aten::diagonal", diagonal);
  table.add("aten::unbind.int", unbind);
  table.add("aten::split.Tensor", split(false));
  table.add("aten::unsafe_split.Tensor", split(true));
  table.add("aten::split_with_sizes", split_sizes("split_sizes", false));
  table.add("aten::unsafe_split_with_sizes", split_sizes("split_sizes", true));
  table.add("aten::split.sizes", split_sizes("split_size", false));
  table.add("aten::chunk", chunk(false));
  table.add("aten::unsafe_chunk", chunk(true));
}

}  // namespace poptorch
