// gc-monitor: shows the virtual IPUs of this machine and the processes that are attached to them (docs/monitor.md).
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "aspen/base/error.h"
#include "aspen/ipus/attachments.h"
#include "report.h"

namespace aspen {
namespace {

constexpr const char* kUsage = R"(usage: gc-monitor [--watch [SECONDS]] [--json]

Shows the virtual IPUs of this machine and the processes of all users that are attached to them: one row for each IPU
of each attached executor, with the memory that is planned for it and the share of the time in which it computed.

  --watch [SECONDS]  shows them again and again, until Ctrl-C; every second, unless said otherwise (0.1 to 3600).
                     Utilisation is then that since the last time, else that of a quarter of a second
  --json             for scripts: one object, on one line; with --watch one line each time
  --help             this text

A process that ends, however it does, is not attached any more. Programs that did not ask for a device (useIpuId) are
shown on the first IPUs that are free, and keep nobody from them. ASPEN_IPU_LOCK: as for the programs to look at.
)";

constexpr std::chrono::milliseconds kFirstLook{250};

using Seconds = std::chrono::duration<double>;

struct Arguments {
  std::optional<Seconds> watch;
  bool wants_json = false, wants_help = false;
};

Seconds parse_seconds(const std::string& word) {
  double seconds = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), seconds);
  if (error == std::errc() && stop == word.data() + word.size() && seconds >= 0.1 && seconds <= 3600) {
    return Seconds(seconds);
  }
  throw UserError("--watch takes a number of seconds from 0.1 to 3600, not \"{}\".", word);
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      result.wants_help = true;
    } else if (word == "--json") {
      result.wants_json = true;
    } else if (word == "--watch") {
      const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--");
      result.watch = has_value ? parse_seconds(words[++i]) : Seconds(1);
    } else {
      throw UserError("there is no option \"{}\"; see gc-monitor --help.", word);
    }
  }
  return result;
}

// Of the terminal; what goes elsewhere has lines as long as they need be.
std::size_t line_width() {
  struct winsize size {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 1000;
}

void show(const Arguments& arguments, const Attachments& before, const Attachments& after) {
  std::string report;
  if (arguments.wants_json) {
    report = json_report(before, after);
  } else {
    report = text_report(before, after, line_width());
    for (const std::string& file : after.passed_by) report += "not shown: " + file + "\n";
    if (arguments.watch && isatty(STDOUT_FILENO) != 0) report.insert(0, "\x1b[H\x1b[J");  // in place of the last one
  }
  fmt::print("{}", report);
  if (std::fflush(stdout) != 0) throw UserError("the report cannot be written.");
}

void run(const Arguments& arguments) {
  Attachments before = read_attachments();
  std::this_thread::sleep_for(kFirstLook);
  while (true) {
    Attachments after = read_attachments();
    show(arguments, before, after);
    if (!arguments.watch) return;
    before = std::move(after);
    std::this_thread::sleep_for(*arguments.watch);
  }
}

}  // namespace
}  // namespace aspen

int main(int argc, char** argv) {
  try {
    const auto arguments = aspen::parse({argv + 1, argv + argc});
    if (arguments.wants_help) {
      fmt::print("{}", aspen::kUsage);
      return 0;
    }
    aspen::run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gc-monitor: {}\n", error.what());
    return 1;
  }
  return 0;
}
