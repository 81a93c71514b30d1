// gc-monitor and gc-info as users call them, and the report on executors made up here.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdio.h>  // popen
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/gc-monitor/report.h"
#include "apps/gc-monitor/table.h"
#include "aspen/ipus/device_lease.h"
#include "aspen/ipus/registration.h"
#include "tests/support/child_process.h"
#include "tests/support/own_ipus.h"

namespace aspen::testing {
namespace {

using nlohmann::json;

struct Result {
  int code = 0;
  std::string text;  // of both outputs
};

Result call(const std::string& command) {
  Result result;
  FILE* pipe = ::popen(("(" + command + ") 2>&1").c_str(), "r");
  std::array<char, 4096> piece;
  while (const std::size_t size = ::fread(piece.data(), 1, piece.size(), pipe)) result.text.append(piece.data(), size);
  result.code = WEXITSTATUS(::pclose(pipe));
  return result;
}

Result monitor(const std::string& arguments) { return call(std::string(GC_MONITOR) + " " + arguments); }
Result info(const std::string& arguments) { return call(std::string(GC_INFO) + " " + arguments); }

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

// Every line of a table is as long as its rule.
void expect_aligned(const std::string& text) {
  std::size_t width = 0;
  for (const std::string& line : lines(text)) {
    if (line.starts_with("+") && line.find_first_not_of("+-") == std::string::npos) {
      const bool is_title = std::count(line.begin(), line.end(), '+') == 2;
      if (is_title) width = line.size();
    }
    EXPECT_EQ(line.size(), width) << text;
  }
}

class GcMonitor : public ::testing::Test {
 protected:
  void SetUp() override {
    use_own_ipus();
    std::filesystem::remove_all(ipu_folder_path());
  }
};

// On a pair of IPUs, of which the first computes all the time.
void attach_and_wait(const ChildProcess::Wait& wait) {
  const auto lease = DeviceLease::take(64 + 2, nullptr);
  Registration registration("net", 64 + 2, {{.memory = 3 << 20}, {.memory = 1500, .host_memory = 9}});
  BusyClock(registration.busy(0)).begin(BusyClock::Clock::now());
  wait();
}

TEST_F(GcMonitor, ShowsIpusAndProcesses) {
  const ChildProcess child(attach_and_wait);
  const auto lease = DeviceLease::take(9, nullptr);  // of a program that compiles
  const Result result = monitor("");
  EXPECT_EQ(result.code, 0);
  expect_aligned(result.text);
  EXPECT_NE(result.text.find("gc-monitor: 64 virtual IPUs on "), std::string::npos) << result.text;
  EXPECT_NE(result.text.find(", 2 in use"), std::string::npos) << result.text;
  const auto all = lines(result.text);
  const auto has = [&](const std::string& text) {
    return std::count_if(all.begin(), all.end(), [&](const std::string& line) { return line.find(text) != line.npos; });
  };
  for (const char* row :
       {"|  0-3  |   free   |           |         |             |",
        "|   4   | attached |     1     | 3.0 MiB |       100 % |",
        "|   5   | attached |     1     | 1.5 KiB |         0 % |", "|  6-8  |   free   |", "|   9   | reserved |",
        "| 10-63 |   free   |", " PID ", " Command ", "| Time |", "| User |", "| ID | Memory  | Utilisation |"}) {
    EXPECT_GT(has(row), 0) << row << "\n" << result.text;
  }
  EXPECT_EQ(has(fmt::format("| {} | monitor_tests", child.pid())), 2) << result.text;
  EXPECT_EQ(has("|  4 | 3.0 MiB |       100 % |"), 1) << result.text;
}

TEST_F(GcMonitor, SaysSoIfNobodyIsAttached) {
  const Result result = monitor("");
  EXPECT_EQ(result.code, 0);
  expect_aligned(result.text);
  EXPECT_NE(result.text.find("| 0-63 | free  |"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("No attached processes"), std::string::npos) << result.text;
}

TEST_F(GcMonitor, SpeaksJson) {
  const ChildProcess child(attach_and_wait);
  const Result result = monitor("--json");
  EXPECT_EQ(lines(result.text).size(), 1);
  const json report = json::parse(result.text);
  ASSERT_EQ(report["ipus"].size(), 64);
  EXPECT_EQ(report["ipus"][3], json::parse(R"({"id": 3, "state": "free", "pids": [], "memory_bytes": 0,
                                               "utilisation": 0.0})"));
  EXPECT_EQ(report["ipus"][4]["state"], "attached");
  EXPECT_EQ(report["ipus"][4]["pids"], json({child.pid()}));
  ASSERT_EQ(report["executors"].size(), 1);
  const json& executor = report["executors"][0];
  EXPECT_EQ(executor["pid"], child.pid());
  EXPECT_EQ(executor["model"], "net");
  EXPECT_EQ(executor["device"], 66);
  EXPECT_EQ(executor["user"], user_name(geteuid()));
  EXPECT_EQ(executor["ipus"][0]["utilisation"], 1.0);
  EXPECT_EQ(executor["ipus"][1], json::parse(R"({"id": 5, "memory_bytes": 1500, "host_memory_bytes": 9,
                                                 "utilisation": 0.0})"));
  EXPECT_TRUE(report["passed_by"].empty());
}

TEST_F(GcMonitor, WatchesUntilItIsEnded) {
  const Result result = call(fmt::format("timeout 2 {} --watch 0.1 --json", GC_MONITOR));
  EXPECT_GE(lines(result.text).size(), 3);
  for (const std::string& line : lines(result.text)) EXPECT_EQ(json::parse(line)["ipus"].size(), 64);
  const Result tables = call(fmt::format("timeout 2 {} --watch", GC_MONITOR));
  EXPECT_NE(tables.text.find("No attached processes"), std::string::npos);
  EXPECT_EQ(tables.text.find('\x1b'), std::string::npos) << "not on a terminal";
}

TEST_F(GcMonitor, SaysWhichFilesItPassesBy) {
  const ChildProcess child([](const ChildProcess::Wait& wait) {
    const Registration registration("", {}, {{}});
    const auto file = *std::filesystem::directory_iterator(ipu_folder_path());
    std::filesystem::resize_file(file, 700);  // keeps its lock
    wait();
  });
  EXPECT_NE(monitor("").text.find(fmt::format("not shown: {}-", child.pid())), std::string::npos);
}

TEST_F(GcMonitor, HelpsAndRefusesWhatItDoesNotKnow) {
  EXPECT_EQ(monitor("--help").code, 0);
  for (const char* word : {"usage: gc-monitor", "--watch", "--json", "ASPEN_IPU_LOCK"}) {
    EXPECT_NE(monitor("-h").text.find(word), std::string::npos) << word;
  }
  const auto expect_error = [](const Result& result, const std::string& text) {
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.text, text + "\n");
  };
  expect_error(monitor("--jsn"), "gc-monitor: there is no option \"--jsn\"; see gc-monitor --help.");
  expect_error(monitor("7"), "gc-monitor: there is no option \"7\"; see gc-monitor --help.");
  for (const char* word : {"soon", "0", "-1", "1e9", "nan", "1s"}) {
    expect_error(monitor(fmt::format("--watch {}", word)),
                 fmt::format("gc-monitor: --watch takes a number of seconds from 0.1 to 3600, not \"{}\".", word));
  }
  expect_error(info("-l --all"), "gc-info: there is no option \"--all\"; see gc-info --help.");
  expect_error(info("--json"), "gc-info: --json goes with -l; see gc-info --help.");
  expect_error(monitor(">/dev/full"), "gc-monitor: the report cannot be written.");
}

TEST_F(GcMonitor, APlaceThatCannotBeReadIsAnError) {
  const Result result = call(fmt::format("ASPEN_IPU_LOCK=/dev/null/x {}", GC_MONITOR));
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.text.find("gc-monitor: /dev/null/x.attached, which says who is attached, cannot be read"),
            std::string::npos)
      << result.text;
}

TEST_F(GcMonitor, InfoListsDevices) {
  const ChildProcess child(attach_and_wait);
  const Result result = info("-l");
  const auto all = lines(result.text);
  ASSERT_EQ(all.size(), 127);
  EXPECT_EQ(all[0], "Id: [  0], type: [Single IPU], IPUs: [0], state: [free]");
  EXPECT_EQ(all[66],
            fmt::format("Id: [ 66], type: [Multi IPU], IPUs: [4-5], state: [attached], processes: [{}]", child.pid()));
  EXPECT_EQ(all[67], "Id: [ 67], type: [Multi IPU], IPUs: [6-7], state: [free]");
  const json list = json::parse(info("--list-devices --json").text);
  ASSERT_EQ(list.size(), 127);
  EXPECT_EQ(list[126],
            (json{{"id", 126}, {"first_ipu", 0}, {"ipus", 64}, {"state", "attached"}, {"pids", {child.pid()}}}));
  EXPECT_EQ(info("").code, 2);
  EXPECT_EQ(info("").text, info("--help").text);
}

// -- the report ------------------------------------------------------------------------------------------------------
Attachments made_up(std::string command) {
  Attachments result{.time = BusyClock::Clock::now()};
  result.executors.push_back(
      {.key = "a", .pid = 12, .command = std::move(command), .seconds = 3700, .ipus = {{.ipu = 2, .memory = 1023}}});
  return result;
}

TEST(MonitorReport, ShortensCommandsForTheTerminal) {
  const auto attached = made_up("/usr/bin/python3 /home/somebody/train.py --data " + std::string(100, 'x'));
  const std::string wide = text_report(attached, attached, 1000), narrow = text_report(attached, attached, 80);
  EXPECT_NE(wide.find("| python3 /home/somebody/train.py --data xxx"), std::string::npos) << wide;
  EXPECT_NE(wide.find("| 1h01m |"), std::string::npos) << wide;
  EXPECT_NE(wide.find("| 1023 B |"), std::string::npos) << wide;
  for (const std::string& line : lines(narrow)) EXPECT_LE(line.size(), 80);
  EXPECT_NE(narrow.find("| python3 /home"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("... |"), std::string::npos) << narrow;
  EXPECT_NE(text_report(attached, attached, 10).find("| python3 /... |"), std::string::npos);
  for (const std::string& text : {wide, narrow}) expect_aligned(text);
}

TEST(MonitorReport, DoesNotLetOthersWriteToTheTerminal) {
  const auto attached = made_up("evil\x1b[2J\n\xff");
  EXPECT_NE(text_report(attached, attached, 200).find("| evil?[2J?? "), std::string::npos);
  const json report = json::parse(json_report(attached, attached));
  EXPECT_EQ(report["executors"][0]["command"], "evil\x1b[2J\n\xef\xbf\xbd");
}

TEST(MonitorReport, TablesWidenForTheirTitle) {
  EXPECT_EQ(draw_table("a long title", {{"x"}, {"y", Align::kRight}}, {{"1", "2"}}),
            "+--------------+\n"
            "| a long title |\n"
            "+---+----------+\n"
            "| x |    y     |\n"
            "+---+----------+\n"
            "| 1 |        2 |\n"
            "+---+----------+\n");
}

}  // namespace
}  // namespace aspen::testing
