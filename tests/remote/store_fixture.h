#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/remote/store.h"
#include "remote/store_servers.h"

namespace kinema::remote {

inline std::vector<std::string> names(const std::vector<StoredFile>& files) {
  std::vector<std::string> out;
  for (const StoredFile& file : files) {
    out.push_back(file.name);
  }
  return out;
}

/// Bytes that differ at every position, so that swapped or repeated pieces show.
inline std::string counted(size_t size) {
  std::string out;
  for (uint64_t i = 0; out.size() < size; ++i) {
    out.append(reinterpret_cast<const char*>(&i), sizeof(i));
  }
  out.resize(size);
  return out;
}

/// A folder of its own in the bucket of gcp-storage-emulator or moto.
class StoreTest : public testing::TestWithParam<const char*> {
 protected:
  StoreTest() { spoil(0); }
  ~StoreTest() override { spoil(0); }

  void spoil(double rate, const std::string& kinds = "503", double stall_s = 60) const {
    servers()->spoil(GetParam(), rate, kinds, stall_s);
  }
  std::string uri(const std::string& name = "") const {
    return fmt::format("{}://{}/{}/{}", GetParam(), StoreServers::kBucket,
                       testing::UnitTest::GetInstance()->current_test_info()->line(), name);
  }
  Store store(const Timeouts& timeouts = {.stall_s = 2, .retries = 16, .backoff_ms = 0}) const {
    return Store(*read_store_path(uri()), timeouts);
  }

  io::Scratch scratch_;
};

}  // namespace kinema::remote
