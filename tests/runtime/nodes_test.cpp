// Run by mpirun as three processes, whose plugin connects their devices as the CUDA plugin does.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/runtime/client.h"
#include "world/test_world.h"

namespace kinema::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Not freed: it belongs to the test program.
std::shared_ptr<world::World> world_here() {
  return {&world::test_world(), [](world::World*) {}};
}

ClientSpec spec() {
  return {.plugin = KINEMA_BINARY_DIR "/tests/pjrt_fake_nodes.so",
          .hardware = "cuda",
          .world = world_here()};
}

void meet() { world::test_world().communicator().barrier({.what = "the end of a test"}); }

TEST(Nodes, ConnectByKeys) {
  const int64_t rank = world::test_world().rank();
  const pjrt::Client client = open_client(spec());

  // Each puts a value that contains a zero byte.
  const std::string device("device\0of ", 10);
  EXPECT_EQ(client.platform_version(), fmt::format("node {} of 3, device {}: {}0;{}1;{}2;", rank,
                                                   rank, device, device, device));
  EXPECT_EQ(client.process_index(), rank);
  EXPECT_EQ(client.process_count(), 3);
  EXPECT_EQ(client.devices().size(), 3U);
  EXPECT_EQ(client.addressable_devices().front().id(), rank);
  meet();
}

TEST(Nodes, OpenASecondClientWithKeysOfItsOwn) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(open_client(spec()).process_count(), 3);
  }
  meet();
}

TEST(Nodes, TimeOutOnAMissingKey) {
  setenv("FAKE_MISSING", "1", 1);
  const Stopwatch watch;
  std::string error;
  try {
    open_client(spec());
  } catch (const Error& caught) {
    error = caught.what();
  }
  unsetenv("FAKE_MISSING");
  EXPECT_THAT(error, AllOf(HasSubstr("PJRT_Client_Create: deadline exceeded"),
                           HasSubstr("no process has put `a missing key` within 0.5 s")));
  EXPECT_GE(watch.seconds(), 0.5);
  EXPECT_LT(watch.seconds(), 8);
  meet();
}

TEST(Nodes, ReportWaitingOnce) {
  std::atomic<int> told = 0;
  std::string line;
  ClientSpec patient = spec();
  patient.on_wait = [&](const std::string& text) {
    line = text;
    ++told;
  };
  open_client(patient);
  EXPECT_EQ(told, 0);
  // The others wait for the last one.
  const bool late = world::test_world().rank() == 2;
  setenv("FAKE_SLOW", late ? "1" : "0", 1);
  patient.wait_seconds = 0.3;
  open_client(patient);
  unsetenv("FAKE_SLOW");
  EXPECT_EQ(told, 1);
  EXPECT_EQ(line, "waiting for 3 processes: was kinema started on all of them?");
  meet();
}

// It is called from a thread, whose error does not end the process.
TEST(Nodes, RethrowErrorsOfTheWait) {
  ClientSpec patient = spec();
  patient.on_wait = [](const std::string&) { throw Error("no console"); };
  patient.wait_seconds = 0.3;
  setenv("FAKE_SLOW", world::test_world().rank() == 2 ? "1" : "0", 1);
  EXPECT_THAT([&] { open_client(patient); }, testing::ThrowsMessage<Error>("no console"));
  unsetenv("FAKE_SLOW");
  meet();
}

// As when libtpu gets its pod from another source.
TEST(Nodes, RefuseDevicesOfOtherProcessesThanTheWorlds) {
  ClientSpec alone = spec();
  alone.hardware = "tpu";
  alone.world = {};
  alone.options = {{"node_id", int64_t{0}}, {"num_nodes", int64_t{1}}};
  EXPECT_EQ(open_client(alone).process_count(), 1);
  ClientSpec other = spec();
  other.hardware = "tpu";  // gets no topology, so each process believes to be alone
  std::string error;
  try {
    open_client(other);
  } catch (const Error& caught) {
    error = caught.what();
  }
  EXPECT_THAT(error, AllOf(HasSubstr("the devices are of 1 processes, but kinema was started as 3"),
                           HasSubstr("TPU_WORKER_HOSTNAMES")));
  meet();
}

}  // namespace
}  // namespace kinema::runtime
