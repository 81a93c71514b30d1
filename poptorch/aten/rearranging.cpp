// Blocks of an image moved between channels, space and columns.
#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

// The last three axes (C, H, W) and everything before them as one.
struct Image {
  Shape front;
  std::int64_t batch, c, h, w;
};

Image image(Call& call, const Expr& x) {
  if (x.rank() < 3)
    throw UserError("[{}] needs at least 3 axes (channels, height, width), not shape {}.", call.name(),
                    to_string(x.shape()));
  Image i;
  i.front.assign(x.shape().begin(), x.shape().end() - 3);
  i.batch = aspen::numel(i.front);
  i.c = x.size(x.rank() - 3), i.h = x.size(x.rank() - 2), i.w = x.size(x.rank() - 1);
  return i;
}

void give(Call& call, Expr y, Shape front, std::initializer_list<std::int64_t> back) {
  front.insert(front.end(), back);
  call.result(reshape(y, std::move(front)).v, call.dtype("self"));
}

// pixel_shuffle(Tensor self, int upscale_factor): (C r^2, H, W) -> (C, H r, W r)
void pixel_shuffle(Call& call) {
  Expr x = expr(call, call.value("self"));
  Image i = image(call, x);
  std::int64_t r = call.integer("upscale_factor");
  if (r < 1 || i.c % (r * r) != 0)
    throw UserError("[pixel_shuffle] {} channels are not divisible by the square of {}.", i.c, r);
  std::int64_t c = i.c / (r * r);
  Expr y = transpose(reshape(x, {i.batch, c, r, r, i.h, i.w}), {0, 1, 4, 2, 5, 3});
  give(call, y, i.front, {c, i.h * r, i.w * r});
}

// pixel_unshuffle(Tensor self, int downscale_factor): (C, H r, W r) -> (C r^2, H, W)
void pixel_unshuffle(Call& call) {
  Expr x = expr(call, call.value("self"));
  Image i = image(call, x);
  std::int64_t r = call.integer("downscale_factor");
  if (r < 1 || i.h % r != 0 || i.w % r != 0)
    throw UserError("[pixel_unshuffle] {} x {} is not divisible by {}.", i.h, i.w, r);
  Expr y = transpose(reshape(x, {i.batch, i.c, i.h / r, r, i.w / r, r}), {0, 1, 3, 5, 2, 4});
  give(call, y, i.front, {i.c * r * r, i.h / r, i.w / r});
}

// channel_shuffle(Tensor self, int groups), native_channel_shuffle(...): (g, C / g) -> (C / g, g) along axis 1
void channel_shuffle(Call& call) {
  Expr x = expr(call, call.value("self"));
  std::int64_t groups = call.integer("groups");
  if (x.rank() < 3 || groups < 1 || x.size(1) % groups != 0) {
    throw UserError("[channel_shuffle] shape {} does not split into {} groups along axis 1.", to_string(x.shape()),
                    groups);
  }
  std::int64_t rest = x.numel() / (x.size(0) * x.size(1));
  Expr y = transpose(reshape(x, {x.size(0), groups, x.size(1) / groups, rest}), {0, 2, 1, 3});
  call.result(reshape(y, x.shape()).v, call.dtype("self"));
}

// A sliding window along one axis.
struct Window {
  std::int64_t kernel, dilation, padding, stride, size;

  std::int64_t padded() const { return size + 2 * padding; }
  std::int64_t count() const { return (padded() - dilation * (kernel - 1) - 1) / stride + 1; }
  // Where offset k of window o lies, all windows of one offset after another; -1: in the padding.
  std::vector<std::int64_t> places() const {
    std::vector<std::int64_t> result;
    for (std::int64_t k = 0; k < kernel; ++k) {
      for (std::int64_t o = 0; o < count(); ++o) {
        std::int64_t place = o * stride + k * dilation - padding;
        result.push_back(place < 0 || place >= size ? -1 : place);
      }
    }
    return result;
  }
};

Window window(Call& call, std::size_t axis, std::int64_t size) {
  auto entry = [&](const char* name) { return repeated(call.integers(name), 2)[axis]; };
  Window w{entry("kernel_size"), entry("dilation"), entry("padding"), entry("stride"), size};
  if (w.padded() < w.dilation * (w.kernel - 1) + 1) {
    throw UserError("[{}] a window of {} with dilation {} does not fit {} elements padded by {}.", call.name(),
                    w.kernel, w.dilation, size, w.padding);
  }
  return w;
}

// im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride):
// (N, C, H, W) -> (N, C kh kw, oh ow)
void im2col(Call& call) {
  Expr x = expr(call, call.value("self"));
  bool unbatched = x.rank() == 3;
  if (unbatched) x = unsqueeze(x, 0);
  if (x.rank() != 4) throw UserError("[im2col] takes 3 or 4 axes, not shape {}.", to_string(x.shape()));
  Window h = window(call, 0, x.size(2)), w = window(call, 1, x.size(3));
  Expr blocks = reshape(remap(x, {{2, h.places()}, {3, w.places()}}),
                        {x.size(0), x.size(1), h.kernel, h.count(), w.kernel, w.count()});
  Expr y = reshape(transpose(blocks, {0, 1, 2, 4, 3, 5}),
                   {x.size(0), x.size(1) * h.kernel * w.kernel, h.count() * w.count()});
  call.result((unbatched ? squeeze(y, 0) : y).v, call.dtype("self"));
}

// col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride): the
// way back; where windows overlap their elements add
void col2im(Call& call) {
  Expr x = expr(call, call.value("self"));
  bool unbatched = x.rank() == 2;
  if (unbatched) x = unsqueeze(x, 0);
  std::vector<std::int64_t> size = repeated(call.integers("output_size"), 2);
  Window h = window(call, 0, size[0]), w = window(call, 1, size[1]);
  std::int64_t n = x.size(0), area = h.kernel * w.kernel;
  if (x.rank() != 3 || x.size(1) % area != 0 || x.size(2) != h.count() * w.count()) {
    throw UserError("[col2im] shape {} does not hold {} windows of {} elements.", to_string(x.shape()),
                    h.count() * w.count(), area);
  }
  std::int64_t c = x.size(1) / area;
  Expr blocks = transpose(reshape(x, {n, c, h.kernel, w.kernel, h.count(), w.count()}), {0, 1, 2, 4, 3, 5});
  Expr rows = reshape(blocks, {n, c, h.kernel * h.count(), w.kernel * w.count()});
  Expr y = remap_grad(rows, {{2, h.places()}, {3, w.places()}}, {n, c, size[0], size[1]});
  call.result((unbatched ? squeeze(y, 0) : y).v, call.dtype("self"));
}

}  // namespace

void register_rearranging(HandlerTable& table) {
  table.add("aten::pixel_shuffle", pixel_shuffle);
  table.add("aten::pixel_unshuffle", pixel_unshuffle);
  table.add("aten::channel_shuffle", channel_shuffle);
  table.add("aten::native_channel_shuffle", channel_shuffle);
  table.add("aten::im2col", im2col);
  table.add("aten::col2im", col2im);
}

}  // namespace poptorch
