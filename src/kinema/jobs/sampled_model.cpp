#include "kinema/jobs/sampled_model.h"

#include <utility>

#include "kinema/jobs/shared_generation.h"
#include "kinema/model_source/controlnets.h"
#include "kinema/model_source/lora.h"
#include "kinema/model_source/model_options.h"
#include "kinema/model_source/model_schedule.h"
#include "kinema/model_source/models.h"
#include "kinema/networks/open.h"
#include "kinema/resolve/stored_paths.h"
#include "kinema/sample/pipeline.h"

namespace kinema::jobs {

namespace fs = std::filesystem;

SampledModel open_model(const resolve::Settings& loaded, fs::path& checkpoint, const Job& job) {
  SampledModel out{.options = model_source::model_options(loaded)};
  read_together(
      checkpoint,
      [&] {
        out.model = model_source::find_model(loaded, job);
        checkpoint = out.model.checkpoint();
        out.adapters = model_source::add_lora(loaded, out.options, out.model, job);
        out.controlnets = model_source::add_controlnets(loaded, out.model, job);
        out.network = networks::open(out.model.folder.transformer);
      },
      job);
  job.notice(sample::warnings(out.model.folder));
  job.notice(model_source::file_notices(out.model.folder.transformer));
  return out;
}

resolve::Settings with_local_inputs(const resolve::Settings& given, fs::path& checkpoint,
                                    const Job& job) {
  resolve::Settings loaded = resolve::with_local_checkpoint(given, job);
  job.notice(model_source::check_run(loaded));
  const bool from_run = model_source::has_checkpoint(loaded) && !model_source::has_adapter(loaded);
  loaded = model_source::with_local_models(
      std::move(loaded),
      from_run ? model_source::Use::GENERATE_FROM_RUN : model_source::Use::GENERATE, job);
  if (const auto step =
          agree_on_checkpoint([&] { return model_source::find_model(loaded, job); }, job)) {
    loaded = model_source::with_checkpoint_step(loaded, *step);
    checkpoint = model_source::checkpoint_folder(loaded, *step);
  }
  return loaded;
}

}  // namespace kinema::jobs
