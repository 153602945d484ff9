#include "train/ranks/placement.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <vector>

#include "autograd/cores.hpp"
#include "train/ranks/packed.hpp"

namespace tapestry {
namespace {

// What a rank tells the others of where it runs.
struct Seat {
  std::string cores;  // the processors that it is bound to, as one text
  int usable = 1;     // cores among them, or what its control group grants
  int machine = 1;    // cores of the machine
};

bool share(const std::string& one, const std::string& other) {
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i)
    if (one[i] == '1' && other[i] == '1') return true;
  return false;
}

}  // namespace

Placement place_threads(Ranks& ranks) {
  Packer own;
  own.put(allowed_processors());
  own.put(usable_cores());
  own.put(machine_cores());
  std::vector<Seat> seats;
  for (const std::string& bytes : ranks.gather(own.take(), "the places of the ranks")) {
    Unpacker packed(bytes);
    seats.push_back({packed.get<std::string>(), packed.get<int>(), packed.get<int>()});
  }
  const auto neighbours = [&](int rank) {
    int count = 0;
    for (int other = 0; other < ranks.size(); ++other)
      count +=
          ranks.host(other) == ranks.host(rank) && share(seats[rank].cores, seats[other].cores);
    return std::max(count, 1);
  };
  int least = seats[0].usable, most = 0, idle = 0;
  std::set<std::string> hosts;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const int threads = std::max(1, seats[rank].usable / neighbours(rank));
    least = rank == 0 ? threads : std::min(least, threads);
    most = std::max(most, threads);
    if (!hosts.insert(ranks.host(rank)).second) continue;
    int used = 0, here = 0;
    for (int other = 0; other < ranks.size(); ++other)
      if (ranks.host(other) == ranks.host(rank)) {
        used += std::max(1, seats[other].usable / neighbours(other));
        ++here;
      }
    if (seats[rank].machine - used >= here) idle += seats[rank].machine - used;
  }
  Placement placement;
  placement.threads = std::max(1, seats[ranks.rank()].usable / neighbours(ranks.rank()));
  placement.summary =
      fmt::format("{} ranks on {} machine{}, {} thread{} each", ranks.size(), hosts.size(),
                  hosts.size() == 1 ? "" : "s",
                  least == most ? std::to_string(least) : fmt::format("{} to {}", least, most),
                  most == 1 ? "" : "s");
  if (idle > 0)
    placement.summary += fmt::format(
        "; {} cores idle: mpirun bound the ranks to fewer, and --bind-to none shares them all",
        idle);
  return placement;
}

}  // namespace tapestry
