#include "kinema/cli/examples.h"

#include <map>

namespace kinema::cli {

std::string examples(const std::string& command) {
  static const std::map<std::string, const char*> kLines{
      {"train",
       "  kinema train configs/shapes.yml\n"
       "  kinema train configs/finetune.yml run_name=cats train_data_dir=clips "
       "max_train_steps=500\n"
       "  kinema train configs/finetune.yml run_name=cats train_data_dir=clips "
       "max_train_steps=900\n"
       "      (resumes the run)"},
      {"generate",
       "  kinema generate Wan-AI/Wan2.1-T2V-1.3B-Diffusers prompt=\"a red panda eats bamboo\"\n"
       "  kinema generate configs/shapes.yml run_name=shapes prompt=\"a red circle\" seed=7\n"
       "  kinema generate samples/000_a_red_circle.json num_inference_steps=50"},
      {"agent",
       "  kinema agent train configs/dreamer.yml task=native_catch run_name=catch\n"
       "  kinema agent eval outputs/catch --video\n"
       "  kinema agent play outputs/catch"},
      {"prepare",
       "  kinema prepare configs/finetune.yml train_data_dir=clips tfrecords_dir=records\n"
       "  kinema prepare configs/finetune.yml train_data_dir=clips tfrecords_dir=records \\\n"
       "      eval_tfrecords_dir=held_out num_eval_samples=42"},
      {"evaluate",
       "  kinema evaluate configs/finetune.yml run_name=cats eval_data_dir=held_out\n"
       "  kinema evaluate configs/finetune.yml run_name=cats eval_data_dir=held_out "
       "generate_checkpoint_step=500"},
      {"verify",
       "  kinema verify tests/golden\n"
       "  kinema verify tests/golden --filter vae --scan on\n"
       "  kinema verify --kernels hardware=tpu"},
      {"inspect",
       "  kinema inspect clips\n"
       "  kinema inspect clips config=configs/finetune.yml --preview sheet.png\n"
       "  kinema inspect outputs/shapes/checkpoints/400\n"
       "  kinema inspect --check records && echo accepted"},
      {"config",
       "  kinema config configs/shapes.yml learning_rate=1e-4\n"
       "  kinema config configs/shapes.yml --json"},
      {"flags",
       "  kinema flags list\n"
       "  kinema flags check \"--xla_tpu_scoped_vmem_limit_kib=65536\" target=v6e:4x4\n"
       "  kinema flags dump configs/shapes.yml target=h100:8"},
      {"doctor",
       "  kinema doctor\n"
       "  kinema doctor hardware=gpu\n"
       "  kinema doctor --install tpu"},
      {"plan",
       "  kinema plan configs/wan21_t2v_14b.yml target=v6e:4x4 per_device_batch_size=0.0625\n"
       "  kinema plan configs/wan21_t2v_14b.yml target=h100:8 mode=generate\n"
       "  kinema plan configs/wan21_t2v_14b.yml target=v6e:4x4 --sweep --mesh context:16 --batch "
       "1"},
      {"convert",
       "  kinema convert Wan2.1-T2V-1.3B model.safetensors --to comfyui\n"
       "  kinema convert lora.safetensors lora_kohya.safetensors --to kohya --dtype bfloat16\n"
       "  kinema convert Wan2.1_VAE.pth Wan2.1_VAE.safetensors"},
      {"watch",
       "  kinema watch outputs/shapes\n"
       "  kinema watch outputs/shapes --once\n"
       "  kinema watch gs://bucket/outputs/shapes --json"},
      {"compare",
       "  kinema compare outputs/shapes outputs/shapes_wsd\n"
       "  kinema compare outputs/shapes outputs/shapes_wsd --svg curves.svg"},
  };
  const auto found = kLines.find(command);
  return found == kLines.end() ? "" : "Examples:\n" + std::string(found->second);
}

}  // namespace kinema::cli
