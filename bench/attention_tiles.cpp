// Tiles of the TPU attention kernels by the schedules of the chips' compiler: what
// kernels/tpu/tiles.cpp takes its sizes from. No TPU is needed, libtpu is
// (`kinema doctor --install tpu`).
#include <fmt/core.h>

#include <cinttypes>
#include <cstdio>
#include <memory>

#include "kinema/command/command.h"
#include "kinema/core/error.h"
#include "kinema/planning/tile_search.h"
#include "kinema/runtime/client.h"

namespace kinema {
namespace {

struct Settings {
  std::string target = "v5p:2x2x1";
  std::string program;
  int64_t heads = 40, queries = 18900, keys = 75600, width = 128;
  std::vector<std::string> tiles;
  bool all = false, f32 = false, fused = false, json = false, forward_only = false;
};

/// `9472,1024,256`: queries, keys, keys at a time.
kernels::FlashBlockSizes read_sizes(const std::string& text) {
  int64_t q = 0, kv = 0, compute = 0;
  check(std::sscanf(text.c_str(), "%" SCNd64 ",%" SCNd64 ",%" SCNd64, &q, &kv, &compute) == 3,
        "[bench] --tiles is `{}`, expected queries,keys,keys at a time", text);
  return {.block_q = q,
          .block_kv = kv,
          .block_kv_compute = compute,
          .block_q_dkv = q,
          .block_kv_dkv = kv,
          .block_kv_dkv_compute = compute,
          .block_q_dq = q,
          .block_kv_dq = kv,
          .asked = true};
}

/// These tiles alone, in place of a search.
std::vector<planning::TileTable> tables_of(const std::vector<kernels::AttentionCall>& calls,
                                           const Settings& given,
                                           const planning::KernelCompiler& compiler) {
  std::vector<planning::TileTable> out;
  for (kernels::AttentionCall call : calls) {
    for (const kernels::FlashPass pass : kernels::flash_passes(call)) {
      planning::TileTable table{.call = call, .pass = pass};
      for (const std::string& text : given.tiles) {
        const bool fused = call.blocks.use_fused_bwd_kernel;
        call.blocks = read_sizes(text);
        call.blocks.use_fused_bwd_kernel = fused;
        table.tried.push_back(planning::time_tiles(
            call, kernels::tile_candidates(call, pass, compiler.target.chip.kind, false).front(),
            compiler));
      }
      out.push_back(std::move(table));
    }
  }
  return out;
}

int run(const Settings& given) {
  const DType dtype = given.f32 ? DType::F32 : DType::BF16;
  kernels::AttentionCall call{.q = {dtype, {1, given.queries, given.heads, given.width}},
                              .k = {dtype, {1, given.keys, given.heads, given.width}},
                              .result = dtype};
  std::vector<kernels::AttentionCall> calls{call};
  if (!given.forward_only) {
    call.backward = true;
    call.blocks.use_fused_bwd_kernel = given.fused;
    calls.push_back(call);
  }
  runtime::ClientSpec spec;
  spec.hardware = "tpu";
  const planning::KernelCompiler compiler{.target = planning::parse_target(given.target),
                                          .plugin = runtime::find_plugin(spec),
                                          .program = given.program};
  const auto say = [](const planning::TileTiming& tried) {
    const kernels::FlashWork& work = tried.trial.work;
    fmt::print(
        stderr, "{} {} x {}, {} at a time: {}\n", kernels::name_of(tried.trial.pass), work.block_q,
        work.block_kv, work.block_kv_compute,
        tried.refused.empty() ? fmt::format("{:.3f} ms", 1e3 * tried.seconds) : tried.refused);
  };
  const auto tables = given.tiles.empty() ? planning::search_tiles(calls, compiler, given.all, say)
                                          : tables_of(calls, given, compiler);
  fmt::print("{}\n{}\n", given.target,
             given.json ? planning::to_json(tables).dump() : planning::to_text(tables));
  return 0;
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::command::Program program("bench_attention_tiles", "",
                                   "Tiles of TPU attention kernels by their static schedules");
  kinema::command::Command command = program.itself();
  const auto given = std::make_shared<kinema::Settings>();
  command.option("--target", given->target, "v5p:2x2x1, v6e:2x2, ...").shows_default();
  command.option("--program", given->program, "kinema, which compiles").required();
  command.option("--heads", given->heads).shows_default();
  command.option("--queries", given->queries).shows_default();
  command.option("--keys", given->keys).shows_default();
  command.option("--width", given->width, "of a head").shows_default();
  command.option("--tiles", given->tiles,
                 "queries,keys,keys at a time: these alone; may be repeated");
  command.flag("--all", given->all, "every combination of the usual sizes");
  command.flag("--f32", given->f32, "in place of bf16");
  command.flag("--fused", given->fused, "one backward kernel");
  command.flag("--forward", given->forward_only, "the forward kernel only");
  command.flag("--json", given->json, "print JSON");
  command.run([given] { return kinema::run(*given); });
  try {
    return program.run(argc, argv);
  } catch (const kinema::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
