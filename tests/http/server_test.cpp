// The server over real sockets: limits, late answers, files, events, TLS.
#include "kinema/http/server.h"

#include <gmock/gmock.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>

#include "http/client.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/http/events.h"
#include "kinema/http/file_response.h"

namespace kinema::http_test {
namespace {

using namespace std::chrono_literals;
using http::Reply;
using http::Request;
using http::Response;
using http::Route;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

/// Waits until something holds; false if it does not within ten seconds.
template <typename Condition>
bool becomes_true(const Condition& holds) {
  for (int i = 0; i < 2000; ++i) {
    if (holds()) {
      return true;
    }
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

class ServerTest : public ::testing::Test {
 protected:
  http::Router router() {
    http::Router out;
    const auto add = [&](const char* method, const char* pattern, Route::Handler handler,
                         http::BodyRule body = {}) {
      out.add({.method = method,
               .pattern = pattern,
               .body = std::move(body),
               .handler = std::move(handler)});
    };
    add("GET", "/hello/{name}", http::answering([](Request& request) {
          return http::text_response(200, "hello " + request.params.at("name"));
        }));
    add("POST", "/echo",
        http::answering([](Request& request) { return http::text_response(200, request.body); }),
        {.limit = 1000});
    add("POST", "/upload", http::answering([this](Request& request) {
          uploaded_ = request.file->path();
          return http::text_response(200, std::to_string(file_size(uploaded_)));
        }),
        {.limit = 4 << 20, .types = {"image/*"}, .to_file = true});
    add("GET", "/file", http::answering([this](Request& request) {
          return http::file_response(request, folder_ / "big", "video/mp4");
        }));
    add("GET", "/throws", [](Request&, const Reply&) { throw std::runtime_error("a bug"); });
    add("GET", "/refuses", [](Request&, const Reply&) { throw http::Refusal(409, "not now"); });
    add("GET", "/wrong", [](Request&, const Reply&) { fail("[test] wrong"); });
    add("GET", "/forgets", [](Request&, const Reply&) {});
    add("GET", "/later", [this](Request&, const Reply& reply) {
      const std::lock_guard lock(mutex_);
      later_.push_back(reply);
    });
    add("GET", "/events", http::answering([this](Request& request) {
          return Response{
              .events = events_,
              .events_after = http::read_event_id(request.headers.get("last-event-id"))};
        }));
    return out;
  }

  http::Server& start(http::ServerOptions options = {}) {
    options.upload_folder = folder_ / "uploads";
    options.headers = {{"X-Content-Type-Options", "nosniff"}};
    options.on_problem = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      problems_.push_back(line);
    };
    return server_.emplace(std::move(options), http::Gate({.hosts = {"h"}, .token = "t"}),
                           router());
  }

  std::vector<std::string> problems() {
    const std::lock_guard lock(mutex_);
    return problems_;
  }

  std::string ask(const std::string& line, const std::string& fields = "",
                  const std::string& body = "") {
    Client client(server_->port());
    client.send(request(line, fields, body));
    return client.read_answer();
  }

  static std::string request(const std::string& line, const std::string& fields = "",
                             const std::string& body = "") {
    return line + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n" + fields +
           (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") +
           "\r\n" + body;
  }

  static size_t file_size(const std::filesystem::path& path) {
    return std::filesystem::exists(path) ? std::filesystem::file_size(path) : 0;
  }

  io::Scratch folder_;
  std::filesystem::path uploaded_;
  std::mutex mutex_;
  std::vector<Reply> later_;
  std::vector<std::string> problems_;
  std::shared_ptr<http::EventStream> events_ = std::make_shared<http::EventStream>(1000);
  std::optional<http::Server> server_;
};

TEST_F(ServerTest, AnswersSeveralRequestsOfAConnection) {
  Client client(start().port());
  client.send(request("GET /hello/one") + request("GET /hello/tw%6f"));

  const std::string one = client.read_answer();
  EXPECT_THAT(one, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(one, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(one, HasSubstr("\r\n\r\nhello one"));
  EXPECT_THAT(client.read_answer(), HasSubstr("hello two"));
  client.send(request("POST /echo", "Content-Type: application/json\r\n", "{}"));
  EXPECT_THAT(client.read_answer(), HasSubstr("\r\n\r\n{}"));
  client.send(request("HEAD /hello/three", "Connection: close\r\n"));
  EXPECT_THAT(client.read_all(), HasSubstr("Content-Length: 11\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(client.read_all(), Not(HasSubstr("hello")));
}

TEST_F(ServerTest, RefusesByTheHeader) {
  start();
  EXPECT_THAT(ask("GET /nothing"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask("PUT /echo"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ask("PUT /echo"), HasSubstr("Allow: POST\r\n"));
  EXPECT_THAT(ask("GET /%zz"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("POST /echo", "Content-Type: text/plain\r\n", "{}"), StartsWith("HTTP/1.1 415 "));
  EXPECT_THAT(ask("POST /echo", "", "{}"), StartsWith("HTTP/1.1 415 "));

  Client stranger(server_->port());
  stranger.send("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: evil\r\n\r\n");
  EXPECT_THAT(stranger.read_answer(), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(stranger.read_answer(), StartsWith("HTTP/1.1 421 "));

  for (const char* text : {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                           "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
                           "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}) {
    Client client(server_->port());
    client.send(text);
    EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 400 ")) << text;
  }
  Client after(server_->port());  // what follows a malformed header is not taken for a request
  after.send(
      "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\nnonsense\r\n\r\nGET /nothing HTTP/1.1\r\nHost: "
      "h\r\n\r\n");
  EXPECT_THAT(after.read_answer(), StartsWith("HTTP/1.1 401 "));
  const std::string rest = after.read_all();
  EXPECT_THAT(rest, StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(rest.find("HTTP/1.1", 1), std::string::npos) << rest;

  Client large(server_->port());
  large.send("GET / HTTP/1.1\r\nX: " + std::string(20000, 'x'));
  EXPECT_THAT(large.read_all(), StartsWith("HTTP/1.1 431 "));
}

TEST_F(ServerTest, RefusesALargeBodyBeforeItIsSent) {
  start();
  Client client(server_->port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n"
      "Content-Type: application/json\r\nContent-Length: 1073741824\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 413 "));

  Client chunked(server_->port());
  chunked.send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n"
      "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  chunked.send("1000\r\n" + std::string(4096, ' ') + "\r\n");
  EXPECT_THAT(chunked.read_all(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(ServerTest, AsksForABodyThatItTakes) {
  start();
  Client client(server_->port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n"
      "Content-Type: application/json\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  client.read_until("100 Continue\r\n\r\n");
  client.send("{  }");
  EXPECT_THAT(client.read_until("{  }"), HasSubstr("HTTP/1.1 200 OK"));
}

TEST_F(ServerTest, ReceivesFilesPieceByPiece) {
  start();
  const std::string bytes(3'000'000, 'x');
  EXPECT_THAT(ask("POST /upload", "Content-Type: image/png\r\n", bytes),
              HasSubstr("\r\n\r\n3000000"));
  EXPECT_TRUE(becomes_true([&] { return !std::filesystem::exists(uploaded_); }));

  Client chunked(server_->port());
  chunked.send(
      "POST /upload HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n"
      "Content-Type: image/webp\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) {
    chunked.send("20000\r\n" + std::string(0x20000, 'y') + "\r\n");
  }
  chunked.send("0\r\n\r\n");
  EXPECT_THAT(chunked.read_answer(), HasSubstr("\r\n\r\n393216"));

  Client cut(server_->port());
  cut.send(request("POST /upload", "Content-Type: image/png\r\nContent-Length: 1000000\r\n") +
           "only this");
  cut.shut_down_writing();
  cut.read_all();
  EXPECT_TRUE(becomes_true([&] { return std::filesystem::is_empty(folder_ / "uploads"); }));
}

TEST_F(ServerTest, ServesPartsOfFiles) {
  start();
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) {
    bytes += fmt::format("{:08}", i);
  }
  std::ofstream(folder_ / "big") << bytes;

  const std::string all = ask("GET /file");
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_TRUE(all.ends_with(bytes));
  const std::string part = ask("GET /file", "Range: bytes=700000-700007\r\n");
  EXPECT_THAT(part, StartsWith("HTTP/1.1 206 "));
  EXPECT_THAT(part, HasSubstr("Content-Range: bytes 700000-700007/800000\r\n"));
  EXPECT_TRUE(part.ends_with("\r\n\r\n00087500")) << part;
  EXPECT_THAT(ask("GET /file", "Range: bytes=800000-\r\n"), StartsWith("HTTP/1.1 416 "));
  const size_t at = all.find("ETag: ") + 6;
  const std::string tag = all.substr(at, all.find("\r\n", at) - at);
  EXPECT_THAT(ask("GET /file", "If-None-Match: " + tag + "\r\n"), StartsWith("HTTP/1.1 304 "));
  EXPECT_THAT(ask("GET /file", "If-Range: \"other\"\r\nRange: bytes=0-1\r\n"),
              StartsWith("HTTP/1.1 200 "));
  std::filesystem::remove(folder_ / "big");
  EXPECT_THAT(ask("GET /file"), StartsWith("HTTP/1.1 404 "));
  std::filesystem::create_symlink("/etc/passwd", folder_ / "big");
  EXPECT_THAT(ask("GET /file"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(ServerTest, TurnsExceptionsIntoAnswers) {
  start();
  EXPECT_THAT(ask("GET /throws"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(ask("GET /throws"), Not(HasSubstr("a bug")));
  EXPECT_THAT(ask("GET /refuses"), StartsWith("HTTP/1.1 409 "));
  EXPECT_THAT(ask("GET /refuses"), HasSubstr("not now"));
  EXPECT_THAT(ask("GET /wrong"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("GET /forgets"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(problems(), ::testing::ElementsAre(HasSubstr("a bug"), HasSubstr("a bug")));
}

TEST_F(ServerTest, AnswersLaterAndSeesWhoLeft) {
  start();
  const auto waiting = [&] {
    const std::lock_guard lock(mutex_);
    return later_.size();
  };
  Client patient(server_->port());
  patient.send(request("GET /later"));
  ASSERT_TRUE(becomes_true([&] { return waiting() == 1; }));
  {
    Client impatient(server_->port());
    impatient.send(request("GET /later"));
    ASSERT_TRUE(becomes_true([&] { return waiting() == 2; }));
    EXPECT_FALSE(later_[1].is_gone());
  }
  EXPECT_TRUE(becomes_true([&] { return later_[1].is_gone(); }));
  EXPECT_FALSE(later_[0].is_gone());

  std::thread([&] { later_[0].send(http::text_response(200, "at last")); }).join();
  later_[0].send(http::text_response(200, "again"));
  EXPECT_THAT(patient.read_answer(), HasSubstr("\r\n\r\nat last"));
  patient.send(request("GET /hello/you"));
  EXPECT_THAT(patient.read_answer(), HasSubstr("\r\n\r\nhello you"));
}

TEST_F(ServerTest, RepliesMayOutliveIt) {
  start();
  Client client(server_->port());
  client.send(request("GET /later"));
  ASSERT_TRUE(becomes_true([&] {
    const std::lock_guard lock(mutex_);
    return later_.size() == 1;
  }));
  server_.reset();
  later_[0].send(http::text_response(200, "too late"));
  EXPECT_TRUE(later_[0].is_gone());
  EXPECT_THAT(client.read_all(), IsEmpty());
}

TEST_F(ServerTest, DropsWhoSendsOrReadsSlowly) {
  http::ServerOptions options{.header_time = 300ms, .body_time = 300ms, .write_time = 300ms};
  options.body_bytes_per_second = 1 << 30;
  start(options);
  std::ofstream(folder_ / "big") << std::string(64 << 20, 'x');

  Client header(server_->port());
  header.send("GET /hello/you HTTP/1.1\r\n");
  const auto began = std::chrono::steady_clock::now();
  while (header.send("X: y\r\n") && !header.is_ended()) {
    header.receive(50ms);  // a line at a time does not extend it
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);

  Client body(server_->port());
  body.send(request("POST /echo", "Content-Type: application/json\r\nContent-Length: 10\r\n"));
  body.read_all();
  EXPECT_TRUE(body.is_ended());

  Client reader(server_->port());
  reader.shrink();
  reader.send(request("GET /file"));
  EXPECT_TRUE(becomes_true([&] { return server_->connections() == 0; }));
  EXPECT_THAT(ask("GET /hello/you"), HasSubstr("hello you"));
}

TEST_F(ServerTest, LimitsConnections) {
  start({.connections = 2});
  Client first(server_->port());
  Client second(server_->port());
  first.send(request("GET /hello/one"));
  second.send(request("GET /hello/two"));
  EXPECT_THAT(first.read_answer(), HasSubstr("hello one"));
  EXPECT_THAT(second.read_answer(), HasSubstr("hello two"));
  Client third(server_->port());
  third.send(request("GET /hello/three"));
  EXPECT_THAT(third.read_all(), IsEmpty());
  EXPECT_EQ(server_->connections(), 2);
}

TEST_F(ServerTest, SendsEventsToAll) {
  start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<Client>(server_->port()));
    clients.back()->send(request("GET /events", "Last-Event-ID: 1000\r\n"));
    clients.back()->read_until("\r\n\r\n");
  }
  for (int i = 0; i < 100; ++i) {
    events_->publish("count", std::to_string(i));
  }
  events_->publish("bye", "{}");
  events_->end();
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    expected += http::event_text(1001 + i, "count", std::to_string(i));
  }
  expected += http::event_text(1101, "bye", "{}");
  for (const auto& client : clients) {
    EXPECT_THAT(client->read_all(), HasSubstr("Content-Type: text/event-stream\r\n"));
    EXPECT_TRUE(client->received().ends_with("\r\n\r\n" + expected)) << client->received();
  }
}

TEST_F(ServerTest, ContinuesAStreamAfterTheLastEvent) {
  start();
  events_->publish("a", "1");
  events_->publish("a", "2");
  Client client(server_->port());
  client.send(request("GET /events", "Last-Event-ID: 1001\r\n"));
  EXPECT_THAT(client.read_until("data: 2\n\n"), Not(HasSubstr("data: 1")));
  Client stranger(server_->port());
  stranger.send(request("GET /events", "Last-Event-ID: 7\r\n"));
  EXPECT_THAT(stranger.read_until("\n\n"), Not(HasSubstr("data: 1")));
  EXPECT_THAT(stranger.read_until("event: reset"), HasSubstr("id: 1002\nevent: reset\n"));
}

TEST_F(ServerTest, KeepsLimitsAndForgetsStreams) {
  start({.keep_time = 50ms, .streams = 1});
  {
    Client client(server_->port());
    client.send(request("GET /events", "Last-Event-ID: 1000\r\n"));
    EXPECT_THAT(client.read_until(": keep\n\n"), HasSubstr(": keep"));
    EXPECT_THAT(ask("GET /events"), StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(ask("HEAD /events"), StartsWith("HTTP/1.1 200 "));
  }
  EXPECT_TRUE(becomes_true([&] { return server_->connections() == 0; }));
  Client next(server_->port());
  next.send(request("GET /events", "Last-Event-ID: 1000\r\n"));
  EXPECT_THAT(next.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, DropsAStreamThatDoesNotRead) {
  start({.write_time = 300ms});
  Client client(server_->port());
  client.shrink();
  client.send(request("GET /events", "Last-Event-ID: 1000\r\n"));
  client.read_until("\r\n\r\n");
  const std::string data(10'000, 'x');
  for (int i = 0; i < 4000; ++i) {
    events_->publish("a", data);
  }
  EXPECT_TRUE(becomes_true([&] { return server_->connections() == 0; }));
}

TEST_F(ServerTest, FinishesWhatItHasBegun) {
  start();
  Client client(server_->port());
  client.send(request("GET /later"));
  ASSERT_TRUE(becomes_true([&] {
    const std::lock_guard lock(mutex_);
    return later_.size() == 1;
  }));
  std::thread answer([&] {
    std::this_thread::sleep_for(200ms);
    later_[0].send(http::text_response(200, "done"));
  });
  const auto began = std::chrono::steady_clock::now();
  server_->stop(20s);
  answer.join();
  EXPECT_THAT(client.read_all(), HasSubstr("\r\n\r\ndone"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  EXPECT_FALSE(Client(server_->port()).is_open());
}

TEST_F(ServerTest, SaysWhyItCannotListen) {
  const uint16_t port = start().port();
  const auto another = [&](http::ServerOptions options) {
    return [=] { http::Server(options, http::Gate({}), http::Router()); };
  };
  EXPECT_THAT(another({.port = port}), ThrowsMessage<Error>(HasSubstr(std::to_string(port))));
  EXPECT_THAT(another({.addresses = {"localhost"}}),
              ThrowsMessage<Error>(HasSubstr("`localhost`")));
  EXPECT_THAT(another({.tls_cert = "/nowhere"}), ThrowsMessage<Error>(HasSubstr("its key")));
  EXPECT_THAT(another({.tls_cert = "/nowhere", .tls_key = "/nowhere"}),
              ThrowsMessage<Error>(HasSubstr("/nowhere")));
}

/// Writes a certificate for this test and its key, `cert.pem` and `key.pem`.
void write_certificate(const io::Scratch& folder) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  FILE* file = fopen((folder / "cert.pem").c_str(), "w");
  PEM_write_X509(file, certificate.get());
  fclose(file);
  file = fopen((folder / "key.pem").c_str(), "w");
  PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  fclose(file);
}

TEST_F(ServerTest, SpeaksTls) {
  write_certificate(folder_);
  start({.tls_cert = folder_ / "cert.pem", .tls_key = folder_ / "key.pem", .header_time = 2s});
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> connection(BIO_new_ssl_connect(context.get()),
                                                                 BIO_free_all);
  BIO_set_conn_hostname(connection.get(), fmt::format("127.0.0.1:{}", server_->port()).c_str());
  const std::string text = request("GET /hello/tls", "Connection: close\r\n");
  ASSERT_EQ(BIO_write(connection.get(), text.data(), static_cast<int>(text.size())),
            static_cast<int>(text.size()));
  std::string answer;
  char bytes[1000];
  for (int got = 0; (got = BIO_read(connection.get(), bytes, sizeof(bytes))) > 0;) {
    answer.append(bytes, got);
  }
  EXPECT_TRUE(answer.ends_with("\r\n\r\nhello tls")) << answer;

  Client plain(server_->port());
  plain.send(request("GET /hello/plain"));
  plain.read_all();
  EXPECT_THAT(plain.received(), Not(HasSubstr("hello")));
  EXPECT_TRUE(becomes_true([&] { return server_->connections() == 0; }));
}

}  // namespace
}  // namespace kinema::http_test
