#pragma once

#include <cstddef>

namespace tapestry {

// The exchange of messages between processes of one launch. All calls must come from the thread
// that opened it. Messages of one tag between two processes arrive in the order in which they were
// sent. A fatal error ends all processes.
class Transport {
 public:
  virtual ~Transport() = default;  // must follow finish()

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Begin to send or receive a message of at most 1 GiB. take_done() reports `number` when the
  // message is complete; until then `bytes` must remain valid.
  virtual void send(int number, int to, int tag, const void* bytes, std::size_t size) = 0;
  virtual void receive(int number, int from, int tag, void* bytes, std::size_t size) = 0;

  // Writes the numbers of messages that were completed since the last call, at most `room` of them,
  // and returns how many.
  virtual std::size_t take_done(int* numbers, std::size_t room) = 0;

  virtual void finish() = 0;                        // waits until all processes have called it
  [[noreturn]] virtual void abort(int status) = 0;  // ends all processes
  [[noreturn]] virtual void leave(int status) = 0;  // ends only this process, immediately
};

// The function that a plug-in exports as open_transport_name. Returns null if it fails.
using OpenTransport = Transport*();
inline constexpr const char* open_transport_name = "tapestry_open_transport";

}  // namespace tapestry
