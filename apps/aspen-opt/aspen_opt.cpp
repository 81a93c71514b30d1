// aspen-opt: runs passes on a graph in text form and prints the result.
//
//   aspen-opt --passes canonicalise,remove_dead model.ir
//   aspen-opt --passes select_loss,differentiate,insert_optimizer --options "optimizer=sgd group=w" model.ir
//   aspen-opt --list
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/compiler/passes/pipeline.h"
#include "aspen/compiler/passes/run_on_text.h"

namespace {

constexpr const char* kUsage =
    "usage: aspen-opt [--passes NAME,...] [--options \"...\"] FILE   prints the graph after the passes (FILE -: "
    "stdin)\n"
    "       aspen-opt --list                                         prints the passes there are\n";

struct Arguments {
  std::vector<std::string> passes;
  std::string options;
  std::optional<std::string> file;
  bool list = false;
};

Arguments parse(int argc, char** argv) {
  Arguments result;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    auto value = [&]() -> std::string {
      if (i + 1 == argc) throw aspen::UserError("{} needs a value.\n{}", word, kUsage);
      return argv[++i];
    };
    if (word == "--list")
      result.list = true;
    else if (word == "--passes")
      result.passes = aspen::split_words(value(), ",");
    else if (word == "--options")
      result.options = value();
    else if (word.starts_with("--"))
      throw aspen::UserError("unknown argument {}.\n{}", word, kUsage);
    else
      result.file = word;
  }
  if (!result.list && !result.file) throw aspen::UserError("no file given.\n{}", kUsage);
  return result;
}

std::string read(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(path);
  if (!file) throw aspen::UserError("cannot read {}.", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run(const Arguments& arguments) {
  if (arguments.list) {
    for (const aspen::Pass& pass : aspen::all_passes()) fmt::print("{:<22}{}\n", pass.name, pass.intent);
    return;
  }
  auto backend = aspen::make_reference_backend();
  auto options = aspen::parse_compile_options(arguments.options);
  fmt::print("{}", aspen::run_passes_on_text(read(*arguments.file), arguments.passes, options, backend.get()));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "aspen-opt: {}\n", e.what());
    return 1;
  }
}
