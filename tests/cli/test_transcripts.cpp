#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/sanitizer.hpp"
#include "tests/support/process.hpp"
#include "train/commands/command_line.hpp"

// Runs the commands of tests/cli/*.txt and the examples of the user guide, and compares their
// output with the lines below them. README.md in this folder describes the format.
namespace tapestry {
namespace {

const fs::path source_folder = paths::source;

// A command with its expected output: lines [first, last) of the file.
struct Step {
  std::string command{};
  std::size_t first = 0, last = 0;
  Strings expected{};
  int status = 0;
};

// "[2]": the exit status; 0 without such a line.
bool is_status(const std::string& line) {
  return line.size() >= 3 && line.front() == '[' && line.back() == ']' &&
         line.find_first_not_of("0123456789", 1) == line.size() - 1;
}

// Returns the commands of the lines [begin, end): "$ COMMAND", then its output.
std::vector<Step> steps_of(const Strings& lines, std::size_t begin, std::size_t end) {
  std::vector<Step> steps;
  for (std::size_t i = begin; i < end; ++i) {
    const std::string& line = lines[i];
    if (line.starts_with("$ ")) {
      steps.push_back({.command = line.substr(2), .first = i + 1, .last = i + 1});
    } else if (steps.empty() || line.empty() || line.starts_with("# ")) {
      continue;
    } else {
      steps.back().last = i + 1;
      if (is_status(line))
        steps.back().status = std::stoi(line.substr(1));
      else
        steps.back().expected.push_back(line);
    }
  }
  return steps;
}

constexpr std::string_view any_text = "…", any_number = "<number>";

// Returns the length of the number at the beginning of `text`: "12", "0.25", "1e-05", "2:10".
std::size_t number_length(std::string_view text) {
  std::size_t length = 0;
  const auto digit = [&](std::size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));
  };
  while (digit(length)) ++length;
  if (length == 0) return 0;
  while (length + 1 < text.size() && (text[length] == '.' || text[length] == ':') &&
         digit(length + 1))
    for (++length; digit(length);) ++length;
  if (length + 2 < text.size() && text[length] == 'e' && !digit(length + 1) && digit(length + 2))
    for (length += 2; digit(length);) ++length;
  return length;
}

// Returns whether a line of output is the expected one. `loosely`: any number matches any other.
bool matches(std::string_view expected, std::string_view line, bool loosely) {
  if (expected.empty()) return line.empty();
  if (expected.starts_with(any_text)) {
    for (std::size_t i = 0; i <= line.size(); ++i)
      if (matches(expected.substr(any_text.size()), line.substr(i), loosely)) return true;
    return false;
  }
  const std::size_t wildcard = expected.starts_with(any_number) ? any_number.size()
                               : loosely                        ? number_length(expected)
                                                                : 0;
  if (wildcard > 0) {
    const std::size_t number = number_length(line);
    return number > 0 && matches(expected.substr(wildcard), line.substr(number), loosely);
  }
  return !line.empty() && expected[0] == line[0] &&
         matches(expected.substr(1), line.substr(1), loosely);
}

// Returns the same for all lines; a line "…" matches any number of lines.
bool matches(std::span<const std::string> expected, std::span<const std::string> lines,
             bool loosely) {
  if (expected.empty()) return lines.empty();
  if (expected[0] == any_text) {
    for (std::size_t i = 0; i <= lines.size(); ++i)
      if (matches(expected.subspan(1), lines.subspan(i), loosely)) return true;
    return false;
  }
  return !lines.empty() && matches(expected[0], lines[0], loosely) &&
         matches(expected.subspan(1), lines.subspan(1), loosely);
}

TEST_SUITE_BEGIN("transcripts");

TEST_CASE("transcripts: wildcards match text, numbers and lines") {
  using Lines = Strings;
  CHECK(matches("loss <number> at step 2", "loss 1.5e-05 at step 2", false));
  CHECK_FALSE(matches("loss <number> at step 2", "loss 1.5e-05 at step 3", false));
  CHECK(matches("loss 3.1 at step 2", "loss 1.5e-05 at step 30", true));
  CHECK_FALSE(matches("loss 3.1", "loss nan", true));
  CHECK(matches("a … c", "a b b c", false));
  CHECK_FALSE(matches("a … c", "a b b d", false));
  CHECK(matches(Lines{"a", "…", "d"}, Lines{"a", "b", "c", "d"}, false));
  CHECK(matches(Lines{"a", "…"}, Lines{"a"}, false));
  CHECK_FALSE(matches(Lines{"a", "…", "d"}, Lines{"a", "b", "c"}, false));
  CHECK_FALSE(matches(Lines{"a"}, Lines{"a", "b"}, false));
}

// Whether `train` printed a line only because seconds had passed: "step 20/20  loss 1.7  362
// examples/s  0:00 left".
bool is_timed(const std::string& line) {
  return line.starts_with("step ") && line.ends_with(" left");
}

struct Output {
  int status = 0;
  Strings lines{};  // without empty lines and those that a slow machine adds
};

// How the steps of a file are compared and run.
struct Mode {
  bool loosely = false;   // any number matches any other
  std::string prelude{};  // of the shell, before each command
};

// Runs a command as a shell in `folder`, where `tapestry` is the program under test.
Output output_of(const std::string& command, const std::string& folder, const Mode& mode) {
  const std::string path = fs::path(paths::program).parent_path().string();
  const Finished finished = run_program(
      {"/bin/sh", "-c",
       fmt::format("exec 2>&1; PATH='{}':\"$PATH\"; {}{}", path, mode.prelude, command)},
      {.folder = folder});
  Output output{.status = finished.status};
  for (std::string& line : lines_of(finished.out))
    if (!line.empty() && !is_timed(line)) output.lines.push_back(std::move(line));
  return output;
}

// Runs the steps one after the other in a folder. Returns the lines of the file with the expected
// output replaced by the output of each step that differs.
Strings run_steps(const std::string& file, Strings lines, const std::vector<Step>& steps,
                  const TemporaryFolder& folder, const Mode& mode = {}) {
  Strings updated;
  std::size_t copied = 0;
  for (const Step& step : steps) {
    const Output output = output_of(step.command, folder.path(), mode);
    const bool as_expected =
        output.status == step.status &&
        matches(std::span<const std::string>(step.expected), output.lines, mode.loosely);
    CHECK_MESSAGE(as_expected, fmt::format("{}:{}: $ {}\n{}\n[{}]", file, step.first, step.command,
                                           fmt::join(output.lines, "\n"), output.status));
    updated.insert(updated.end(), lines.begin() + copied, lines.begin() + step.first);
    copied = step.first;
    if (as_expected) continue;
    updated.insert(updated.end(), output.lines.begin(), output.lines.end());
    if (output.status != 0) updated.push_back(fmt::format("[{}]", output.status));
    copied = step.last;
  }
  updated.insert(updated.end(), lines.begin() + copied, lines.end());
  return updated;
}

TEST_CASE("bug: a transcript failed if training took more than five seconds") {
  CHECK(is_timed("step 20/20  loss 1.6685  362 examples/s  0:00 left"));
  CHECK_FALSE(is_timed("step 20/20  validation: loss 1.6521  exact_match 0.001"));
}

TEST_CASE("transcripts: commands print what tests/cli/*.txt says" *
          doctest::skip(*paths::emulator != '\0')) {
  std::size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(source_folder / "tests/cli")) {
    if (entry.path().extension() != ".txt") continue;
    ++files;
    const std::string name = entry.path().filename().string();
    const Strings lines = lines_of(read_bytes(entry.path().string()));
    const std::vector<Step> steps = steps_of(lines, 0, lines.size());
    CHECK_MESSAGE(!steps.empty(), name);
    const Strings updated = run_steps(name, lines, steps, TemporaryFolder());
    if (std::getenv("TAPESTRY_UPDATE_TRANSCRIPTS") != nullptr && updated != lines)
      std::ofstream(entry.path()) << fmt::format("{}\n", fmt::join(updated, "\n"));
  }
  CHECK(files > 0);
}

// A block of code in a page of Markdown: lines [begin, end) of the file.
struct Block {
  std::string language{};
  std::size_t begin = 0, end = 0;
};

std::vector<Block> blocks_of(const Strings& lines) {
  std::vector<Block> blocks;
  bool inside = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].starts_with("```")) continue;
    if (inside)
      blocks.back().end = i;
    else
      blocks.push_back({.language = lines[i].substr(3), .begin = i + 1});
    inside = !inside;
  }
  return blocks;
}

std::vector<fs::path> pages() {
  std::vector<fs::path> pages = {source_folder / "README.md"};
  for (const char* folder : {"autograd", "layers", "optim", "data", "train", "tests"})
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(source_folder / folder))
      if (entry.path().extension() == ".md") pages.push_back(entry.path());
  return pages;
}

bool is_of_course(const fs::path& page) { return page.parent_path().filename() == "learn"; }

TEST_CASE("transcripts: the user guide's examples print what they show" *
          doctest::skip(*paths::emulator != '\0' || TAPESTRY_ADDRESS_SANITIZER)) {
  std::size_t examples = 0;
  for (const fs::path& page : pages()) {
    if (is_of_course(page)) continue;
    const Strings lines = lines_of(read_bytes(page.string()));
    for (const Block& block : blocks_of(lines)) {
      if (block.language != "console") continue;
      ++examples;
      run_steps(fs::relative(page, source_folder).string(), lines,
                steps_of(lines, block.begin, block.end), TemporaryFolder(), {.loosely = true});
    }
  }
  CHECK(examples >= 4);
}

// The commands of a page of the course run in one folder. Trainings end after 20 steps, and what
// depends on their length stands in blocks of the language `text`; with TAPESTRY_COURSE=whole they
// have all steps, and these blocks run as well, where names.txt and tinyshakespeare.txt are those
// of TAPESTRY_DATA.
TEST_CASE("transcripts: the pages of the course print what they show" *
          doctest::skip(*paths::emulator != '\0' || TAPESTRY_ADDRESS_SANITIZER)) {
  const char* const course = std::getenv("TAPESTRY_COURSE");
  const bool is_whole = course != nullptr && std::string_view(course) == "whole";
  const char* const data = std::getenv("TAPESTRY_DATA");
  const std::string cut =
      "tapestry() { if [ \"$1\" = train ]; then command tapestry \"$@\" --set train.steps=20; "
      "else command tapestry \"$@\"; fi; }; ";
  const Mode mode{.loosely = true, .prelude = is_whole ? "" : cut};
  std::size_t commands = 0;
  for (const fs::path& page : pages()) {
    if (!is_of_course(page)) continue;
    const Strings lines = lines_of(read_bytes(page.string()));
    const TemporaryFolder folder;
    if (data != nullptr)
      for (const fs::directory_entry& file : fs::directory_iterator(data))
        fs::create_symlink(file.path(), folder.path(file.path().filename().string()));
    for (const Block& block : blocks_of(lines)) {
      if (block.language != "console" && !(is_whole && block.language == "text")) continue;
      const std::vector<Step> steps = steps_of(lines, block.begin, block.end);
      run_steps(fs::relative(page, source_folder).string(), lines, steps, folder, mode);
      commands += steps.size();
    }
  }
  CHECK(commands > 10);
}

// Splits a line at spaces as a shell does, up to a comment, a pipe or the next command.
Strings shell_words(const std::string& line) {
  Strings words;
  std::string word;
  bool begun = false;
  char quote = '\0';
  for (const char c : line) {
    if (quote != '\0') {
      if (c == quote)
        quote = '\0';
      else
        word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      begun = true;
    } else if (c == ' ') {
      if (begun) words.push_back(std::exchange(word, ""));
      begun = false;
    } else if (c == '|' || c == ';' || c == '>' || c == '<' || c == '&' || (c == '#' && !begun)) {
      if (c == '>' && word == "2") begun = false;  // 2>FILE
      break;
    } else {
      word += c;
      begun = true;
    }
  }
  if (begun) words.push_back(word);
  return words;
}

TEST_CASE("transcripts: the parser accepts every command that a page shows") {
  std::size_t commands = 0;
  for (const fs::path& page : pages()) {
    const Strings lines = lines_of(read_bytes(page.string()));
    for (const Block& block : blocks_of(lines)) {
      for (std::size_t i = block.begin; i < block.end; ++i) {
        const bool prompt = lines[i].starts_with("$ ");
        if (block.language != "sh" && !prompt) continue;
        const std::size_t first = i;
        std::string line = lines[i].substr(prompt ? 2 : 0);
        while (line.ends_with('\\') && i + 1 < block.end) {
          line.pop_back();
          line += lines[++i];
        }
        Strings words = shell_words(line);
        if (words.size() < 2 || (words[0] != "tapestry" && words[0] != "./tapestry")) continue;
        if (words[1] == "test") continue;  // of the launcher
        ++commands;
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        const std::string problem = message_of(
            [&] { parse_command_line(static_cast<int>(arguments.size()), arguments.data()); });
        CHECK_MESSAGE(problem.empty(), fs::relative(page, source_folder).string(), ":", first + 1,
                      ": ", line, ": ", problem);
      }
    }
  }
  CHECK(commands > 50);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
