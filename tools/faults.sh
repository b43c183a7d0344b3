# shellcheck shell=bash
# faults.sh [SECTION...] [OPTION...]: the scripts of tests/faults. Sourced by ./dev.
setup_tests
make release kinema faults_full_disk
sections=() options=()
for word in "$@"; do
  case $word in
    kill | disk | stop | remote | keys | processes) sections+=("$word") ;;
    *) options+=("$word") ;;
  esac
done
if [ ${#sections[@]} = 0 ]; then sections=(kill disk stop remote keys processes); fi

disk=$PWD/build/faults/full_disk.so
stores=${cache:?}/stores-$(sha256sum tests/stores/requirements.txt | cut -c1-12)

# check WHAT_WAS_WRONG SCRIPT [ARG...]
check() { python3 "tests/faults/$2.py" "${@:3}" --kinema build/kinema || fail "$1"; }

for section in "${sections[@]}"; do
  case $section in
    keys) check "a command did what it must not" keys "${options[@]}" ;;
    processes)
      check "a run of several processes did what it must not" \
        processes all --full-disk "$disk" --stores "$stores" "${options[@]}"
      check "a job of several processes made other files than one" process_jobs all
      check "a run whose connections were cut did what it must not" connections all
      ;;
    *) check "a training run did what it must not" \
      faults "$section" --full-disk "$disk" --stores "$stores" "${options[@]}" ;;
  esac
done
