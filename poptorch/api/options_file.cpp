// Options::loadFromFile: a file of setters, one per line, as a C++ program reads it.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "poptorch/api/literal.h"
#include "poptorch/api/option_setters.h"
#include "poptorch/error.h"
#include "poptorch/options.h"

namespace poptorch {
namespace {

std::string trimmed(const std::string& line) {
  constexpr const char* kSpace = " \t\r\n";
  const auto first = line.find_first_not_of(kSpace);
  return first == std::string::npos ? "" : line.substr(first, line.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string> statements_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("[loadFromFile] there is no file \"{}\" that can be read.", path));
  std::vector<std::string> statements;
  for (std::string line; std::getline(file, line);) {
    const std::string statement = trimmed(line);
    if (!statement.empty() && statement[0] != '#') statements.push_back(statement);
  }
  return statements;
}

// One argument per parameter, as far as they are given.
OptionList in_order(const Setter& setter, const Call& call) {
  OptionList arguments = call.arguments;
  std::size_t used = 0;
  for (std::size_t i = arguments.size(); i < setter.parameters.size() && used < call.named.size(); ++i) {
    const SetterParameter& parameter = setter.parameters[i];
    const auto found = call.named.find(parameter.name);
    if (found == call.named.end() && !parameter.standard) break;
    arguments.push_back(found == call.named.end() ? *parameter.standard : found->second);
    used += found == call.named.end() ? 0 : 1;
  }
  if (used < call.named.size()) {
    throw ArgumentError(fmt::format("[{}] has no argument {} at this place", setter.name, call.named.begin()->first));
  }
  return arguments;
}

void apply(OptionStore& store, const std::string& group, const Call& call);

// TensorLocationSettings().useOnChipStorage(false): its entries. Anything else is left as it is.
OptionValue made(const OptionValue& argument) {
  const CallChain* chain = made_in_place(argument);
  if (chain == nullptr || chain->front().name != kLocationSettings) return argument;
  OptionStore settings;
  for (std::size_t i = 1; i < chain->size(); ++i) apply(settings, kLocationSettings, (*chain)[i]);
  LocationEntries entries;
  for (const auto& [key, value] : settings.group(kLocationSettings)) entries.entries[key] = value.integer();
  return entries;
}

void apply(OptionStore& store, const std::string& group, const Call& call) {
  Call ready = call;
  for (OptionValue& argument : ready.arguments) argument = made(argument);
  for (auto& [name, argument] : ready.named) argument = made(argument);
  const Setter* setter = find_setter(group, call.name);
  store.apply(group, call.name, setter == nullptr ? ready.arguments : in_order(*setter, ready));
}

ExecutionStrategy strategy_of(const Call& call) {
  const CallChain* chain = call.arguments.size() == 1 ? made_in_place(call.arguments[0]) : nullptr;
  const std::string name = chain == nullptr ? "" : chain->front().name;
  const bool is_pipelined = name == "PipelinedExecution";
  if (!is_pipelined && name != "ShardedExecution") {
    throw ArgumentError("[setExecutionStrategy] expected PipelinedExecution(...) or ShardedExecution(...)");
  }
  const OptionList& arguments = chain->front().arguments;
  if (arguments.empty() || arguments[0].as<EnumMember>() != nullptr) {
    const auto rule = static_cast<AutoStage>(arguments.empty() ? 0 : arguments[0].integer());
    if (is_pipelined) return PipelinedExecution(rule);
    return ShardedExecution(rule);
  }
  std::vector<Stage> stages;
  for (const OptionValue& argument : arguments) {
    const auto* block = argument.as<std::string>();
    if (block == nullptr) throw ArgumentError("[setExecutionStrategy] in a file, each stage is the name of one block");
    stages.emplace_back(block->c_str());
  }
  if (is_pipelined) return PipelinedExecution(stages);
  return ShardedExecution(stages);
}

}  // namespace

Options& Options::loadFromFile(const std::string& path) {
  std::vector<Call> calls;  // all are read before any is applied: a file with a typing error changes nothing
  for (const std::string& statement : statements_of(path)) {
    try {
      calls.push_back(parse_statement(statement));
    } catch (const LiteralError& error) {
      throw ConfigFileError(fmt::format("SyntaxError at line {} of {}: {}\n> options.{}", calls.size() + 1,
                                        std::filesystem::path(path).filename().string(), error.what(), statement));
    }
  }
  for (Call& call : calls) {
    if (call.name == "setExecutionStrategy") {
      setExecutionStrategy(strategy_of(call));
      continue;
    }
    const auto dot = call.name.find('.');
    const std::string group = dot == std::string::npos ? kGeneral : call.name.substr(0, dot);
    if (dot != std::string::npos) call.name = call.name.substr(dot + 1);
    apply(*store_, group == "Popart" ? kPopart : group, call);
  }
  return *this;
}

}  // namespace poptorch
