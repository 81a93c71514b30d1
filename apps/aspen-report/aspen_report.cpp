// aspen-report: makes pages and texts of the profiles that runs leave behind (docs/profiling.md).
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aspen/base/error.h"
#include "aspen/base/whole_file.h"
#include "aspen/profile/compare.h"
#include "aspen/profile/profile_json.h"
#include "aspen/profile/report.h"
#include "aspen/profile/summary_text.h"
#include "aspen/profile/trace_json.h"

namespace aspen::profile {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage = R"(usage: aspen-report PROFILE [--compare BEFORE] [--page FILE] [--trace FILE] [--text]

Makes a page, a trace or a text of what a profiled run left behind (docs/profiling.md).

  PROFILE            profile.json or profile.pop of a run, or the folder it lies in
  --compare BEFORE   beside another run: what got slower, what grew, which options changed
  --page FILE        where the page goes; without --text and --trace, report.html beside the profile (compare.html
                     with --compare)
  --trace FILE       Chrome trace events, for Perfetto and chrome://tracing
  --text             prints a summary for a terminal or the log of CI
  --help             this text
)";

struct Arguments {
  fs::path profile;
  std::optional<fs::path> before, page, trace;
  bool text = false, wants_help = false;
};

Arguments parse(const std::vector<std::string>& words) {
  Arguments result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto value = [&] {
      if (++i == words.size()) throw UserError("{} wants a file; see aspen-report --help.", word);
      return fs::path(words[i]);
    };
    if (word == "--help" || word == "-h") {
      result.wants_help = true;
    } else if (word == "--text") {
      result.text = true;
    } else if (word == "--compare") {
      result.before = value();
    } else if (word == "--page") {
      result.page = value();
    } else if (word == "--trace") {
      result.trace = value();
    } else if (word.starts_with("-")) {
      throw UserError("there is no option \"{}\"; see aspen-report --help.", word);
    } else if (result.profile.empty()) {
      result.profile = word;
    } else {
      throw UserError("\"{}\" is one profile too many; --compare takes a second one. See aspen-report --help.", word);
    }
  }
  if (result.profile.empty() && !result.wants_help) {
    throw UserError("which profile? Name a profile.json or the folder of a run; see aspen-report --help.");
  }
  return result;
}

// Advice and analysis are made anew: they are those of this version.
Profile load(const fs::path& path, fs::path& file) {
  file = fs::is_directory(path) ? path / "profile.json" : path;
  Profile profile = read_profile(file);
  finish(profile);
  return profile;
}

void run(const Arguments& arguments) {
  fs::path file, file_before;
  const Profile profile = load(arguments.profile, file);
  std::optional<Comparison> comparison;
  if (arguments.before) comparison = compare(load(*arguments.before, file_before), profile);
  if (arguments.text) fmt::print("{}", comparison ? summary_text(*comparison) : summary_text(profile));
  if (arguments.trace) {
    const std::string trace = to_trace_json(profile);
    write_whole(*arguments.trace, {std::as_bytes(std::span(trace))});
  }
  const bool is_default = !arguments.text && !arguments.trace;
  if (!arguments.page && !is_default) return;
  const fs::path page =
      arguments.page.value_or(fs::path(file).replace_filename(comparison ? "compare.html" : "report.html"));
  write_page(page, profile, comparison ? &*comparison : nullptr);
  fmt::print("{}\n", page.string());
}

}  // namespace
}  // namespace aspen::profile

int main(int count, char** words) {
  using namespace aspen::profile;
  try {
    const Arguments arguments = parse({words + 1, words + count});
    if (arguments.wants_help) {
      fmt::print("{}", kUsage);
    } else {
      run(arguments);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "aspen-report: {}\n", error.what());
    return 1;
  }
}
