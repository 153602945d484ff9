#pragma once

#include <cstddef>

namespace tapestry {

// Messages between the processes that a launcher started together. All calls come from one thread,
// the one that opened it. Between two processes, messages of one tag arrive in the order in which
// they were sent. What cannot be repaired ends all processes.
class Transport {
 public:
  virtual ~Transport() = default;  // after finish()

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Begin one; `number` is the caller's, and names it in take_done(). The memory must stay until
  // then. At most 1 GiB.
  virtual void send(int number, int to, int tag, const void* bytes, std::size_t size) = 0;
  virtual void receive(int number, int from, int tag, void* bytes, std::size_t size) = 0;

  // Numbers of messages that are done since they were last asked for, at most `room`; how many.
  virtual std::size_t take_done(int* numbers, std::size_t room) = 0;

  virtual void finish() = 0;                        // waits for the others to come here as well
  [[noreturn]] virtual void abort(int status) = 0;  // ends all processes, wherever they are
  [[noreturn]] virtual void leave(int status) = 0;  // ends this process alone, at once
};

// The function that a plug-in exports as open_transport_name. Returns null if it cannot work.
using OpenTransport = Transport*();
inline constexpr const char* open_transport_name = "tapestry_open_transport";

}  // namespace tapestry
