#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

// What train/main.cpp calls once it has loaded this library.
extern "C" int tapestry_main(int argc, char** argv) { return doctest::Context(argc, argv).run(); }
