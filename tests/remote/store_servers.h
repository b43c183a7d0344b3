#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/remote/http.h"
#include "kinema/remote/store.h"

namespace kinema::remote {

/// gcp-storage-emulator and moto on 127.0.0.1, each behind a proxy that makes requests fail on
/// demand (tests/stores/servers.py). While the object exists, the environment points to them.
class StoreServers {
 public:
  /// The bucket in both.
  static constexpr const char* kBucket = "kinema-test";

  StoreServers() {
    const char* packages = std::getenv("KINEMA_TEST_STORES");
    check(packages != nullptr && ::access(packages, R_OK) == 0,
          "[test] the servers of tests/stores are missing\n  `./dev setup` fetches them");
    std::array<int, 2> to = {};
    std::array<int, 2> from = {};
    check(::pipe2(to.data(), O_CLOEXEC) == 0 && ::pipe2(from.data(), O_CLOEXEC) == 0,
          "[test] no pipe");
    const std::string script = KINEMA_SOURCE_DIR "/tests/stores/servers.py";
    ::setenv("PYTHONPATH", packages, 1);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], STDOUT_FILENO);
      ::execlp("python3", "python3", script.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    input_ = to[1];
    std::FILE* lines = ::fdopen(from[0], "r");
    const int read = std::fscanf(lines, "gs %d s3 %d", &gs_, &s3_);
    std::fclose(lines);
    check(read == 2, "[test] the servers of tests/stores did not start");
    ::setenv("STORAGE_EMULATOR_HOST", url("gs").c_str(), 1);
    ::setenv("AWS_ENDPOINT_URL", url("s3").c_str(), 1);
    disable_metadata_server();
    ::setenv("AWS_ACCESS_KEY_ID", "test", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "test", 1);
  }
  StoreServers(const StoreServers&) = delete;
  StoreServers& operator=(const StoreServers&) = delete;
  ~StoreServers() {
    ::close(input_);
    ::waitpid(process_, nullptr, 0);
  }

  std::string url(const std::string& scheme) const {
    return fmt::format("http://127.0.0.1:{}", scheme == "gs" ? gs_ : s3_);
  }

  /// From now on this fraction of the requests fails in these ways; see tests/stores/proxy.py.
  void spoil(const std::string& scheme, double rate, const std::string& kinds = "503",
             double stall_s = 60) const {
    const Response answer = send({.method = "POST",
                                  .url = fmt::format("{}/_faults?rate={}&kinds={}&stall={}",
                                                     url(scheme), rate, kinds, stall_s)},
                                 {});
    check(answer.status == 200, "[test] the proxy answers {}", answer.status);
  }

  /// The number of requests that came through so far.
  int64_t requests(const std::string& scheme) const {
    const Response answer = send({.method = "POST", .url = url(scheme) + "/_faults"}, {});
    return io::Json::parse(answer.body, "the proxy").at("passed").as_int();
  }

 private:
  pid_t process_ = -1;
  int input_ = -1;
  int gs_ = 0;
  int s3_ = 0;
};

/// The servers of this test program: they run from before its first test until after its last, if
/// the test's environment points to them (kinema_test_with_stores); other tests start none.
class ServersOfAllTests : public testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("KINEMA_TEST_STORES") != nullptr) servers_ = std::make_unique<StoreServers>();
  }
  void TearDown() override { servers_.reset(); }
  StoreServers* get() const {
    check(servers_ != nullptr,
          "[test] KINEMA_TEST_STORES names no folder\n  run this test by ctest");
    return servers_.get();
  }

 private:
  std::unique_ptr<StoreServers> servers_;
};
inline ServersOfAllTests& servers_of_all_tests() {
  // GoogleTest owns it.
  static auto* const made = new ServersOfAllTests;
  return *made;
}
inline const auto* const kServersOfAllTests =
    testing::AddGlobalTestEnvironment(&servers_of_all_tests());

inline StoreServers* servers() { return servers_of_all_tests().get(); }

}  // namespace kinema::remote
