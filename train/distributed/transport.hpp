#pragma once

#include <cstddef>

namespace tapestry {

// The exchange of messages between processes of one launch. All calls but rank() and size() must
// come from the thread that opened the transport. Messages of one tag between two processes arrive
// in the order in which they were sent. A fatal error ends all processes.
class Transport {
 public:
  virtual ~Transport() = default;  // must follow finish(), unless an exception was thrown

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Begin to send or receive a message of at most 1 GiB. take_done() reports `number` when the
  // message is complete; until then `bytes` must remain valid.
  virtual void send(int number, int to, int tag, const void* bytes, std::size_t size) = 0;
  virtual void receive(int number, int from, int tag, void* bytes, std::size_t size) = 0;

  // Writes the numbers of at most `room` complete messages that no earlier call wrote, and returns
  // how many. Does not wait.
  virtual std::size_t take_done(int* numbers, std::size_t room) = 0;

  virtual void finish() = 0;                        // waits until all processes have called it
  [[noreturn]] virtual void abort(int status) = 0;  // ends all processes
  [[noreturn]] virtual void leave(int status) = 0;  // ends only this process, immediately
};

// The function that a plug-in exports as open_transport_name. Returns a new transport, which the
// caller owns; never null.
using OpenTransport = Transport*();
inline constexpr const char* open_transport_name = "tapestry_open_transport";

}  // namespace tapestry
