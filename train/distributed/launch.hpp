#pragma once

#include "train/distributed/transport.hpp"

namespace tapestry {

// What a launcher's variables say of this process.
struct Launch {
  int rank = 0, size = 1;
  const char* mpi = "";  // whose it is: "openmpi" or "mpich"
};
Launch read_launch();

// Loads the plug-in for that MPI: InputError, which says what to install, where there is none.
OpenTransport* load_transport(const Launch& launch);

}  // namespace tapestry
