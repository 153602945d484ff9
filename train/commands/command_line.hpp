#pragma once

// Reads the command line, runs the command, and turns exceptions into one line and a status:
// 0 done, 1 failed while running, 2 wrong input, 130 interrupted.
namespace tapestry {
int run_command_line(int argc, char** argv);
}

// The same, by the name that train/main.cpp looks for in the library that it loads.
extern "C" int tapestry_main(int argc, char** argv);
