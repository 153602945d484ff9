#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Each reader of files and texts of users is a fuzz target: libFuzzer generates bytes for it
// (tests/fuzz/main.cpp), and the tests read tests/fuzz/inputs/<target>/.
namespace tapestry {

// Reads bytes as a user's file. It may return or throw InputError; any other exception, a crash, a
// sanitizer's report, a hang and excessive memory are findings.
using FuzzTarget = std::function<void(std::string_view bytes)>;

// Targets by name; a registered file format is a target with its name.
std::map<std::string, FuzzTarget>& fuzz_targets();

// Defined at namespace scope in the target's source.
struct RegisterFuzzTarget {
  RegisterFuzzTarget(const std::string& name, FuzzTarget target);
};

// Reads the bytes. Throws findings: std::logic_error for an InputError with an empty or too long
// message, otherwise the exception of the target.
void feed(const FuzzTarget& target, std::string_view bytes);

// For targets that read paths: writes the file into a folder in memory.
std::string written_file(const std::string& name, std::string_view bytes);
const std::string& scratch_folder();

// Returns the parts of an input between zero bytes, for several files or words.
std::vector<std::string_view> cut_at_zeros(std::string_view bytes);

}  // namespace tapestry
