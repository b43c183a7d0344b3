#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "kinema/world/tcp_engine.h"

namespace kinema::world {

/// What all know when they have met.
struct Met {
  uint64_t session = 0;                ///< of this run: what others send is dropped
  std::vector<std::string> addresses;  ///< `tcp://10.0.0.2:41234`, where each listens, by rank
};

/// A socket with what all of an engine have: no message is dropped, or waits for room.
zmq::socket_t make_socket(zmq::context_t& context, zmq::socket_type type);
/// Listens on a port that the system chooses, where the others come from; returns the address.
std::string listen_for(zmq::socket_t& socket, const TcpMeeting& meeting);

/// The list of who is where, kept by process 0 at the coordinator's address.
class Coordinator {
 public:
  Coordinator(zmq::context_t& context, const TcpMeeting& meeting);
  /// Waits for the others; `own` is where process 0 listens.
  Met gather(const std::string& own);
  /// Answers those that come when all are there. Never waits.
  void refuse_late();

 private:
  struct Guest;
  void refuse(const std::vector<Guest>& guests, const std::string& why);
  /// Forgets those that have ended meanwhile, which may be started again; whether there were any.
  bool forget_gone(std::vector<Guest>& guests, std::vector<std::string>& addresses);

  TcpMeeting meeting_;
  zmq::socket_t socket_;
};

/// The same of the others: tells process 0 where this one listens.
Met meet(zmq::context_t& context, const TcpMeeting& meeting, const std::string& own);

}  // namespace kinema::world
