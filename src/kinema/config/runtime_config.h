#pragma once

#include <cstdint>
#include <string>

#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// Switches of the machinery below the model: what is checked while it runs, how programs are
/// compiled and run, how the device's memory is taken.
struct RuntimeConfig {
  bool deterministic = false;
  bool debug_nans = false;
  bool transfer_guard = false;
  int64_t check_replicas_every = 100;
  bool jit = true;
  int64_t optimization_level = -1;
  double optimization_effort = 0.0;

  bool preallocate = true;
  double memory_fraction = 0.0;
  std::string allocator;
  int64_t mock_devices = 0;
  int64_t heartbeat_timeout_seconds = 30;
  Given<int64_t> num_processes = 1;
  int64_t process_id = 0;
  std::string coordinator_address;

  bool operator==(const RuntimeConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("deterministic", self.deterministic, MAY_CHANGE,
          {.help = "results may not depend on the run or on how arrays are split: on GPUs the "
                   "flags of profile gpu-deterministic, elsewhere an error for flags against it",
           .share = Share::YES});
    visit(
        "debug_nans", self.debug_nans, UNRELATED,
        {.help = "a training step that is not finite is made again operation by operation, and the "
                 "first bad one is named"});
    visit("transfer_guard", self.transfer_guard, UNRELATED,
          {.help = "training: a copy between host and device within the steps is an error, other "
                   "than a batch in and its metrics out"});
    visit("check_replicas_every", self.check_replicas_every, UNRELATED,
          {.help = "steps between comparisons, bit by bit, of what several devices hold copies of; "
                   "also before each checkpoint; 0: never",
           .min = 0});
    visit("heartbeat_timeout_seconds", self.heartbeat_timeout_seconds, UNRELATED,
          {.help = "several processes: one that is not heard of, or stands still while others wait "
                   "for it, is named and has ended the run after so long",
           .min = 1});
    visit("num_processes", self.num_processes, UNRELATED,
          {.help = "of a run over several processes that no launcher started; mpirun, srun and TPU "
                   "pods say it themselves",
           .min = 1,
           .max = 65536,
           .of = Of::START});
    visit("process_id", self.process_id, UNRELATED,
          {.help = "which of them this one is, from 0",
           .min = 0,
           .max = 65535,
           .with = "num_processes",
           .of = Of::PROCESS});
    visit("coordinator_address", self.coordinator_address, UNRELATED,
          {.help = "HOST:PORT where process 0 listens for the others; on TPU pods and under srun "
                   "another than the one they name",
           .of = Of::START});
    visit("jit", self.jit, MAY_CHANGE,
          {.help = "false: each block of a model is compiled, run and waited for alone"});
    visit("optimization_level", self.optimization_level, MAY_CHANGE,
          {.help = "how hard programs are optimized: 0 compiles fastest; on CPU and GPU the code "
                   "generator's level, on TPU the compiler's O0 to O3; -1: the compiler's own",
           .min = -1,
           .max = 3});
    visit("optimization_effort", self.optimization_effort, MAY_CHANGE,
          {.help = "how much compile time a faster program may cost; 0: the compiler's own",
           .min = -1,
           .max = 1});

    visit("preallocate", self.preallocate, UNRELATED,
          {.help = "GPU: take the memory at once; false: as it is needed"});
    visit("memory_fraction", self.memory_fraction, UNRELATED,
          {.help = "GPU: share of the memory that may be taken; 0: the plugin's own, 0.75",
           .min = 0,
           .max = 1});
    visit("allocator", self.allocator, UNRELATED,
          {.help = "GPU: who hands out memory; empty: the plugin's own",
           .one_of = " | default | platform | bfc | cuda_async | vmm | address"});
    visit("mock_devices", self.mock_devices, UNRELATED,
          {.help = "try a run without its devices: so many of the CPU plugin stand for those of "
                   "`hardware`, whose compiler flags are left out; 0: none",
           .min = 0,
           .max = 1024});
  }
};

}  // namespace kinema::config
