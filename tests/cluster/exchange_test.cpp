// Collectives over a fake engine: what a program's memory contains, above all after a failure.
#include "kinema/cluster/exchange.h"

#include <gmock/gmock.h>

#include <cstring>
#include <future>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"

namespace kinema::cluster {
namespace {

using pjrt::CollectiveCall;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

template <typename T>
std::span<std::byte> bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

/// The other process, seen from this one: the test decides when its messages arrive.
class LateEngine : public world::Engine {
 public:
  /// A receive whose message may not have arrived yet.
  struct Promised {
    std::vector<std::byte> memory;  // the network writes into it
    size_t bytes = 0;
    bool arrived = false;
    bool is_dropped = false;
  };

  int64_t rank() const override { return 0; }
  int64_t size() const override { return 2; }
  std::string name() const override { return "late"; }
  int open_channel() override { return 0; }
  std::unique_ptr<world::Pending> send(int, world::Message message, int64_t, int) override {
    const std::lock_guard lock(mutex_);
    sent_.push_back(std::move(message));
    return std::make_unique<Sent>();
  }
  std::unique_ptr<world::Pending> receive(int, size_t bytes, int64_t, int) override {
    const std::lock_guard lock(mutex_);
    if (fails_) {
      throw std::runtime_error("no more memory");
    }
    wanted_.push_back(std::make_shared<Promised>(Promised{.memory = {}, .bytes = bytes}));
    return std::make_unique<Receiving>(*this, wanted_.back());
  }
  void put(const std::string&, const std::string&) override {}
  std::optional<std::string> get(const std::string&) override { return std::nullopt; }

  size_t wanted() {
    const std::lock_guard lock(mutex_);
    return wanted_.size();
  }
  /// Delivers the message of the i-th receive, even if nobody waits for it any more.
  void deliver(size_t i, const Floats& values) {
    const std::lock_guard lock(mutex_);
    Promised& promised = *wanted_.at(i);
    const auto from = std::as_bytes(std::span(values));
    promised.memory.assign(from.begin(), from.end());
    promised.arrived = true;
  }
  std::vector<world::Message> sent() {
    const std::lock_guard lock(mutex_);
    return sent_;
  }
  void fail_receives() { fails_ = true; }

 private:
  struct Sent : world::Pending {
    bool done() override { return true; }
  };
  struct Receiving : world::Pending {
    Receiving(LateEngine& engine, std::shared_ptr<Promised> promised)
        : engine_(engine), promised_(std::move(promised)) {}
    bool done() override {
      const std::lock_guard lock(engine_.mutex_);
      return promised_->arrived;
    }
    world::Message message() const override {
      return {promised_, std::span<const std::byte>(promised_->memory)};
    }
    LateEngine& engine_;
    std::shared_ptr<Promised> promised_;
  };

  std::mutex mutex_;
  std::vector<std::shared_ptr<Promised>> wanted_;
  std::vector<world::Message> sent_;
  std::atomic<bool> fails_ = false;
};

/// Two devices in this process, two in the other one.
std::shared_ptr<SharedProgram> program_of(CollectiveCall::Kind kind) {
  CollectiveCall call{.kind = kind, .name = "a call", .reduction = "add"};
  call.operands = {{.dims = {2}}};
  call.groups = {{0, 1, 2, 3}};
  call.pairs = {{0, 2}, {1, 3}, {2, 0}, {3, 1}};
  const auto out = std::make_shared<SharedProgram>();
  out->number = 1;
  out->calls = {call};
  out->process_of = {0, 0, 1, 1};
  out->partition_of = {{0, 0}, {1, 1}};
  out->tags = {0};
  return out;
}

/// A device's operand and result, in the program's memory.
struct Device {
  std::unique_ptr<Floats> given = std::make_unique<Floats>(2);
  std::unique_ptr<Floats> got = std::make_unique<Floats>(2, -1.0F);
  std::promise<std::string> done;

  Arrival arrival(int64_t partition) {
    *given = {static_cast<float>(partition), 1};
    return {.partition = partition,
            .dtype = DType::F32,
            .operands = {bytes(*given)},
            .results = {bytes(*got)},
            .done = [this](const std::string& error) { done.set_value(error); }};
  }
};

void wait_until(const std::function<bool()>& condition) {
  for (const Stopwatch watch; !condition();) {
    check(watch.seconds() < 20, "it never happened");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

struct Case {
  std::shared_ptr<LateEngine> engine = std::make_shared<LateEngine>();
  std::mutex mutex;
  std::string failure;
  Exchange exchange{engine, [this] {
                      const std::lock_guard lock(mutex);
                      return failure;
                    }};
  std::vector<Device> devices{2};

  void fail_with(const std::string& text) {
    const std::lock_guard lock(mutex);
    failure = text;
  }
};

TEST(Exchange, PermutesAndSumsValuesOfOtherProcesses) {
  Case permute;
  for (const int64_t partition : {0, 1}) {
    permute.exchange.arrive(program_of(CollectiveCall::Kind::COLLECTIVE_PERMUTE), 0,
                            permute.devices[partition].arrival(partition));
  }
  wait_until([&] { return permute.engine->wanted() == 2; });
  permute.engine->deliver(1, {3, 9});
  permute.engine->deliver(0, {2, 8});
  EXPECT_EQ(permute.devices[0].done.get_future().get(), "");
  EXPECT_EQ(permute.devices[1].done.get_future().get(), "");
  EXPECT_THAT(*permute.devices[0].got, ElementsAre(2, 8));
  EXPECT_THAT(*permute.devices[1].got, ElementsAre(3, 9));
  EXPECT_EQ(permute.engine->sent().size(), 2);

  Case sum;
  for (const int64_t partition : {0, 1}) {
    sum.exchange.arrive(program_of(CollectiveCall::Kind::ALL_REDUCE), 0,
                        sum.devices[partition].arrival(partition));
  }
  wait_until([&] { return sum.engine->wanted() == 2; });
  sum.engine->deliver(0, {2, 10});
  sum.engine->deliver(1, {3, 100});
  EXPECT_EQ(sum.devices[0].done.get_future().get(), "");
  EXPECT_EQ(sum.devices[1].done.get_future().get(), "");
  EXPECT_THAT(*sum.devices[1].got, ElementsAre(6, 112));
}

// The program frees its memory when it is told of the failure; the messages arrive later.
TEST(Exchange, WritesNothingAfterAFailure) {
  for (const auto kind :
       {CollectiveCall::Kind::COLLECTIVE_PERMUTE, CollectiveCall::Kind::ALL_REDUCE}) {
    Case run;
    for (const int64_t partition : {0, 1}) {
      run.exchange.arrive(program_of(kind), 0, run.devices[partition].arrival(partition));
    }
    wait_until([&] { return run.engine->wanted() == 2; });
    run.engine->deliver(0, {2, 8});
    run.fail_with("process 1 is lost");
    for (Device& device : run.devices) {
      EXPECT_EQ(device.done.get_future().get(), "process 1 is lost");
      device.given.reset();
      device.got.reset();
    }
    run.engine->deliver(0, {2, 8});
    run.engine->deliver(1, {3, 9});
    // Sent messages are complete, whatever happened to the operands.
    for (const world::Message& each : run.engine->sent()) {
      float second = 0;
      std::memcpy(&second, each.bytes().data() + sizeof second, sizeof second);
      EXPECT_EQ(second, 1);
    }
  }
}

// Another device was told of the failure at an earlier collective, and does not reach this one.
TEST(Exchange, FailsDevicesThatArriveAfterAFailure) {
  Case run;
  run.exchange.arrive(program_of(CollectiveCall::Kind::ALL_REDUCE), 0, run.devices[0].arrival(0));
  run.fail_with("process 1 is lost");
  EXPECT_EQ(run.devices[0].done.get_future().get(), "process 1 is lost");
  run.exchange.arrive(program_of(CollectiveCall::Kind::ALL_REDUCE), 0, run.devices[1].arrival(1));
  EXPECT_EQ(run.devices[1].done.get_future().get(), "process 1 is lost");
}

TEST(Exchange, ReportsItsThreadsErrorsToTheDevices) {
  Case run;
  run.engine->fail_receives();
  for (const int64_t partition : {0, 1}) {
    run.exchange.arrive(program_of(CollectiveCall::Kind::ALL_REDUCE), 0,
                        run.devices[partition].arrival(partition));
  }
  EXPECT_EQ(run.devices[0].done.get_future().get(), "no more memory");
  EXPECT_EQ(run.devices[1].done.get_future().get(), "no more memory");

  // An exception of the failure callback ends the thread; later callers are told too.
  std::atomic<bool> asks_fail = false;
  Exchange exchange(std::make_shared<LateEngine>(), [&]() -> std::string {
    if (asks_fail) {
      throw std::runtime_error("nobody can be asked");
    }
    return "";
  });
  std::vector<Device> devices(3);
  exchange.arrive(program_of(CollectiveCall::Kind::ALL_REDUCE), 0, devices[0].arrival(0));
  asks_fail = true;
  EXPECT_EQ(devices[0].done.get_future().get(), "nobody can be asked");
  exchange.arrive(program_of(CollectiveCall::Kind::ALL_REDUCE), 0, devices[1].arrival(0));
  EXPECT_EQ(devices[1].done.get_future().get(), "nobody can be asked");
}

}  // namespace
}  // namespace kinema::cluster
