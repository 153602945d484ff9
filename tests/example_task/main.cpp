#include <tapestry/task.hpp>

int main(int argc, char** argv) { return tapestry::run_command_line(argc, argv); }
