// gc-info: lists the devices of this machine, for useIpuId (docs/monitor.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "aspen/base/error.h"
#include "aspen/ipus/attachments.h"
#include "aspen/ipus/ipu_ids.h"
#include "aspen/ipus/overview.h"

namespace aspen {
namespace {

constexpr const char* kUsage = R"(usage: gc-info -l [--json]

Lists the devices of this machine: every virtual IPU and every group of them that useIpuId can ask for.

  -l, --list-devices  one line for each device: its id, its IPUs, and whether processes are attached to any of them
                      (with their pids) or a program that asked for it by its id is about to be
  --json              for scripts: one list, on one line
  --help              this text

gc-monitor shows the processes themselves. ASPEN_IPU_LOCK: as for the programs to look at.
)";

struct Arguments {
  bool lists_devices = false, wants_json = false, wants_help = false;
};

Arguments parse(const std::vector<std::string>& words) {
  Arguments result;
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h") {
      result.wants_help = true;
    } else if (word == "-l" || word == "--list-devices") {
      result.lists_devices = true;
    } else if (word == "--json") {
      result.wants_json = true;
    } else {
      throw UserError("there is no option \"{}\"; see gc-info --help.", word);
    }
  }
  if (result.wants_json && !result.lists_devices) throw UserError("--json goes with -l; see gc-info --help.");
  return result;
}

std::string text_of(std::int64_t device, const IpuOverview& about) {
  const std::int64_t ipus = ipus_of_device(device);
  std::string line =
      fmt::format("Id: [{:>3}], type: [{}], IPUs: [{}], state: [{}]", device, ipus == 1 ? "Single IPU" : "Multi IPU",
                  ids_text(first_ipu_of_device(device), ipus), about.state());
  if (!about.pids.empty()) line += fmt::format(", processes: [{}]", fmt::join(about.pids, ", "));
  return line + "\n";
}

nlohmann::ordered_json json_of(std::int64_t device, const IpuOverview& about) {
  return {{"id", device},
          {"first_ipu", first_ipu_of_device(device)},
          {"ipus", ipus_of_device(device)},
          {"state", about.state()},
          {"pids", about.pids}};
}

void list_devices(bool as_json) {
  const Attachments attached = read_attachments();
  const auto ipus = overview_of_ipus(attached, attached);
  std::string text;
  auto list = nlohmann::ordered_json::array();
  for (std::int64_t device = 0; device < kMaxDevices; ++device) {
    const IpuOverview about = overview_of_device(ipus, device);
    text += text_of(device, about);
    list.push_back(json_of(device, about));
  }
  fmt::print("{}", as_json ? list.dump() + "\n" : text);
  if (std::fflush(stdout) != 0) throw UserError("the list cannot be written.");
}

}  // namespace
}  // namespace aspen

int main(int argc, char** argv) {
  try {
    const auto arguments = aspen::parse({argv + 1, argv + argc});
    if (arguments.wants_help || !arguments.lists_devices) {
      fmt::print(arguments.wants_help ? stdout : stderr, "{}", aspen::kUsage);
      return arguments.wants_help ? 0 : 2;
    }
    aspen::list_devices(arguments.wants_json);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gc-info: {}\n", error.what());
    return 1;
  }
  return 0;
}
