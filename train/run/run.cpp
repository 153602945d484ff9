#include "train/run/run.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <ranges>
#include <set>

#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/lines.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace fs = std::filesystem;

std::string Run::default_folder(const std::string& name, bool resume) {
  expect_input(!name.starts_with(".") && name.find('/') == name.npos && is_printable(name),
               "{}: cannot be the name of a folder in runs/; give a folder with --out",
               printable(name));
  constexpr std::size_t most_bytes = 200;  // maximum size of a folder's name before its number
  expect_input(name.size() <= most_bytes,
               "{}: too long for the name of a folder; give a folder with --out",
               printable_beginning(name));
  const std::string base = "runs/" + name;
  std::string last = base, next = base;
  for (int number = 2; fs::exists(next); ++number) {
    last = next;
    next = fmt::format("{}-{}", base, number);
  }
  return resume ? last : next;
}

std::vector<std::string> seed_folders(const std::string& folder) {
  std::map<std::int64_t, std::string> seeds;
  if (!is_folder(folder) || is_there(Run(folder).metrics())) return {};
  for (const std::string& name : file_names(folder)) {
    const std::string path = (fs::path(folder) / name).string();
    const std::string number = name.starts_with("seed-") ? name.substr(5) : "";
    const bool is_number = !number.empty() && number.size() < 19 &&
                           number.find_first_not_of("0123456789") == std::string::npos &&
                           // The number has the form that --seeds writes.
                           (number[0] != '0' || number == "0");
    if (is_number && is_there(Run(path).metrics())) seeds[std::stoll(number)] = path;
  }
  std::vector<std::string> paths;
  for (const auto& [number, path] : seeds) paths.push_back(path);
  return paths;
}

std::vector<std::string> different_folders(const std::vector<std::string>& folders) {
  std::vector<std::string> different;
  std::set<fs::path> seen;
  std::error_code unseen;
  for (std::string folder : folders) {
    if (!seen.insert(fs::weakly_canonical(folder, unseen)).second) continue;
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    different.push_back(folder);
  }
  return different;
}

// Returns whether the lock is taken. A process that begins to train during this check is denied the
// lock.
bool is_trained_into(const Run& run) {
  const int folder = ::open(run.folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  const bool locked = try_lock(folder, LOCK_SH) == Locked::by_another;
  ::close(folder);
  return locked;
}

namespace {

// The recorded evaluation of a step in metrics.jsonl.
struct EvaluationRecord {
  std::string checksum{};        // parameters_xxh3; empty: the step has no evaluation
  bool has_other_steps = false;  // other steps have evaluations
  bool is_damaged = false;       // lines cannot be read, and may be those of the step
};

EvaluationRecord evaluation_record(const Run& run, std::int64_t step) {
  EvaluationRecord record;
  for (LineReader line(run.metrics()); line.next();) {
    const auto entry = parse_metrics_line(line.text());
    record.is_damaged |= !entry;
    if (!entry || !is_split(*entry, "val")) continue;
    if (step_of(*entry) != step) {
      record.has_other_steps = true;
      continue;
    }
    const JsonValue found = entry->value("parameters_xxh3", JsonValue());
    record.checksum = found.is_string() ? found.get<std::string>() : "";
    line.expect(!record.checksum.empty(),
                fmt::format("the evaluation of step {} has no parameters_xxh3", step));
  }
  return record;
}

// Throws ForeignModel if the run did not record the checkpoint. A best model was evaluated; a last
// checkpoint may be of any step.
void expect_recorded(const Checkpoint& checkpoint) {
  const Run run(folder_of(checkpoint.path));
  const std::string name = file_name_of(checkpoint.path);
  const bool is_best = name == file_name_of(run.best());
  if (!is_best && name != file_name_of(run.checkpoint()) &&
      name != file_name_of(run.before_decay()))
    return;
  const std::int64_t step = checkpoint.state.step;
  const EvaluationRecord record = evaluation_record(run, step);
  constexpr const char* advice =
      "the file belongs to another run; restore the original, or remove the file";
  if (is_best && record.checksum.empty() && record.has_other_steps && !record.is_damaged)
    throw ForeignModel(
        fmt::format("{}: is of step {}, of which metrics.jsonl has no evaluation; {}",
                    printable(checkpoint.path), step, advice));
  if (record.checksum.empty()) return;
  if (const std::string own = combined(parameter_checksums(checkpoint)); own != record.checksum)
    throw ForeignModel(fmt::format(
        "{}: parameters_xxh3 of step {} is {}, but metrics.jsonl recorded {}; {}",
        printable(checkpoint.path), step, own, printable_beginning(record.checksum), advice));
}

// Returns whether any of the files exists. In a folder without permission, none does.
bool has_any(const std::vector<std::string>& files) { return std::ranges::any_of(files, is_there); }

// Returns the path of a run in this folder; empty if there is none.
std::string run_within(const std::string& folder) {
  for (const std::string& name : file_names(folder)) {
    const Run inner((fs::path(folder) / name).string());
    if (has_any({inner.best(), inner.checkpoint()})) return inner.folder();
  }
  return "";
}

// Replaces the plug-in that the config of a checkpoint requires by that of the run's last session.
void update_plugin(const std::string& checkpoint, ConfigDocument& config) try {
  const auto own = std::ranges::find(config.settings, key::plugin.name, &TomlSetting::name);
  const Run run(folder_of(checkpoint));
  const std::vector<std::string> files = run.files();
  const bool is_of_run = std::ranges::any_of(files, [&](const std::string& file) {
    return file_name_of(file) == file_name_of(checkpoint);
  });
  if (own == config.settings.end() || own->value == key::plugin.fallback || !is_of_run ||
      !has_file(run.config()))
    return;
  const ConfigDocument last(run.config(), config_text(run));
  if (const TomlSetting* now = last.find(key::plugin.name)) *own = *now;
} catch (const InputError&) {  // a damaged config.toml, which is not needed
  return;
}

}  // namespace

InputError no_such_run(const std::string& folder) {
  const std::string similar = (fs::path("runs") / folder).string();
  if (is_folder(similar))
    return InputError(
        fmt::format("{}: no such run; did you mean {}?", printable(folder), printable(similar)));
  return InputError(
      fmt::format("{}: no such run; give a run's folder, or train it: {} train CONFIG --out {}",
                  printable(folder), own_program(), shell_word(folder)));
}

void expect_no_search(const Run& run) {
  expect_input(!is_there(run.ledger()),
               "{}: is the folder of a search; resume the search with `{} search {} "
               "--resume`, or give another --out",
               printable(run.folder()), own_program(), shell_word(run.folder()));
}

void expect_run(const Run& run, const std::vector<std::string>& files) {
  const bool is_search = is_there(run.ledger());
  if (has_any(files) && !is_search) return;
  const std::string& folder = run.folder();
  if (!is_there(folder)) throw no_such_run(folder);
  const Run outer(fs::absolute(folder).parent_path().string());
  std::error_code unseen;
  expect_input(!fs::is_regular_file(folder, unseen),
               "{}: is a file; expected the folder of a run{}", printable(folder),
               has_any({outer.config(), outer.metrics(), outer.best(), outer.checkpoint()})
                   ? ", such as " + printable(outer.folder())
                   : "");
  const std::string outside = is_search ? folder + "/base" : folder;
  const std::string inner = is_folder(outside) ? run_within(outside) : "";
  const auto names = files | std::views::transform(file_name_of);
  throw InputError(fmt::format(
      "{}: is {}, because it has {}; give the folder of a run{}", printable(folder),
      is_search ? "a search, not a run" : "not a run",
      is_search ? file_name_of(run.ledger()) : fmt::format("no {}", fmt::join(names, " or ")),
      inner.empty() ? "" : ", such as " + printable(inner)));
}

std::string config_text(const Run& run) { return read_file(run.config(), std::int64_t{1} << 20); }

Config recorded_config(const Run& run, const std::vector<std::string>& overrides) {
  return resolved_config(config_text(run), run.config(), overrides);
}

Config config_as_recorded(const Run& run) {
  return config_as_recorded(ConfigDocument(run.config(), config_text(run)));
}

Config config_of(const Checkpoint& checkpoint, const std::vector<std::string>& overrides) {
  ConfigDocument config(checkpoint.path + " (its config)", checkpoint.config);
  update_plugin(checkpoint.path, config);
  return resolved_config(config, overrides);
}

Checkpoint load_recorded_metadata(const std::string& path) {
  Checkpoint found = load_checkpoint_metadata(path);
  expect_recorded(found);
  return found;
}

std::optional<Checkpoint> latest_checkpoint(const Run& run) {
  std::optional<Checkpoint> latest;
  for (const std::string& path : {run.before_decay(), run.best(), run.checkpoint()}) {
    if (!fs::exists(path)) continue;
    Checkpoint found = load_recorded_metadata(path);
    if (!latest || found.state.step >= latest->state.step) latest = std::move(found);
  }
  return latest;
}

Checkpoint load_trained_metadata(const std::string& path) {
  const Run run(path);
  if (is_there(path) && !is_folder(path)) return load_recorded_metadata(path);
  expect_run(run, {run.best(), run.checkpoint()});
  return load_recorded_metadata(is_there(run.best()) ? run.best() : run.checkpoint());
}

ConfigDocument model_settings(const std::string& run) {
  const Checkpoint head = load_trained_metadata(run);
  const Config config = config_of(head);
  const std::string text =
      fmt::format("task = {}\n{}", to_toml(Value(config[key::task])),
                  config.toml({"model.", "data.tokenizer", "data.end_of_text"}));
  return {head.path, text};
}

TrainedModel load_trained(const std::string& run, const std::vector<std::string>& overrides,
                          bool needs_data, bool whole_data) {
  const Checkpoint head = load_trained_metadata(run);
  Config config = config_of(head, overrides);
  try {
    return load_trained(head, std::move(config), needs_data, whole_data);
  } catch (const InputError& error) {
    const auto reshaping = std::ranges::find_if(
        overrides, [](const std::string& text) { return text.starts_with("model."); });
    const std::string message = error.what();
    if (reshaping == overrides.end() || !message.starts_with(head.path + ": tensor ")) throw;
    throw InputError(fmt::format("{}; leave out --set {}, which changes the trained model",
                                 message.substr(0, message.rfind("; ")), *reshaping));
  }
}

TrainedModel load_trained(const Checkpoint& checkpoint, Config config, bool needs_data,
                          bool whole_data) {
  TrainedModel trained{std::move(config), nullptr, checkpoint.state};
  trained.task = make_task(checkpoint, trained.config, needs_data, whole_data);
  restore_parameters(checkpoint, trained.task->model());
  return trained;
}

}  // namespace tapestry
