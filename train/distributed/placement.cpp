#include "train/distributed/placement.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <vector>

#include "autograd/cores.hpp"
#include "autograd/counted.hpp"

namespace tapestry {
namespace {

// The cores of a rank, which the rank sends to the others.
struct Seat {
  std::string cores;  // '1' for each processor that the rank may use, '0' for the others
  int usable = 1;     // number of cores of these processors, at most the limit of its control group
  int machine = 1;    // number of cores of the machine
  static void fields(auto& visit, auto& self) { visit(self.cores, self.usable, self.machine); }
};

bool share(const std::string& one, const std::string& other) {
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i)
    if (one[i] == '1' && other[i] == '1') return true;
  return false;
}

}  // namespace

Placement place_threads(Ranks& ranks) {
  const std::vector<Seat> seats = ranks.gather(
      Seat{allowed_processors(), usable_cores(), machine_cores()}, "the cores of the ranks");
  const int R = ranks.size();
  std::vector<int> threads(R, 0);
  std::map<std::string, int> idle;  // number of cores of each host that no thread uses
  for (int rank = 0; rank < R; ++rank) {
    int sharers = 0;
    for (int other = 0; other < R; ++other)
      sharers +=
          ranks.host(other) == ranks.host(rank) && share(seats[rank].cores, seats[other].cores);
    threads[rank] = std::max(1, seats[rank].usable / std::max(sharers, 1));
    idle.try_emplace(ranks.host(rank), seats[rank].machine).first->second -= threads[rank];
  }
  const auto [least, most] = std::ranges::minmax(threads);
  Placement placement{.threads = threads[ranks.rank()]};
  placement.summary =
      fmt::format("{} on {}, {}{} each", counted(R, "rank"), counted(std::ssize(idle), "machine"),
                  least == most ? "" : fmt::format("{} to ", least), counted(most, "thread"));
  int unused = 0;
  for (const auto& [host, cores] : idle) unused += std::max(0, cores);
  if (unused >= R)
    placement.summary +=
        fmt::format("; idle: {}; if mpirun binds the ranks to fewer cores, add --bind-to none",
                    counted(unused, "core"));
  return placement;
}

}  // namespace tapestry
