#include <stdexcept>

#include "tests/fuzz/target.hpp"
#include "train/commands/command_line.hpp"
#include "train/task_spec.hpp"

// Fuzzes configs and the command line.
namespace tapestry {
namespace {

// A config's text and, after a zero byte each, values of --set. The resolved config must resolve to
// itself.
const RegisterFuzzTarget config("config", [](std::string_view bytes) {
  const std::vector<std::string_view> parts = cut_at_zeros(bytes);
  const Config resolved =
      parse_config(std::string(parts.front()), "config.toml", {parts.begin() + 1, parts.end()});
  resolved.explain();
  const std::string written = resolved.toml();
  if (parse_config(written, "written", {}).toml() != written)
    throw std::logic_error("config: another config came back");
});

// The words after "tapestry", separated by zero bytes. Commands are parsed, but not run.
const RegisterFuzzTarget command_line("command-line", [](std::string_view bytes) {
  std::vector<std::string> words = {"tapestry"};
  for (const std::string_view word : cut_at_zeros(bytes)) words.emplace_back(word);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  parse_command_line(static_cast<int>(words.size()), pointers.data());
});

}  // namespace
}  // namespace tapestry
