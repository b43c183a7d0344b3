// Programs over several devices of one process, against XLA's own client.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kinema/core/error.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/ops.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/program.h"
#include "runtime/cpu_mesh.h"

namespace kinema::runtime {
namespace {

constexpr int64_t kDevices = 4;

/// Many sums over all devices that do not wait for each other.
std::vector<Tensor> many_sums(Graph& graph) {
  std::vector<Tensor> out;
  const Tensor x = graph.input({DType::F32, {8, 64}}, "x", {{{"data"}, {}}});
  for (int i = 0; i < 24; ++i) {
    const Tensor part = tanh(x * (1.0 + 0.1 * i));
    out.push_back(sum(part * part, {0}));
  }
  return out;
}

struct Made {
  std::vector<HostArray> results;
  bool from_cache = false;
};

Made run(const pjrt::Client& client, int times, const std::string& cache = "") {
  const Devices devices = devices_of(client, mesh_sizes(kDevices, 1, 1, 1));
  Graph graph;
  const std::vector<Tensor> outputs = many_sums(graph);
  ProgramOptions options{.name = "sums", .executable_cache = cache};
  options.emit.output_shardings.assign(outputs.size(), Sharding());
  split_over(devices, options);
  const Program program = Program::compile(client, graph, outputs, options);
  HostArray x({DType::F32, {8, 64}});
  for (size_t i = 0; i < x.as<float>().size(); ++i) {
    x.as<float>()[i] = 0.01F * static_cast<float>(i) - 2;
  }
  const Array given = devices.upload(x, {{{"data"}, {}}});
  const std::vector<const Array*> arguments{&given};
  std::vector<Array> last;
  for (int i = 0; i < times; ++i) {
    last = program.run(devices, arguments);
  }
  Made out{.from_cache = program.report().from_cache};
  for (const Array& each : last) {
    for (const pjrt::Buffer& shard : each.shards()) {
      out.results.push_back(shard.to_host());
    }
  }
  return out;
}

void expect_equal(const Made& one, const Made& other) {
  ASSERT_EQ(one.results.size(), other.results.size());
  for (size_t i = 0; i < one.results.size(); ++i) {
    EXPECT_TRUE(one.results[i].bytes == other.results[i].bytes) << i;
  }
}

pjrt::Client opened() { return open_client({.cpu_devices = kDevices}); }

// XLA's own client may deadlock here: each of its threads waits for a device that has no thread.
TEST(OneProcess, ManyCollectivesAtOnceDoNotWaitForThreads) {
  const pjrt::Client client = opened();
  expect_equal(run(client, 1), run(client, 200));
}

TEST(OneProcess, HasTheBitsOfXlasOwnCollectives) {
  // One sum at a time, which XLA's client can run.
  const auto one = [](const pjrt::Client& client) {
    const Devices devices = devices_of(client, mesh_sizes(2, 2, 1, 1));
    Graph graph;
    const Tensor x = graph.input({DType::F32, {8, 16}}, "x", {{{"data"}, {"fsdp"}}});
    const std::vector<Tensor> outputs{matmul(x, transpose(x, {1, 0}))};
    ProgramOptions options{.name = "product"};
    options.emit.output_shardings = {Sharding()};
    split_over(devices, options);
    const Program program = Program::compile(client, graph, outputs, options);
    HostArray values({DType::F32, {8, 16}});
    for (size_t i = 0; i < values.as<float>().size(); ++i) {
      values.as<float>()[i] = 0.1F * static_cast<float>(i % 37) - 1.7F;
    }
    const Array given = devices.upload(values, {{{"data"}, {"fsdp"}}});
    const std::vector<const Array*> arguments{&given};
    Made out;
    for (const Array& each : program.run(devices, arguments)) {
      out.results.push_back(each.shards()[0].to_host());
    }
    return out;
  };
  const pjrt::Client plain(pjrt::Plugin::load(find_plugin({})), {{"cpu_device_count", kDevices}});
  expect_equal(one(opened()), one(plain));
}

TEST(OneProcess, ProgramsAreKeptAndLoaded) {
  const std::string folder =
      (std::filesystem::path(testing::TempDir()) / fmt::format("kinema_one_process_{}", getpid()))
          .string();
  const pjrt::Client client = opened();
  const Made compiled = run(client, 2, folder);
  EXPECT_FALSE(compiled.from_cache);
  const Made loaded = run(client, 2, folder);
  EXPECT_TRUE(loaded.from_cache);
  expect_equal(compiled, loaded);
  {
    // A second client, whose calls must not mix with the first one's: it compiles its own program.
    const pjrt::Client other = opened();
    expect_equal(compiled, run(other, 2, folder));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kinema::runtime
