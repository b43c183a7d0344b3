#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// Attention: the algorithm, its kernels, and their block sizes.
struct AttentionConfig {
  std::string attention = "flash";
  int64_t flash_min_seq_length = 4096;
  bool mask_padding_tokens = true;
  bool split_head_dim = true;
  int64_t ulysses_shards = -1;
  int64_t ulysses_attention_chunks = 1;
  bool attention_kernels = true;
  GpuAttentionKernel attention_gpu_kernel = GpuAttentionKernel::AUTO;
  bool norm_rotation_kernel = true;
  bool use_base2_exp = true;
  bool use_experimental_scheduler = true;
  Given<Tree> flash_block_sizes =
      Tree{R"({"block_q": 512, "block_kv_compute": 512, "block_kv": 512, "block_q_dkv": 512, )"
           R"("block_kv_dkv": 512, "block_kv_dkv_compute": 512, "block_q_dq": 512, )"
           R"("block_kv_dq": 512, "use_fused_bwd_kernel": false})"};
  bool enable_tile_search = false;
  std::string tile_search_mode = "smart";
  int64_t tile_search_iters = 10;
  std::string tile_search_out;

  bool operator==(const AttentionConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("attention", self.attention, MAY_CHANGE,
          {.help =
               "attention implementation; the names of MaxDiffusion's kernels select the same kind",
           .one_of = "dot_product | flash | tokamax_flash | cudnn_flash_te | ring | tokamax_ring | "
                     "tokamax_ring_custom | ulysses | ulysses_custom | ulysses_custom_fixed_m | "
                     "ulysses_ring | ulysses_ring_custom | ulysses_ring_custom_fixed_m | "
                     "ulysses_ring_custom_bidir",
           .share = Share::YES});
    visit("flash_min_seq_length", self.flash_min_seq_length, MAY_CHANGE,
          {.help = "sequences shorter than this use dot_product", .min = 0, .share = Share::YES});
    visit("mask_padding_tokens", self.mask_padding_tokens, MAY_CHANGE,
          {.help = "mask out keys that only pad blocks or devices", .share = Share::YES});
    visit("split_head_dim", self.split_head_dim, MAY_CHANGE,
          {.help = "dot_product: keep heads as a separate axis; false: fold them into the batch",
           .share = Share::YES});
    visit("ulysses_shards", self.ulysses_shards, MAY_CHANGE,
          {.help = "ulysses_ring: number of devices that exchange heads; -1: derived from the mesh",
           .min = -1,
           .not_zero = true});
    visit("ulysses_attention_chunks", self.ulysses_attention_chunks, MAY_CHANGE,
          {.help = "ulysses: number of groups in which heads are exchanged", .min = 1});
    visit("attention_kernels", self.attention_kernels, MAY_CHANGE,
          {.help = "accelerators: use attention kernels; false: XLA operations"});
    visit("attention_gpu_kernel", self.attention_gpu_kernel, MAY_CHANGE,
          {.help = "attention kernel on NVIDIA GPUs; auto: cuDNN where it supports the shape, else "
                   "Triton, else blockwise; cudnn_fp8: cuDNN with an 8-bit forward pass",
           .one_of = choices(self.attention_gpu_kernel)});
    visit("norm_rotation_kernel", self.norm_rotation_kernel, MAY_CHANGE,
          {.help = "NVIDIA GPUs, sampling: fuse norm and RoPE of queries and keys into one kernel; "
                   "off where attention_kernels is false"});
    visit("use_base2_exp", self.use_base2_exp, MAY_CHANGE,
          {.help = "TPU attention kernels: use base-2 exponentials"});
    visit("use_experimental_scheduler", self.use_experimental_scheduler, MAY_CHANGE,
          {.help = "accepted and ignored: the compiler's default scheduler is used"});
    visit(
        "flash_block_sizes", self.flash_block_sizes, MAY_CHANGE,
        {.help = "block sizes of queries and keys in attention kernels (docs/guides/attention.md)",
         .share = Share::YES});
    visit("enable_tile_search", self.enable_tile_search, UNRELATED,
          {.help = "autotune attention block sizes before the run: by time on the device; in plans "
                   "by the compiler's schedule"});
    visit("tile_search_mode", self.tile_search_mode, UNRELATED,
          {.help = "block sizes to try", .one_of = "smart | full", .with = "enable_tile_search"});
    visit("tile_search_iters", self.tile_search_iters, UNRELATED,
          {.help = "timed runs per block size", .min = 1, .with = "enable_tile_search"});
    visit("tile_search_out", self.tile_search_out, UNRELATED,
          {.help = "folder for the table of results", .with = "enable_tile_search"});
  }
};

}  // namespace kinema::config
