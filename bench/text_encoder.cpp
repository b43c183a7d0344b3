// UMT5 over one prompt that fills its length, as `kinema generate` runs it: rows of the embedding
// table go in, states come out. One JSON line; bench/peers/torch_text_encoder.py takes the same
// arguments.
#include "kinema/models/t5/encoder.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/program.h"
#include "kinema/weights/weights.h"
#include "measure.h"
#include "options.h"

namespace kinema {
namespace {

struct Settings {
  int64_t layers = 2, tokens = 512;
  bench::RunSettings run;
};

void run(const Settings& s) {
  const bench::Clock::time_point start = bench::Clock::now();
  pjrt::Client client = s.run.open();
  const t5::EncoderConfig config{.num_layers = s.layers};  // the other sizes are umt5-xxl's
  const DType dtype = s.run.precision();
  const t5::EncoderOptions options{.weights_dtype = dtype, .activations_dtype = dtype};
  const auto specs = t5::parameters(config, options);
  Graph graph;
  std::vector<Tensor> tensors;
  for (const nn::ParamSpec& spec : specs) {
    tensors.push_back(graph.input(spec.shape, spec.name));
  }
  const t5::EncoderInputs inputs{
      .embeddings = graph.input({dtype, {1, s.tokens, config.d_model}}, "embeddings"),
      .mask = graph.input({DType::F32, {1, s.tokens}}, "mask")};
  const std::vector<Tensor> outputs{
      convert(t5::encoder(tensors, config, options, inputs), DType::F32)};
  const auto params = weights::initialise(specs, 0, client);
  bench::weights_are_there(params);
  const auto program = runtime::Program::compile(client, graph, outputs, s.run.program("umt5"));

  const pjrt::Buffer embeddings =
      client.to_device(convert(bench::noise({1, s.tokens, config.d_model}, 1), dtype));
  HostArray all(Shape{DType::F32, {1, s.tokens}});
  for (float& one : all.as<float>()) {
    one = 1.0F;
  }
  const pjrt::Buffer mask = client.to_device(all);
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& param : params) {
    arguments.push_back(&param);
  }
  arguments.insert(arguments.end(), {&embeddings, &mask});
  double first = 0;
  double sum = 0;
  const auto seconds = bench::time_runs(s.run.warmup, s.run.runs, [&] {
    sum = bench::magnitude(program.run(arguments)[0].to_host());
    first = first > 0 ? first : bench::seconds_since(start);
  });
  bench::print_result(seconds, program.report().compile_seconds, first, sum);
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  kinema::command::Program program("text_encoder", "",
                                   "a UMT5 encoder of xxl width, random weights");
  kinema::command::Command command = program.itself();
  command.option("--layers", s.layers);
  command.option("--tokens", s.tokens);
  s.run.add_to(command);
  command.run(kinema::bench::action([&s] { kinema::run(s); }));
  return kinema::bench::parse_and_run(program, argc, argv);
}
