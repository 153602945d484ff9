#include <doctest/doctest.h>

#include "autograd/parallel.hpp"
#include "layers/module.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/held.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("dry run");

TEST_CASE("dry run: until it ends, loops of this thread compute nothing") {
  int pieces = 0;
  const auto loop = [&] { parallel_for(1, 1, [&](auto, auto) { ++pieces; }); };
  {
    const DryRun dry_run;
    CHECK(is_dry_run());
    loop();
    {
      const DryRun none(false);
      loop();
    }
    loop();
  }
  CHECK(pieces == 1);
  CHECK_FALSE(is_dry_run());
}

TEST_CASE("dry run: a model larger than the machine's memory gives its shapes") {
  const MachineMemory machine = machine_memory();
  const std::int64_t rows = (machine.memory + machine.swap) / (1 << 20) + 1;  // each of 1 MB
  const auto half = [&] {
    Random init(1, Stream::init);
    const InitialDryRun rehearsed;
    return initial_normal({rows, 1 << 17}, 1, init);
  };
  const Array one = half(), other = half();
  CHECK(one.bytes() + other.bytes() > static_cast<std::size_t>(machine.memory + machine.swap));
  CHECK_THROWS_AS(Array({rows, 1 << 18}), OutOfMemory);
}

TEST_CASE("dry run: the memory that it reserved is released") {
  forget_reserved_memory();
  const std::int64_t before = memory_use().bytes_held;
  {
    const DryRun dry_run;
    const Array array({1 << 20});
    CHECK(memory_use().bytes_held == before + (4 << 20));
  }
  CHECK(memory_use().bytes_held == before + (4 << 20));  // for the next one
  forget_reserved_memory();
  CHECK(memory_use().bytes_held == before);
}

TEST_CASE("bug: dry run: a conversion to another dtype wrote the converted elements") {
  const Array ones = Array::full({1000}, 1);
  forget_reserved_memory();
  {
    const DryRun dry_run;
    const Array converted = ones.to(DType::float64);
    CHECK(converted.shape() == ones.shape());
    for (const double x : converted.values<double>())
      CHECK(x == 0);  // pages that were never written
  }
  forget_reserved_memory();
}

TEST_CASE("bug: batches of changing lengths left memory blocks of every size behind") {
  const auto train = [] {
    for (std::int64_t step = 0; step < 200; ++step) {
      std::vector<Array> step_arrays;
      for (std::int64_t i = 0; i < 10; ++i)
        step_arrays.emplace_back(Shape{(1 << 18) + (7919 * (10 * step + i)) % 4096 * 2048});
    }
  };
  const DryRun dry_run;
  forget_reserved_memory();
  const std::int64_t before = memory_use().bytes_held, most = bytes_held_by(train);
  CHECK(memory_use().bytes_held - before <= most + most / 2 + (64 << 20));
  forget_reserved_memory();
}

TEST_CASE("bug: the memory limit of a control group was ignored") {
  const TemporaryFolder root;
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root.path(file)).parent_path());
    root.write(file, text);
  };
  const std::int64_t all = machine_memory(root.path()).memory;
  CHECK(all > 1 << 20);
  write("proc/self/cgroup", "0::/user/session\n");
  write("sys/fs/cgroup/user/session/memory.max", "max\n");
  CHECK(machine_memory(root.path()).memory == all);
  write("sys/fs/cgroup/user/memory.max", "2097152\n");
  CHECK(machine_memory(root.path()).memory == 2097152);
  write("proc/self/cgroup", "4:memory:/a\n");
  CHECK(machine_memory(root.path()).memory == all);
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n");
  CHECK(machine_memory(root.path()).memory == 1048576);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
