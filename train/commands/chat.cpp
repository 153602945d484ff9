#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>

#include "data/input_file.hpp"
#include "train/commands/command.hpp"
#include "train/commands/inspector_arguments.hpp"
#include "train/commands/output.hpp"
#include "train/measure/machine.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/convert/import.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

std::atomic<bool> chat_interrupted = false;

// Makes the first SIGINT, SIGTERM or SIGHUP end the answer and the chat, also while the program
// waits for input. A second one ends the process.
void end_chat_at_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int signal) {
    chat_interrupted = true;
    std::signal(signal, SIG_DFL);
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(signal, &action, &before);
    if (before.sa_handler == SIG_IGN) sigaction(signal, &before, nullptr);
  }
}

// A reader of messages, one per line of standard input.
class MessageReader {
 public:
  // Returns the next line without its end, or nothing at the end of the input or after a signal.
  // Throws InputError for a line of more than 16 MiB.
  std::optional<std::string> next() {
    constexpr std::size_t most_bytes = std::size_t{1} << 24;
    while (!at_end_ && waiting_.find('\n') == std::string::npos) {
      expect_input(waiting_.size() <= most_bytes,
                   "standard input: a line has more than {} bytes; give shorter messages",
                   most_bytes);
      read_more();
      if (chat_interrupted) return std::nullopt;
    }
    if (waiting_.empty()) return std::nullopt;
    const std::size_t end = std::min(waiting_.find('\n'), waiting_.size());
    std::string line = waiting_.substr(0, end);
    waiting_.erase(0, end + 1);
    if (line.ends_with('\r')) line.pop_back();
    ++number_;
    return line;
  }
  std::int64_t number() const { return number_; }  // number of the last line, from 1

 private:
  void read_more() {
    char bytes[4096];
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (count > 0)
      waiting_.append(bytes, count);
    else
      at_end_ = count == 0 || errno != EINTR;
  }

  std::string waiting_{};
  bool at_end_ = false;
  std::int64_t number_ = 0;
};

class ChatWithModel final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    arguments.adapter(adapter_);
    declare_options(arguments, &TaskSpec::chat, typed_);
    arguments.overrides(overrides_);
  }

  int run() override {
    const TrainedModel trained = load_trained_with(adapter_, run_, overrides_, false);
    use_machine_as(trained.config);
    const ChatSession chat = spec_of(trained.config).chat.show(*trained.task, typed_);
    end_chat_at_signals();
    const bool asks = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
    if (asks) say("Type one message per line; Ctrl-D ends.\n");
    MessageReader messages;
    while (const std::optional<std::string> message = next(messages, asks)) {
      if (trimmed(*message).empty()) continue;
      if (asks)
        answer_person(chat, *message);
      else
        answer_line(chat, *message, messages.number());
      if (chat_interrupted) break;
    }
    if (asks) say("\n");
    return chat_interrupted ? interrupted_status : 0;
  }

 private:
  static std::optional<std::string> next(MessageReader& messages, bool asks) {
    if (asks) {
      say("> ");
      std::fflush(stdout);
    }
    return messages.next();
  }

  // Answers a message, or prints what is wrong with it, so that the chat continues.
  static void answer_person(const ChatSession& chat, const std::string& message) try {
    answer(chat, message);
  } catch (const InputError& error) {
    complain(error.what());
  }

  static void answer_line(const ChatSession& chat, const std::string& message,
                          std::int64_t line) try {
    answer(chat, message);
  } catch (const InputError& error) {
    throw InputError(fmt::format("standard input: line {}: {}", line, error.what()));
  }

  static void answer(const ChatSession& chat, const std::string& message) {
    Answer answer;
    show_as_it_comes([&](const TextSink& write) {
      answer = chat(message, write, [] { return !chat_interrupted; });
    });
    say("\n");
    if (answer.forgotten > 0)
      complain(fmt::format("the context is full: the oldest {} removed",
                           answer.forgotten == 1
                               ? "exchange is"
                               : fmt::format("{} exchanges are", answer.forgotten)));
    if (answer.is_cut) complain("the context is full: the answer ends here");
    std::fflush(stdout);
  }

  std::string run_, adapter_;
  TypedOptions typed_;
  std::vector<std::string> overrides_;
};

const RegisterCommand<ChatWithModel> chat_command("chat", "chat with a trained language model");

}  // namespace
}  // namespace tapestry
