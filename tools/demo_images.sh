#!/usr/bin/env bash
# What ./dev demo images does after building: a UNet and a small Flux learn still frames of examples/shapes from
# scratch, each makes two pictures of 12 prompts, and those are scored. A second call goes on where the first one ended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

output=${KINEMA_DEMO_OUTPUT:-outputs}

say() { printf -- '-- %s\n' "$*"; }

for name in shapes_unet shapes_flux; do
  run=$output/$name
  settings=("configs/$name.yml" "output_dir=$output")
  begin=$SECONDS
  say "training $name"
  build/kinema train "${settings[@]}" "$@"
  trained=$SECONDS
  mkdir -p "$run/samples"
  samples=$(mktemp -d "$run/samples/demo.XXXXXX") # of this call alone, for the score
  chmod 755 "$samples"
  say "making two pictures of each of $(wc -l <examples/shapes/stills.txt) prompts"
  build/kinema generate "${settings[@]}" "video_folder=$samples" "$@" >/dev/null
  printf '%s ' "$name"
  build/shapes_score "$samples" --quiet --min-colour 95 --min-shape 90
  cat <<TEXT

run folder     $run
loss curve     $run/loss.svg (numbers: $run/metrics.jsonl)
pictures       $samples/*.png
contact sheet  $samples/contact_sheet.png
training took $((trained - begin)) s, everything $((SECONDS - begin)) s

TEXT
done
