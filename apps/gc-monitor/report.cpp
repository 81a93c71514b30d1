#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <thread>

#include "aspen/ipus/ipu_ids.h"
#include "aspen/ipus/overview.h"
#include "table.h"

namespace aspen {
namespace {

constexpr std::size_t kShortestCommand = 12;

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double number = static_cast<double>(bytes) / 1024;
  for (const char* unit : {"KiB", "MiB", "GiB"}) {
    if (number < 1024) return fmt::format("{:.1f} {}", number, unit);
    number /= 1024;
  }
  return fmt::format("{:.1f} TiB", number);
}

std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole / 3600 % 24);
}

std::string percent_text(double share) { return fmt::format("{:.0f} %", 100 * share); }

// Somebody else's text on this terminal: nothing in it may move the cursor.
std::string plain(std::string text) {
  for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
  return text;
}

// Without the folders of the program.
std::string short_command(const std::string& command) {
  const auto end = std::min(command.find(' '), command.size());
  const auto slash = command.rfind('/', end);
  const std::string text = slash == std::string::npos || slash > end ? command : command.substr(slash + 1);
  return text.empty() ? "?" : plain(text);
}

std::string ipus_table(const Attachments& before, const Attachments& after) {
  const auto ipus = overview_of_ipus(before, after);
  const auto is_attached = [](const IpuOverview& ipu) { return !ipu.pids.empty(); };
  const std::string title =
      fmt::format("gc-monitor: {} virtual IPUs on {} cpus, {} in use", kMaxIpus, std::thread::hardware_concurrency(),
                  std::count_if(ipus.begin(), ipus.end(), is_attached));
  std::vector<Row> rows;
  for (std::size_t i = 0; i < ipus.size();) {
    const IpuOverview& ipu = ipus[i];
    std::size_t next = i + 1;
    // Those that nobody uses share a row.
    while (!is_attached(ipu) && next < ipus.size() && std::string_view(ipus[next].state()) == ipu.state()) ++next;
    const std::string ids = ids_text(static_cast<std::int64_t>(i), static_cast<std::int64_t>(next - i));
    if (is_attached(ipu)) {
      rows.push_back(
          {ids, ipu.state(), std::to_string(ipu.pids.size()), bytes_text(ipu.memory), percent_text(ipu.utilisation)});
    } else {
      rows.push_back({ids, ipu.state(), "", "", ""});
    }
    i = next;
  }
  const std::vector<Column> columns = {
      {"ID"}, {"State"}, {"Processes"}, {"Memory", Align::kRight}, {"Utilisation", Align::kRight}};
  return draw_table(title, columns, rows);
}

std::size_t width_of(const std::string& table) { return table.find('\n'); }

// Makes texts of a column shorter, so that their table is as wide as it should be or they have no more to give.
void shorten(std::vector<Row>& rows, std::size_t column, std::size_t excess) {
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row[column].size());
  const std::size_t limit = std::max(kShortestCommand, longest > excess ? longest - excess : 0);
  for (Row& row : rows) {
    if (row[column].size() > limit) row[column] = row[column].substr(0, limit - 3) + "...";
  }
}

std::string processes_table(const Attachments& before, const Attachments& after, std::size_t width) {
  const std::vector<Column> columns = {
      {"PID", Align::kRight}, {"Command", Align::kLeft}, {"Time", Align::kRight},       {"User"},
      {"ID", Align::kRight},  {"Memory", Align::kRight}, {"Utilisation", Align::kRight}};
  std::vector<Row> rows;
  for (const Attachment& executor : after.executors) {
    for (const AttachedIpu& ipu : executor.ipus) {
      rows.push_back({std::to_string(executor.pid), short_command(executor.command), time_text(executor.seconds),
                      plain(user_name(executor.user)), std::to_string(ipu.ipu), bytes_text(ipu.memory),
                      percent_text(utilisation(before, after, executor, ipu))});
    }
  }
  const char* title = rows.empty() ? "No attached processes" : "Attached processes";
  std::string table = draw_table(title, columns, rows);
  if (width_of(table) <= width) return table;
  shorten(rows, 1, width_of(table) - width);
  return draw_table(title, columns, rows);
}

// At most three decimals: more would be noise.
double rounded(double number) { return std::round(number * 1000) / 1000; }

}  // namespace

std::string text_report(const Attachments& before, const Attachments& after, std::size_t width) {
  return ipus_table(before, after) + processes_table(before, after, width);
}

std::string json_report(const Attachments& before, const Attachments& after) {
  using Json = nlohmann::ordered_json;
  Json ipus = Json::array(), executors = Json::array();
  const auto overview = overview_of_ipus(before, after);
  for (std::size_t i = 0; i < overview.size(); ++i) {
    ipus.push_back({{"id", i},
                    {"state", overview[i].state()},
                    {"pids", overview[i].pids},
                    {"memory_bytes", overview[i].memory},
                    {"utilisation", rounded(overview[i].utilisation)}});
  }
  for (const Attachment& executor : after.executors) {
    Json used = Json::array();
    for (const AttachedIpu& ipu : executor.ipus) {
      used.push_back({{"id", ipu.ipu},
                      {"memory_bytes", ipu.memory},
                      {"host_memory_bytes", ipu.host_memory},
                      {"utilisation", rounded(utilisation(before, after, executor, ipu))}});
    }
    executors.push_back({{"pid", executor.pid},
                         {"command", executor.command},
                         {"seconds", rounded(executor.seconds)},
                         {"user", user_name(executor.user)},
                         {"model", executor.model},
                         {"device", executor.device ? Json(*executor.device) : Json()},
                         {"ipus", used}});
  }
  const Json report = {{"ipus", ipus}, {"executors", executors}, {"passed_by", after.passed_by}};
  return report.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace aspen
