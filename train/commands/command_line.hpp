#pragma once

// Reads the command line, runs the command, and turns exceptions into one line and a status:
// 0 done, 1 failed while running, 2 wrong input, 130 interrupted.
extern "C" int tapestry_main(int argc, char** argv);
