#include "kinema/weights/family.h"

#include <algorithm>
#include <array>

namespace kinema::weights {
namespace {

constexpr std::array<PipelineClass, 2> kWanPipelines{
    {{"WanPipeline"}, {"WanImageToVideoPipeline", true}}};

constexpr std::array<Family, 1> kFamilies{{{.name = "Wan",
                                            .transformer_class = "WanTransformer3DModel",
                                            .original_class = "WanModel",
                                            .mark = "patch_embedding.weight",
                                            .pipelines = kWanPipelines}}};

void add(std::string& list, std::string_view name) {
  list += list.empty() ? "" : " or ";
  list += name;
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* family_of_config(const io::Json& config) {
  const io::Json* name = config.is_object() ? config.find("_class_name") : nullptr;
  if (name == nullptr || !name->is_string()) {
    return nullptr;
  }
  const auto* found = std::ranges::find_if(kFamilies, [&](const Family& family) {
    return name->as_string() == family.transformer_class ||
           name->as_string() == family.original_class;
  });
  return found == kFamilies.end() ? nullptr : found;
}

const PipelineClass* pipeline_class(std::string_view name) {
  for (const Family& family : kFamilies) {
    const auto found = std::ranges::find(family.pipelines, name, &PipelineClass::name);
    if (found != family.pipelines.end()) {
      return &*found;
    }
  }
  return nullptr;
}

std::string transformer_classes() {
  std::string list;
  for (const Family& family : kFamilies) {
    add(list, family.transformer_class);
  }
  return list;
}

std::string pipeline_classes() {
  std::string list;
  for (const Family& family : kFamilies) {
    for (const PipelineClass& each : family.pipelines) {
      add(list, each.name);
    }
  }
  return list;
}

}  // namespace kinema::weights
