#include <fmt/format.h>

#include "train/commands/command_line.hpp"
#include "train/run/terminal.hpp"

// The manual page. The part on commands is generated from their declarations.
namespace tapestry {
namespace {

constexpr const char* page_begin = R"(.TH TAPESTRY 1 "" "Tapestry" "User Commands"
.SH NAME
tapestry \- trains small neural networks that are described by TOML files
.SH SYNOPSIS
.B tapestry
.RB [ \-\-plugin
.IR FILE ]
.I COMMAND
.RI [ ARGUMENTS ]
.br
.B tapestry \-\-help
|
.B \-\-version
.SH DESCRIPTION
Tapestry trains small transformers (language models, translation, images, time series), convolutional, graph and
recurrent networks, and autoencoders on a CPU. A config describes a training. It is a TOML file, or the name of a
config that is part of the program
.RB ( "tapestry list" " prints these)."
A training writes a folder, which is called a run. The folder contains
.IR config.toml ", " metrics.jsonl ", " checkpoint.safetensors " and " best.safetensors .
The same seed gives the same bits on any number of threads. A training that was killed resumes with the same bits.
.PP
.I CONFIG
is the path of a config, or the name of a shipped one.
.I RUN
is the folder of a run, or a checkpoint file.
.B \-\-set
.I KEY=VALUE
sets one key of the config, and may be repeated. Each command prints its options with
.BR "\-h" " or " "\-\-help" .
.PP
.B \-\-plugin
.I FILE
loads a shared library with tasks of your own, as
.B tapestry new
writes them; it stands before the command and may be repeated. Runs record its name and checksum.
.B \-\-rebuilt\-plugin
does the same, also for runs that another build of it trained.
)";

constexpr const char* page_end = R"(.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
failed while running
.TP
.B 2
the command line, a config or an input file is wrong; the message names the place and what was expected
.TP
.B 130
stopped by a signal or by train.time_limit, after a checkpoint was written
.SH ENVIRONMENT
.TP
.B TAPESTRY_LEVEL
The instruction level to use,
.BR v2 ", " v3 " or " v4
of x86-64. The default is the best level of the processor. A level that the processor lacks is refused.
.TP
.B OMP_NUM_THREADS
The number of threads, if neither
.B \-\-threads
nor train.threads sets it. The default is one thread per physical core.
.TP
.B OPENBLAS_CORETYPE
The kernels of OpenBLAS, which computes principal components. The default are those of the level.
.SH FILES
.TP
.IR PREFIX /share/tapestry/configs
The shipped configs, for copying and changing.
.SH EXAMPLES
.nf
tapestry train sort
tapestry train shakespeare-char --set data.path=notes.txt --out runs/notes
tapestry sample runs/notes --prompt "The " --tokens 500 --temperature 0.8
.fi
)";

// Returns the text escaped for roff, so that hyphens are printed as typed and no line begins with a
// control character.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '-' ? "\\-" : c == '\\' ? "\\e" : std::string(1, c);
  return safe.starts_with('.') || safe.starts_with('\'') ? "\\&" + safe : safe;
}

// Returns "train CONFIG", the name of a command and its positional arguments.
std::string synopsis(const std::string& name, const CommandDescription& command) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", escaped(name));
  for (const OptionDescription& option : command.options) {
    if (!option.positional) continue;
    const std::string place = option.name + (option.repeated ? "..." : "");
    text += fmt::format(" {}\\fI{}\\fR{}", option.required ? "" : "[", escaped(place),
                        option.required ? "" : "]");
  }
  return text + '\n';
}

std::string entry_of(const std::string& name, const CommandDescription& command) {
  std::string text = synopsis(name, command) + escaped(command.help) + ".\n";
  for (const OptionDescription& option : command.options)
    if (!option.positional && option.name != "--help")
      text += fmt::format(".br\n\\fB{}\\fR: {}\n", escaped(option.name), escaped(option.help));
  return text;
}

class Manual final : public Command {
 public:
  void declare(Arguments&) override {}

  int run() override {
    std::string commands = ".SH COMMANDS\n";
    for (const auto& [name, type] : command_registry())
      commands += entry_of(name, describe_command(name));
    say("{}{}{}", page_begin, commands, page_end);
    return 0;
  }
};

const RegisterCommand<Manual> manual_command("manual", "print the manual page, for man -l -");

}  // namespace
}  // namespace tapestry
