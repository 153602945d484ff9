#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "train/inspect/values.hpp"
#include "train/plot/figure.hpp"

// Output files of commands. The names of figures are printed.
namespace tapestry {

// Writes a file as write_file_atomically() does, the one behind a link if `path` is a link, but
// writes to a device or a pipe without replacing it, and to a terminal as print_lines() does.
// Throws InputError if `path` is a folder, a link in the folder of a run, or a file that this
// process has read, and FileError if the file cannot be written.
// Errors name the path as the value of `option`.
void write_bytes(const std::string& path, const std::string& bytes,
                 const std::string& option = "--out");

// Writes the file `out` if its name ends in .png or .svg, otherwise both `out`.png and `out`.svg. A
// grid of pictures is written only as PNG, to `out`. Throws as render() and write_bytes() do.
void write_figure(const std::string& out, const Figure& figure);

// Writes a figure, and its values as .csv. Throws likewise.
void write_table_and_figure(const std::string& out, const std::string& csv, const Figure& figure);

// Throws InputError if the name of --out is that of a picture, for a command that writes text.
void expect_text_file(const std::string& out);

// Returns the default path of an output: in the run's folder, or in the current folder for a
// checkpoint.
std::string in_run(const std::string& run, const std::string& name);
// Returns the default path of a figure, without an ending if several files are written.
std::string in_run(const std::string& run, const std::string& name, const Figure& figure);

// Prints a text while it is generated. Holds back a carriage return until the next character is
// known, because both may be a line end.
void show_as_it_comes(const std::function<void(const TextSink& write)>& stream);

// Calls `converted` with each line of a file, plain or gzip, and with its number from 1. Writes
// each result as a line: to the file `out`, or to the standard output if `out` is empty. Throws
// InputError as read_text() does, as write_bytes() does, and whatever `converted` throws.
void write_each_line(
    const std::string& file, const std::string& out,
    const std::function<std::string(std::string_view line, int number)>& converted);

// Throws InputError if the value of `option` has the name of a file that a run writes, or is a link
// to such a file.
void expect_not_of_a_run(const std::string& out, const std::string& option = "--out");

// Throws InputError if --out names one of the files to be read, or a link to one.
void expect_not_an_input(const std::string& out, const std::vector<std::string>& inputs);

}  // namespace tapestry
