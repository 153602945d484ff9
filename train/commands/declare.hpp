#pragma once

#include <string>

#include "train/commands/command.hpp"

namespace tapestry {

// Adds a command with its arguments to the program's: "tokenizer train" as train of the group
// tokenizer. Returns where it stands.
CLI::App& declare(CLI::App& app, const std::string& name, Command& command);

}  // namespace tapestry
