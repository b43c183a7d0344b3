#include "kinema/http/connection.h"

#include "kinema/http/connection_answering.h"
#include "kinema/http/connection_events.h"
#include "kinema/http/connection_reading.h"

namespace kinema::http {

void serve_plain(Shared& shared, asio::ip::tcp::socket socket,
                 std::unique_ptr<Admission> admission) {
  const auto executor = socket.get_executor();
  const auto connection = std::make_shared<Connection<beast::tcp_stream>>(
      shared, std::move(admission), std::move(socket));
  asio::post(executor, [connection] { connection->start(); });
}

void serve_tls(Shared& shared, asio::ip::tcp::socket socket, std::unique_ptr<Admission> admission) {
  const auto executor = socket.get_executor();
  const auto connection = std::make_shared<Connection<beast::ssl_stream<beast::tcp_stream>>>(
      shared, std::move(admission), std::move(socket), shared.tls);
  asio::post(executor, [connection] { connection->start(); });
}

}  // namespace kinema::http
