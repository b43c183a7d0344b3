#pragma once

#include <cstdint>
#include <string>

#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// Settings below the model: checks at run time, compilation, and device memory.
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
          {.help = "require deterministic results: on GPUs uses the flags of profile "
                   "gpu-deterministic; elsewhere nondeterministic flags are an error",
           .share = Share::YES});
    visit("debug_nans", self.debug_nans, UNRELATED,
          {.help = "re-run a non-finite training step operation by operation and name the first "
                   "non-finite result"});
    visit("transfer_guard", self.transfer_guard, UNRELATED,
          {.help = "training: error on any host-device transfer within a step except the batch and "
                   "the metrics"});
    visit("check_replicas_every", self.check_replicas_every, UNRELATED,
          {.help = "steps between bit-exact comparisons of replicated values across devices; also "
                   "before each checkpoint; 0: never",
           .min = 0});
    visit("heartbeat_timeout_seconds", self.heartbeat_timeout_seconds, UNRELATED,
          {.help = "several processes: seconds without a heartbeat or progress after which a "
                   "process counts as lost and the run ends",
           .min = 1});
    visit("num_processes", self.num_processes, UNRELATED,
          {.help = "number of processes, for runs without a launcher; mpirun, srun and TPU pods "
                   "set it themselves",
           .min = 1,
           .max = 65536,
           .of = Of::START});
    visit("process_id", self.process_id, UNRELATED,
          {.help = "rank of this process, from 0",
           .min = 0,
           .max = 65535,
           .with = "num_processes",
           .of = Of::PROCESS});
    visit("coordinator_address", self.coordinator_address, UNRELATED,
          {.help = "HOST:PORT of process 0; on TPU pods and under srun, overrides theirs",
           .of = Of::START});
    visit("jit", self.jit, MAY_CHANGE,
          {.help = "false: compile, run and wait for each block of a model separately"});
    visit("optimization_level", self.optimization_level, MAY_CHANGE,
          {.help = "compiler optimization level: 0 compiles fastest; LLVM's level on CPU and GPU, "
                   "O0 to O3 on TPU; -1: compiler default",
           .min = -1,
           .max = 3});
    visit("optimization_effort", self.optimization_effort, MAY_CHANGE,
          {.help = "compile time to spend on a faster program; 0: compiler default",
           .min = -1,
           .max = 1});

    visit("preallocate", self.preallocate, UNRELATED,
          {.help = "GPU: allocate device memory at start; false: on demand"});
    visit("memory_fraction", self.memory_fraction, UNRELATED,
          {.help = "GPU: fraction of device memory to use; 0: the plugin's default, 0.75",
           .min = 0,
           .max = 1});
    visit("allocator", self.allocator, UNRELATED,
          {.help = "GPU: memory allocator; empty: the plugin's default",
           .one_of = " | default | platform | bfc | cuda_async | vmm | address"});
    visit("mock_devices", self.mock_devices, UNRELATED,
          {.help = "test a configuration without its hardware: number of CPU devices that stand in "
                   "for those of `hardware`, without its compiler flags; 0: off",
           .min = 0,
           .max = 1024});
  }
};

}  // namespace kinema::config
