#pragma once

#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "kinema/allocator/large_blocks.h"
#include "kinema/command/command.h"
#include "kinema/config/config.h"
#include "kinema/core/dtype.h"
#include "kinema/networks/open.h"
#include "kinema/resolve/device.h"

/// The command line of the benches; their peers take the same words.
namespace kinema::bench {

/// How often, in which precision, and where compiled programs go.
struct RunSettings {
  int64_t runs = 5, warmup = 1;
  std::string dtype = "float32", hardware = "cpu", plugin, isa = "auto", cache, dump;

  DType precision() const { return *dtype_from_string(dtype); }
  /// What the command would be told of the device, so that benches have its kernels and flags.
  config::Config config() const {
    const std::vector<std::string> words{"hardware=" + hardware, "pjrt_plugin=" + plugin,
                                         "cpu_isa=" + isa, "executable_cache=" + cache,
                                         "dump_to=" + dump};
    return config::load_defaults(words).config;
  }
  pjrt::Client open() const { return resolve::open_client(config(), {}); }
  runtime::ProgramOptions program(const std::string& name) const {
    runtime::ProgramOptions options = resolve::program_options(config());
    options.name = name;
    return options;
  }
  void add_to(command::Command command, const std::string& name_of_runs = "--runs") {
    command.option(name_of_runs, runs);
    command.option("--warmup", warmup);
    command.option("--dtype", dtype).one_of({"float32", "bfloat16"});
    command.option("--hardware", hardware).one_of({"cpu", "gpu", "tpu"});
    command.option("--plugin", plugin, "path of the PJRT plugin");
    command.option("--isa", isa, "the most of the instruction set that kinema uses");
    command.option("--cache", cache, "executable cache folder");
    command.option("--dump", dump, "folder for the programs' text");
  }
};

/// A Wan transformer and what it is given.
struct TransformerSettings {
  int64_t layers, heads, head_dim, ffn;
  int64_t frames, height, width, text = 512, text_dim = 4096, channels = 16;

  void add_to(command::Command command) {
    command.option("--layers", layers);
    command.option("--heads", heads);
    command.option("--head-dim", head_dim);
    command.option("--ffn", ffn);
    command.option("--frames", frames, "latent frames");
    command.option("--height", height, "latent rows");
    command.option("--width", width, "latent columns");
    command.option("--text", text, "text tokens");
    command.option("--text-dim", text_dim);
    command.option("--channels", channels);
  }
  networks::Network network() const {
    io::Json config = networks::default_config();
    config.set("num_layers", layers);
    config.set("num_attention_heads", heads);
    config.set("attention_head_dim", head_dim);
    config.set("ffn_dim", ffn);
    config.set("text_dim", text_dim);
    config.set("in_channels", channels);
    config.set("out_channels", channels);
    return networks::from_config(config);
  }
};

/// Reads the command line and does what the program does; an error is one line, and 1 is returned.
inline int parse_and_run(command::Program& program, int argc, char** argv) {
  allocator::keep_large_blocks();  // as kinema itself does
  try {
    return program.run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << "\n";
    return 1;
  }
}

/// What a program does.
template <typename Run>
command::Command::Action action(const Run& run) {
  return [run] {
    run();
    return 0;
  };
}

}  // namespace kinema::bench
