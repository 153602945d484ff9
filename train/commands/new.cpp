#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/config/config.hpp"
#include "train/run/new_folder.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"

namespace tapestry {

// Returns the files of train/templates/, which are built into the library, by their paths there.
const std::map<std::string, std::string>& task_templates();

namespace {

constexpr std::string_view placeholder = "MY_TASK";  // for the name, in the templates

// Returns the tasks that have a template.
std::vector<std::string> templates() {
  std::vector<std::string> names;
  for (const auto& [path, text] : task_templates())
    if (path.ends_with(".cpp")) names.push_back(std::filesystem::path(path).stem());
  return names;
}

std::string with_name(std::string text, const std::string& name) {
  for (std::size_t at = 0; (at = text.find(placeholder, at)) != text.npos; at += name.size())
    text.replace(at, placeholder.size(), name);
  return text;
}

// Throws InputError unless the name can be that of a folder, of a task and of a target of CMake.
void expect_task_name(const std::string& name) {
  constexpr std::size_t longest = 60;
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
                             others = "0123456789_-";
  const auto is_letter = [&](char c) { return letters.find(c) != letters.npos; };
  expect_input(
      !name.empty() && is_letter(name.front()) && name.size() <= longest &&
          std::ranges::all_of(
              name, [&](char c) { return is_letter(c) || others.find(c) != others.npos; }),
      "{}: expected a name of at most {} letters, digits, '_' and '-' that begins with a letter",
      printable_beginning(name), longest);
  static const std::set<std::string> reserved{
      "ALL_BUILD",      "CMakeFiles", "INSTALL",
      "Makefile",       "PACKAGE",    "RUN_TESTS",
      "Testing",        "ZERO_CHECK", "all",
      "clean",          "depend",     "edit_cache",
      "help",           "install",    "package",
      "package_source", "preinstall", "rebuild_cache",
      "tapestry",       "test",       "list_install_components"};
  expect_input(!reserved.contains(name),
               "{}: CMake has a target, package or file of this name; give another name", name);
  expect_input(!task_registry().contains(name),
               "{0}: is a task of Tapestry; give another name, as in: {1} new my_{0} --from {0}",
               name, own_program());
  expect_input(!is_there(name), "{}: already exists; give another name", name);
}

class New final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("NAME", name_, "name of the task, its folder and its program");
    arguments.option(
        "--from", "TASK", [this](const std::string& text) { from_ = text; },
        fmt::format("the kind of task to begin with: one of {} (default: {})",
                    fmt::join(templates(), ", "), from_));
  }

  int run() override {
    const std::vector<std::string> known = templates();
    expect_input(std::ranges::count(known, from_) > 0, "--from {}: expected one of {}{}", from_,
                 fmt::join(known, ", "), did_you_mean(from_, known));
    expect_task_name(name_);
    NewFolder folder(name_);
    const auto write = [&](const std::string& path, const std::string& name) {
      folder.write(name, {with_name(task_templates().at(path), name_)});
    };
    write(from_ + ".cpp", name_ + ".cpp");
    write(from_ + ".toml", name_ + ".toml");
    for (const char* name : {"CMakeLists.txt", "README.md"})
      write(fmt::format("common/{}", name), name);
    folder.finish();
    say("{0}: a task, its config, CMakeLists.txt and README.md; next:\n"
        "cd {0} && cmake -B build && cmake --build build && build/{0} train {0}.toml\n",
        name_);
    return 0;
  }

 private:
  std::string name_, from_ = "points";
};

const RegisterCommand<New> new_command(
    "new", "write a folder with a task of your own: source, config, build and tests");

}  // namespace
}  // namespace tapestry
