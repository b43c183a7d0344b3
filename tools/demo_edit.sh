#!/usr/bin/env bash
# What ./dev demo edit does after building: a UNet learns to fill in a part of a picture, and a small Wan to move a
# shape along the path of a control video, both from scratch; then shapes are replaced in 12 pictures, 12 paths are
# followed, and the results are scored. A second call goes on where the first one ended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

output=${KINEMA_DEMO_OUTPUT:-outputs}
data=$output/shapes_edits
fresh=$output/shapes_edits_new
begin=$SECONDS

say() { printf -- '-- %s\n' "$*"; }

# Those of examples/shapes, with their paths; and 48 that no model is trained on.
say "drawing the clips and their paths"
[ -e "$data/metadata.jsonl" ] || build/make_shapes "$data" --paths
[ -e "$fresh/metadata.jsonl" ] || build/make_shapes "$fresh" --paths --stills --clips 48 --seed 1
mapfile -t prompts <examples/shapes/stills.txt

# make NAME FIELDS KEY=VALUE...: one result of each prompt, made by the run NAME from the files of a new clip, whose
# name replaces CLIP, in FOLDER. FIELDS are those of the result in metadata.jsonl, by which it is scored.
make() {
  local run=$output/$1 fields=$2 clip file i words
  shift 2
  samples=$(mktemp -d "$run/edits.XXXXXX") # of this call alone
  chmod 755 "$samples"
  cp -r "$fresh"/{paths,stills,masks} "$samples"
  for i in "${!prompts[@]}"; do
    clip=$(printf 'clip_%04d' $((i * 5 % 48)))
    words=("${@//CLIP/$clip}")
    build/kinema generate "$run/config.yml" "prompt=${prompts[i]}" seed="$i" "video_folder=$samples/$i" \
      contact_sheet=false "${words[@]//FOLDER/$samples}" >/dev/null
    rm -f "$samples/$i/metadata.jsonl" # the one for the score lists all
    file=$(cd "$samples" && find "$i" -name '*.mp4' -o -name '*.png')
    printf '{"file_name": "%s", "text": "%s", %s}\n' "$file" "${prompts[i]}" "${fields//CLIP/$clip}"
  done >"$samples/metadata.jsonl"
}

say "training shapes_inpaint"
build/kinema train configs/shapes_inpaint.yml "output_dir=$output" "$@"
say "replacing the shapes in ${#prompts[@]} pictures"
make shapes_inpaint '"source": "stills/CLIP.png", "control_mask": "masks/CLIP.png"' \
  image=FOLDER/stills/CLIP.png mask=FOLDER/masks/CLIP.png num_images_per_prompt=1 video_enlarge=1
build/shapes_score "$samples" --min-colour 95 --min-shape 90 --min-kept 100

say "training shapes_control"
build/kinema train configs/shapes_control.yml "output_dir=$output" "train_data_dir=$data" "$@"
say "following ${#prompts[@]} paths"
make shapes_control '"control": "paths/CLIP.mp4"' control_video=FOLDER/paths/CLIP.mp4
build/shapes_score "$samples" --min-colour 95 --min-shape 90 --min-path 100

cat <<TEXT

run folders    $output/shapes_inpaint, $output/shapes_control
results        */edits.*/
everything took $((SECONDS - begin)) s
TEXT
