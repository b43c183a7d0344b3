#!/usr/bin/env bash
# packages.sh BUILD_FOLDER: makes both packages, and runs each as another user in an empty home,
# without network, compiler or cache. Nothing of it reaches this machine: the packages are installed
# into an overlay of it that ends with this process.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

if [ "${2:-}" != --inside ]; then
  skip() { echo "skipped: $1"; exit 77; }
  [ "$(id -u)" = 0 ] || skip "only root can install a package"
  command -v patchelf >/dev/null || skip "there is no patchelf"
  unshare --mount --net true 2>/dev/null || skip "this machine allows no namespaces"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "$source/packaging/package.sh" "$1" "$work/packages" --quick
  # A cache folder that is there must not be what makes it run.
  env -i PATH="$PATH" unshare --mount --net --pid --fork "$0" "$work" --inside
  exit
fi

work=$1
machine=$work/machine
mkdir -p "$machine" "$work/layers"
mount -t tmpfs layers "$work/layers"
mkdir "$work/layers/upper" "$work/layers/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/layers/upper,workdir=$work/layers/work" "$machine" ||
  { echo "skipped: this machine allows no overlay"; exit 77; }
mount -t proc proc "$machine/proc"
mount --rbind /dev "$machine/dev"
mount --rbind /sys "$machine/sys"
mount -t tmpfs tmp "$machine/tmp"
for hidden in root usr/local work opt; do
  if [ -d "$machine/$hidden" ]; then mount -t tmpfs hidden "$machine/$hidden"; fi
done
find "$machine"/usr/bin \( -name '*g++*' -o -name '*gcc*' -o -name 'c++*' -o -name '*clang*' \) -delete
chroot "$machine" useradd --create-home someone
cp "$work"/packages/* "$machine/home/someone/"

# as_someone COMMAND...: with nothing of this environment.
as_someone() {
  chroot "$machine" setpriv --reuid someone --regid someone --clear-groups \
    env -i HOME=/home/someone PATH="${program_path:-/usr/bin:/bin}" TERM=dumb bash -euc "cd; $*"
}

# runs FOLDER: what a newcomer does first.
runs() {
  as_someone "mkdir $1; cd $1; kinema --version; kinema doctor
    kinema train configs/tiny.yml
    kinema generate configs/tiny.yml video_folder=videos
    test -s outputs/tiny/metrics.jsonl; find videos -name \"*.mp4\" | grep -q .; rm -rf ~/.cache"
}

echo "== the archive"
as_someone 'mkdir "my programs"; tar -xzf kinema-*.tar.gz -C "my programs" --strip-components 1'
# Of this machine it may take the C library alone.
loaded=$(as_someone 'ldd "my programs/bin/kinema" "my programs"/lib/kinema/*.so*')
echo "$loaded" | awk '$2 == "=>" { print $1, $3, $4 }' | sort -u >"$work/loaded"
if grep -v 'my programs' "$work/loaded" | grep -vE '^(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libresolv|libutil|libanl|libnsl)\.so'; then
  echo "the archive needs these libraries of the machine it runs on"
  exit 1
fi
as_someone 'test -s "my programs/share/man/man1/kinema-train.1"'
program_path='/home/someone/my programs/bin:/usr/bin:/bin' runs archive

echo "== the .deb"
chroot "$machine" bash -c 'PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg -i /home/someone/kinema_*.deb' >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
as_someone 'test "$(command -v kinema)" = /usr/bin/kinema; ! ldd /usr/bin/kinema | grep "not found"'
as_someone 'zcat /usr/share/man/man1/kinema-train.1.gz | grep -q max_train_steps'
as_someone 'source /usr/share/bash-completion/completions/kinema; complete -p kinema'
runs deb
chroot "$machine" bash -c 'PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg -r kinema' >"$work/log" 2>&1
chroot "$machine" test ! -e /usr/lib/kinema
echo "both packages run"
