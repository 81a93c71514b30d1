// Arguments of an example: pairs of an option and its value.
#pragma once

#include <map>
#include <stdexcept>
#include <string>

// options: the ones there are, with their defaults. An unknown one is an error that lists them.
inline std::map<std::string, std::string> read_arguments(int argc, char** argv,
                                                         std::map<std::string, std::string> options) {
  for (int i = 1; i < argc; i += 2) {
    const auto found = options.find(argv[i]);
    if (found == options.end() || i + 1 == argc) {
      std::string known;
      for (const auto& [name, value] : options) known += " " + name;
      throw std::runtime_error(std::string("cannot read ") + argv[i] + "; options, each with a value, are" + known);
    }
    found->second = argv[i + 1];
  }
  return options;
}
