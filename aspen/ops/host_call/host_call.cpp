// host_call: work only the front end can do, in the middle of a program. Its gradient is another host call, which
// receives the inputs and the gradients of all outputs. A call without outputs checks its inputs.
#include "aspen/ops/host_call/host_call.h"

#include <charconv>

#include "aspen/ops/build.h"

namespace aspen {
namespace {

// Reads the list of types in the attribute `outputs`, e.g. "f32[2, 3]; i32[4]".
class TypeListParser {
 public:
  TypeListParser(const InferContext& c, const std::string& text) : c_(c), text_(text) {}

  std::vector<TensorType> parse() {
    std::vector<TensorType> types;
    skip_spaces();
    while (at_ < text_.size()) {
      types.push_back(parse_type());
      skip_spaces();
      if (at_ < text_.size()) expect(';');
      skip_spaces();
    }
    return types;
  }

 private:
  TensorType parse_type() {
    std::size_t end = text_.find('[', at_);
    c_.check(end != std::string::npos, "outputs \"{}\" are not a list like \"f32[2, 3]; i32[4]\": a [ is missing.",
             text_);
    TensorType type{dtype_from_name(std::string_view(text_).substr(at_, end - at_)), {}};
    at_ = end + 1;
    skip_spaces();
    while (at_ < text_.size() && text_[at_] != ']') {
      type.shape.push_back(parse_extent());
      skip_spaces();
      if (at_ < text_.size() && text_[at_] == ',') ++at_;
      skip_spaces();
    }
    expect(']');
    return type;
  }

  std::int64_t parse_extent() {
    std::int64_t extent = -1;
    auto [stop, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
    c_.check(error == std::errc() && extent >= 0, "outputs \"{}\": expected an extent at character {}.", text_, at_);
    at_ = static_cast<std::size_t>(stop - text_.data());
    return extent;
  }

  void expect(char wanted) {
    c_.check(at_ < text_.size() && text_[at_] == wanted, "outputs \"{}\": expected '{}' at character {}.", text_,
             wanted, at_);
    ++at_;
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  const InferContext& c_;
  const std::string& text_;
  std::size_t at_ = 0;
};

std::vector<TensorType> infer_host_call(const InferContext& c) {
  const auto& attrs = c.attrs<HostCallAttrs>();
  for (auto i : attrs.differentiable) {
    c.check(i >= 0 && static_cast<std::size_t>(i) < c.num_inputs() && is_floating(c.in(i).dtype),
            "input {} is listed as differentiable, but is not a floating point input.", i);
  }
  for (std::size_t i = 0; i < attrs.absent.size(); ++i) {
    const auto most = static_cast<std::int64_t>(c.num_inputs() + i);
    c.check(attrs.absent[i] >= (i == 0 ? 0 : attrs.absent[i - 1] + 1) && attrs.absent[i] <= most,
            "input {} is listed as absent; expected ascending numbers of which this is at most {}.", attrs.absent[i],
            most);
  }
  return TypeListParser(c, attrs.outputs).parse();
}

void host_call_gradient(GradientContext& c) {
  const auto& attrs = c.attrs<HostCallAttrs>();
  for (std::size_t i = 0; i < c.op.num_inputs(); ++i) c.no_gradient(i);  // unless it is set below
  if (attrs.gradient == nullptr || attrs.differentiable.empty()) return;
  HostCallAttrs backward{.function = attrs.gradient};
  std::vector<Value*> inputs = c.op.inputs();
  for (std::size_t i = 0; i < c.op.num_outputs(); ++i) {
    if (c.grad(i) != nullptr) {
      inputs.push_back(c.grad(i));
    } else if (attrs.absent_gradients) {
      backward.absent.push_back(static_cast<std::int64_t>(c.op.num_inputs() + i));
    } else {
      inputs.push_back(build::full_like(c.b, c.out(i), 0));
    }
  }
  for (auto i : attrs.differentiable) {
    backward.outputs += (backward.outputs.empty() ? "" : "; ") + to_string(c.in(static_cast<std::size_t>(i))->type());
  }
  Op* op = c.b.emit("host_call", std::move(inputs), backward);
  for (std::size_t k = 0; k < attrs.differentiable.size(); ++k) {
    c.set(static_cast<std::size_t>(attrs.differentiable[k]), op->output(k));
  }
}

}  // namespace

void define_host_call(OpRegistry& ops) {
  ops.define<HostCallAttrs>("host_call")
      .summary(
          "Work of the front end on the host. Without outputs it is run for what it does, a check that raises, say.")
      .inputs("inputs", "any types")
      .outputs("outputs", "types listed in the attribute outputs")
      .infer(infer_host_call)
      .gradient(host_call_gradient)
      .impure();  // nothing is known of the function
}

}  // namespace aspen
