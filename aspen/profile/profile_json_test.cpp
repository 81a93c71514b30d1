#include "aspen/profile/profile_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "aspen/base/error.h"
#include "tests/support/folder.h"

namespace aspen::profile {
namespace {

using Json = nlohmann::ordered_json;

// One of everything, with values that differ from the defaults.
Profile one_of_everything() {
  Profile profile;
  profile.run = {.model = "training",
                 .aspen = "0.1.0",
                 .created = "2024-05-01T12:00:00Z",
                 .backend = "cpu",
                 .execution = "pipelined",
                 .training = true,
                 .complete = true,
                 .replicas = 2,
                 .gradient_accumulation = 4,
                 .device_iterations = 3,
                 .micro_batch_size = 16,
                 .options = {{"replicationFactor", "2"}}};
  profile.machine = {.processor = "some", .num_cpus = 8, .thread = {1e10, 2e10}, .all = {8e10, 9e10}};
  profile.compilation = {{"capture", 12}, {"passes", 34}, {"passes/differentiate", 5}};
  profile.from_cache = true;
  profile.workers = {{.replica = 1, .device = 1, .crew = 1, .num_threads = 2}};
  profile.tasks = {{.name = "forward of stage 1",
                    .section = Section::kUpdate,
                    .device = 1,
                    .stage = 1,
                    .phase = 1,
                    .first_op = 1,
                    .num_ops = 1}};
  profile.waits = {{.task = 0, .on = 0, .lag = 2, .in_all_replicas = true}};
  profile.ops = {{.name = "dot"},
                 {.name = "add, relu",
                  .module = "layer1/0",
                  .source = "model.py:42",
                  .text = "x",
                  .kernel = "onednn",
                  .pass = Pass::kRecompute,
                  .task = 0,
                  .num_parts = 2,
                  .calls_host = true,
                  .is_copy = true,
                  .flops = 1.5,
                  .bytes_read = 6,
                  .bytes_written = 7,
                  .calls = 8,
                  .duration = 9,
                  .shortest = 1,
                  .longest = 5}};
  profile.calls = {{.begin = 1, .duration = 100, .loading = 3, .samples = 128}};
  profile.trace.blocks = {{.worker = 0,
                           .call = 0,
                           .kind = BlockKind::kExchange,
                           .task = 0,
                           .micro_batch = 3,
                           .begin = 10,
                           .duration = 20,
                           .first_op = 1,
                           .num_ops = 1,
                           .op_durations = 1}};
  profile.trace.op_durations = {5, 18};
  profile.trace.host = {{.track = "data", .name = "load", .begin = 1, .duration = 2}};
  profile.memory.budget = 1 << 20;
  profile.memory.regions = {{.name = "scratch", .device = 1, .on_host = true, .offset = 64, .bytes = 128}};
  profile.memory.buffers = {{.name = "fc1.weight",
                             .module = "fc1",
                             .kind = BufferKind::kStash,
                             .device = 1,
                             .on_host = true,
                             .op = 1,
                             .offset = 64,
                             .bytes = 32,
                             .copies = 2,
                             .stride = 64,
                             .first = 0,
                             .last = 1}};
  profile.analysis = {
      .calls = 1,
      .call_duration = 100,
      .iteration = 33,
      .samples_per_second = 2.5,
      .flops_per_iteration = 3,
      .flops_per_second = 4,
      .share_of_peak = 0.5,
      .host_share = 0.25,
      .loading_share = 0.125,
      .ramp = 0.1,
      .bubble = 0.2,
      .workers = {{.worker = 0, .busy = 0.5, .transfer = 0.25, .ramp = 0.125, .bubble = 0.0625, .shared = 0.0625}},
      .stages = {{.stage = 1, .device = 1, .forward = 2, .backward = 3, .update = 4}},
      .memory = {{.device = 1, .reserved = 9, .always_live = 2, .peak = 3, .peak_op = 1, .reserved_host = 5}},
      .op_limits = {3, 4},
      .critical_path = {0},
      .advice = {{.topic = "memory",
                  .title = "a",
                  .why = "b",
                  .how = "c",
                  .confidence = Confidence::kHigh,
                  .gain = 0.5,
                  .saved_bytes = 7}}};
  return profile;
}

std::string error_of(const Json& json) {
  try {
    static_cast<void>(from_json(json.dump()));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ProfileJson, IsReadAsItWasWritten) {
  const std::string text = to_json(one_of_everything());
  EXPECT_EQ(to_json(from_json(text)), text);
  EXPECT_EQ(to_json(from_json(to_json(Profile{}))), to_json(Profile{}));
}

// docs/profile-format.md promises: tables are columns, enumerations words, and the first keys say what this is.
TEST(ProfileJson, TablesAreColumns) {
  const Json json = Json::parse(to_json(one_of_everything()));
  EXPECT_EQ(json.begin().key(), "format");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["ops"]["name"], Json::parse(R"(["dot", "add, relu"])"));
  EXPECT_EQ(json["trace"]["blocks"]["kind"], Json::parse(R"(["exchange"])"));
  EXPECT_EQ(json["trace"]["op_durations"], Json::parse("[5, 18]"));
  EXPECT_EQ(json["memory"]["buffers"]["kind"][0], "stash");
  EXPECT_EQ(Json::parse(to_json(Profile{}))["ops"]["name"], Json::array());
}

TEST(ProfileJson, NamesTheFieldThatIsWrong) {
  const Json good = Json::parse(to_json(one_of_everything()));
  Json json = good;
  json["ops"]["flops"][1] = "many";
  EXPECT_EQ(error_of(json), "[profile] ops.flops[1] is \"many\"; expected a number.");
  json = good;
  json["tasks"]["section"][0] = "never";
  EXPECT_EQ(error_of(json), "[profile] tasks.section[0] is \"never\"; expected one of \"step\", \"update\".");
  json = good;
  json["run"].erase("replicas");
  EXPECT_EQ(error_of(json), "[profile] run.replicas is missing.");
  json = good;
  json["ops"]["text"].push_back("one more");
  EXPECT_EQ(error_of(json), "[profile] ops.text has 3 rows; the columns before it have 2.");
  json = good;
  json["calls"] = 3;
  EXPECT_EQ(error_of(json), "[profile] calls is 3; expected an object of columns.");
}

TEST(ProfileJson, ChecksThatRowsExist) {
  const Json good = Json::parse(to_json(one_of_everything()));
  Json json = good;
  json["trace"]["blocks"]["worker"][0] = 1;
  EXPECT_EQ(error_of(json), "[profile] trace.blocks.worker[0] is 1, but there are 1 rows it could mean.");
  json = good;
  json["trace"]["blocks"]["op_durations"][0] = 2;
  EXPECT_EQ(error_of(json),
            "[profile] trace.blocks.op_durations[0]: 1 rows from 2 on do not lie within the 2 there are.");
  json = good;
  json["memory"]["buffers"]["copies"][0] = 0;
  EXPECT_EQ(error_of(json), "[profile] memory.buffers.copies[0] is 0; expected 1 to 1048576.");
  json = good;
  json["memory"]["buffers"]["last"][0] = -1;
  EXPECT_EQ(error_of(json),
            "[profile] memory.buffers.last[0] is -1, before its first, 0; expected both to be -1 or an op.");
}

TEST(ProfileJson, RefusesOtherFormatsAndNewerVersions) {
  Json json = Json::parse(to_json(one_of_everything()));
  json["version"] = 2;
  EXPECT_EQ(error_of(json),
            "[profile] version 2 of the format is newer than 1, the newest this program reads; use the version of "
            "Aspen that wrote it.");
  json["format"] = "other";
  EXPECT_EQ(error_of(json), "[profile] this is no profile: it does not begin with \"format\": \"aspen-profile\".");
  EXPECT_THROW(static_cast<void>(from_json("{\"format\": ")), UserError);
}

TEST(ProfileJson, ReadsPastFieldsItDoesNotKnow) {
  Json json = Json::parse(to_json(one_of_everything()));
  json["run"]["colour"] = "green";
  EXPECT_EQ(error_of(json), "accepted");
}

TEST(ProfileJson, ReplacesWhatIsNoText) {
  Profile profile;
  profile.run.model = "bad\xff";
  EXPECT_EQ(from_json(to_json(profile)).run.model, "bad\xef\xbf\xbd");
}

TEST(ProfileJson, ErrorsNameTheFile) {
  const testing::Folder folder;
  const auto file = folder.path / "profile.json";
  write_profile(file, one_of_everything());
  EXPECT_EQ(to_json(read_profile(file)), to_json(one_of_everything()));
  std::filesystem::resize_file(file, 100);
  try {
    static_cast<void>(read_profile(file));
    FAIL() << "a cut file was read";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("profile.json\""), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace aspen::profile
