#include "train/run/session.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>

#include <ctime>
#include <deque>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "autograd/buffer_pool.hpp"
#include "autograd/parallel.hpp"
#include "data/file.hpp"
#include "train/run/file.hpp"
#include "train/run/line_reader.hpp"
#include "train/run/version.hpp"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_sessions = 1000;
constexpr std::size_t most_words_bytes =
    4000;  // bytes of a command or a failure, which one line holds

std::string now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

// This process's words, as Linux keeps them: each ends in a zero byte.
std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  std::size_t bytes = 0;
  for (std::string word; std::getline(file, word, '\0') && bytes < most_words_bytes;
       bytes += word.size())
    words.push_back(word.substr(0, most_words_bytes - bytes));
  return words;
}

// Whether a process was killed in the middle of its line.
bool ends_in_a_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() == 0) return true;
  file.seekg(-1, std::ios::end);
  return file.get() == '\n';
}

void append(const Run& run, const Json& line) {
  const std::string before = ends_in_a_line(run.sessions()) ? "" : "\n";
  File file(run.sessions(), O_WRONLY | O_CREAT | O_APPEND);
  file.write(before + line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  file.sync();
  file.close();
}

// Numbers by get_ref, which refuses those that are no integers.
Session begun(const Json& line) {
  return {.began = line.at("began").get<std::string>(),
          .from_step = line.at("from_step").get_ref<const std::int64_t&>(),
          .version = line.at("version").get<std::string>(),
          .engines = line.at("engines").get<std::string>(),
          .processor = line.at("processor").get<std::string>(),
          .threads = line.at("threads").get_ref<const std::int64_t&>(),
          .ranks = line.at("ranks").get_ref<const std::int64_t&>(),
          .command = line.at("command").get<std::vector<std::string>>(),
          .examples = line.value("examples", std::int64_t{0}),
          .data = line.value("data", "")};
}

}  // namespace

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(':') != std::string::npos)
      return std::string(trimmed(std::string_view(line).substr(line.find(':') + 1)));
  return "unknown";
}

void note_begin(const Run& run, const TrainingState& from, std::int64_t ranks) {
  append(run, {{"began", now()},
               {"from_step", from.step},
               {"version", version()},
               {"engines", engines()},
               {"processor", processor()},
               {"threads", num_threads()},
               {"ranks", ranks},
               {"examples", from.examples},
               {"data", from.data},
               {"command", own_command()}});
}

void note_end(const Run& run, std::int64_t step, const std::string& how) {
  append(run, {{"ended", now()},
               {"step", step},
               {"how", how.substr(0, most_words_bytes)},
               {"tensor_bytes", memory_use().peak_bytes_in_use}});
}

std::vector<Session> read_sessions(const Run& run) {
  std::deque<Session> sessions;
  for (LineReader line(run.sessions()); line.next();) try {
      const Json read = Json::parse(line.text());
      if (read.contains("began")) sessions.push_back(begun(read));
      if (read.contains("ended") && !sessions.empty())
        sessions.back().end = {.at = read.at("ended").get<std::string>(),
                               .how = read.at("how").get<std::string>(),
                               .step = read.at("step").get_ref<const std::int64_t&>(),
                               .tensor_bytes = read.value("tensor_bytes", std::int64_t{0})};
      if (sessions.size() > most_sessions) sessions.pop_front();
    } catch (const Json::exception&) {
      continue;
    }
  return {std::make_move_iterator(sessions.begin()), std::make_move_iterator(sessions.end())};
}

}  // namespace tapestry
