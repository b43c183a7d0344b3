#include "kinema/world/keys.h"

#include <gmock/gmock.h>

#include <map>
#include <mutex>
#include <thread>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"

namespace kinema::world {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A key-value store in this process, as several processes would see it.
class StoreEngine : public Engine {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 2; }
  std::string name() const override { return "a store"; }
  int open_channel() override { return 0; }
  std::unique_ptr<Pending> send(int, Message, int64_t, int) override { return nullptr; }
  std::unique_ptr<Pending> receive(int, size_t, int64_t, int) override { return nullptr; }
  void put(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(values_.emplace(key, value).second) << key << " was put twice";
    longest_ = std::max(longest_, key.size());
  }
  std::optional<std::string> get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    ++asked_;
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  size_t longest() const { return longest_; }
  int asked() const { return asked_; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  size_t longest_ = 0;
  int asked_ = 0;
};

TEST(Keys, WaitsForALaterKey) {
  const auto engine = std::make_shared<StoreEngine>();
  Keys keys(engine);
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(30));
    keys.put("a", std::string("b\0c", 3));
  });
  EXPECT_EQ(keys.get("a", milliseconds(10000)), std::string("b\0c", 3));
  later.join();
  EXPECT_EQ(keys.find("a"), std::string("b\0c", 3));
  EXPECT_EQ(keys.find("b"), std::nullopt);
}

TEST(Keys, NamesAKeyThatTimesOut) {
  const auto engine = std::make_shared<StoreEngine>();
  Keys keys(engine);
  const Stopwatch watch;
  EXPECT_THAT([&] { keys.get("a/b", milliseconds(300)); },
              ThrowsMessage<Error>("[world] no process has put `a/b` within 0.3 s"));
  EXPECT_GE(watch.seconds(), 0.3);
  EXPECT_LE(engine->asked(), 12) << "pauses of 1, 2, 4 ... 100 ms";
  EXPECT_THAT([&] { keys.get("a", milliseconds(0)); },
              ThrowsMessage<Error>(HasSubstr("within 0 s")));
}

TEST(Keys, StopsWaitingWhenAnotherProcessFailed) {
  Keys keys(std::make_shared<StoreEngine>(), [] { return std::string("[a] process 1 fell"); });
  EXPECT_THAT([&] { keys.get("a", milliseconds(60000)); },
              ThrowsMessage<Error>("[a] process 1 fell"));
}

// A process's second client puts its keys again, with other values.
TEST(Keys, AreOfOneObject) {
  const auto engine = std::make_shared<StoreEngine>();
  Keys first(engine);
  Keys second(engine);
  first.put("a", "1");
  EXPECT_EQ(second.find("a"), std::nullopt);
  second.put("a", "2");
  EXPECT_EQ(first.find("a"), "1");
}

// PMIx allows 511 bytes.
TEST(Keys, MayBeLong) {
  const auto engine = std::make_shared<StoreEngine>();
  Keys keys(engine);
  const std::string name(5000, 'x');
  keys.put(name + "1", "one");
  keys.put(name + "2", "two");
  EXPECT_EQ(keys.find(name + "1"), "one");
  EXPECT_EQ(keys.find(name + "2"), "two");
  EXPECT_LE(engine->longest(), 511U);
}

}  // namespace
}  // namespace kinema::world
