#include "kinema/world/authenticator.h"

#include <iterator>
#include <vector>
#include <zmq_addon.hpp>

namespace kinema::world {
namespace {

constexpr const char* kUser = "kinema";  // PLAIN requires a name

}  // namespace

Authenticator::Authenticator(zmq::context_t& context) : requests_(context, zmq::socket_type::rep) {
  requests_.set(zmq::sockopt::linger, 0);
  requests_.bind("inproc://zeromq.zap.01");
}

void Authenticator::guard(zmq::socket_t& incoming, int64_t most_bytes, int most_messages) {
  constexpr int kHandshake = 10000;  // ms in which a connection must authenticate
  incoming.set(zmq::sockopt::plain_server, true);
  incoming.set(zmq::sockopt::zap_domain, kUser);
  incoming.set(zmq::sockopt::maxmsgsize, most_bytes);
  incoming.set(zmq::sockopt::rcvhwm, most_messages);
  incoming.set(zmq::sockopt::handshake_ivl, kHandshake);
}

void Authenticator::introduce(zmq::socket_t& outgoing, const std::string& secret) {
  outgoing.set(zmq::sockopt::plain_username, kUser);
  outgoing.set(zmq::sockopt::plain_password, secret);
}

void Authenticator::answer(const std::string& secret) {
  constexpr int kAtOnce = 16;
  for (int i = 0; i < kAtOnce; ++i) {
    // version, id of the request, domain, address, identity, mechanism, name, password
    std::vector<zmq::message_t> asked;
    if (!zmq::recv_multipart(requests_, std::back_inserter(asked), zmq::recv_flags::dontwait)) {
      return;
    }
    constexpr size_t kParts = 8;
    const bool known = asked.size() == kParts && asked[5].to_string_view() == "PLAIN" &&
                       asked[7].to_string_view() == secret;
    const std::string id = asked.size() > 1 ? asked[1].to_string() : "";
    std::vector<zmq::const_buffer> answer = {
        zmq::str_buffer("1.0"),
        zmq::buffer(id),
        known ? zmq::str_buffer("200") : zmq::str_buffer("400"),
        {},
        {},
        {}};
    zmq::send_multipart(requests_, answer);
  }
}

}  // namespace kinema::world
