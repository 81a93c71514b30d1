#include "aspen/compiler/passes/run_on_text.h"

#include "aspen/compiler/ir/parser.h"
#include "aspen/compiler/ir/printer.h"
#include "aspen/compiler/ir/verifier.h"
#include "aspen/compiler/passes/pipeline.h"

namespace aspen {
namespace {

double number(const std::string& word, const std::string& value) {
  try {
    std::size_t used = 0;
    double result = std::stod(value, &used);
    if (used == value.size()) return result;
  } catch (const std::exception&) {
  }
  throw UserError("option {} takes a number, not \"{}\".", word, value);
}

}  // namespace

std::vector<std::string> split_words(std::string_view text, std::string_view separators) {
  std::vector<std::string> words;
  while (true) {
    auto start = text.find_first_not_of(separators);
    if (start == std::string_view::npos) return words;
    auto end = std::min(text.find_first_of(separators, start), text.size());
    words.emplace_back(text.substr(start, end - start));
    text.remove_prefix(end);
  }
}

CompileOptions parse_compile_options(std::string_view text) {
  CompileOptions options{.training = true};
  OptimizerSpec& spec = options.optimizer;
  for (const std::string& entry : split_words(text, " \t")) {
    std::string word = entry.substr(0, entry.find('='));
    std::string value = word.size() == entry.size() ? "" : entry.substr(word.size() + 1);
    if (word == "gradient_accumulation")
      options.gradient_accumulation = static_cast<std::int64_t>(number(word, value));
    else if (word == "sum")
      options.mean_reduction = false;
    else if (word == "optimizer")
      spec.kind = value;
    else if (word == "group")
      spec.groups.push_back({.parameters = split_words(value, ",")});
    else if (word == "momentum" && !spec.groups.empty())
      spec.groups.back().momentum = true;
    else if (word == "nesterov" && !spec.groups.empty())
      spec.groups.back().nesterov = true;
    else if (word == "no_bias_correction")
      spec.bias_correction = false;
    else if (word == "centered")
      spec.centered = true;
    else if (word == "tf_variant")
      spec.tf_variant = true;
    else if (word == "scales_loss")
      spec.scales_loss = true;
    else if (word == "max_grad_norm")
      spec.max_grad_norm = number(word, value);
    else {
      throw UserError(
          "unknown option \"{}\"; the options are gradient_accumulation=N, sum, optimizer=KIND, "
          "group=NAME,..., after a group momentum and nesterov, no_bias_correction, centered, tf_variant, "
          "scales_loss and max_grad_norm=X.",
          entry);
    }
  }
  return options;
}

std::string run_passes_on_text(std::string_view text, const std::vector<std::string>& passes,
                               const CompileOptions& options, const Backend* backend) {
  auto graph = parse_graph(text);
  verify(*graph);
  std::vector<Pass> found;
  for (const std::string& name : passes) found.push_back(find_pass(name));
  run_passes(*graph, found, {.options = options, .backend = backend});
  return to_text(*graph);
}

}  // namespace aspen
