#!/usr/bin/env bash
# Makes everything that a release has, in dist/ or the directory given:
#
#   grandstand-VERSION-TARGET.tar.gz   program, manual pages, completions, units, samples, licences
#   grandstand_VERSION-1_ARCH.deb      the Debian package
#   grandstand-VERSION.cdx.json        the list of its parts (CycloneDX)
#   SHA256SUMS                         sums, and with MINISIGN_KEY their signature (password: MINISIGN_PASSWORD)
#
#   config/release/build.sh [--binary FILE] [--revision NUMBER] [DIRECTORY]
#
# `--binary`: packs a program that is built already. `--revision`: of the Debian package. The same sources and tools give
# the same bytes. Needs what `./setup.sh build` installs, cargo-deb and cargo-cyclonedx, for a signature minisign.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() { echo "build.sh: $*" >&2; exit 1; }

binary="" revision=1 out=dist
while [ $# -gt 0 ]; do
    case $1 in
        --binary) binary=$(realpath "${2:?}"); shift 2 ;;
        --revision) revision=${2:?}; shift 2 ;;
        -*) fail "$1 is not known; see the first lines of this script" ;;
        *) out=$1; shift ;;
    esac
done
for tool in deb cyclonedx; do
    cargo "$tool" --version >/dev/null 2>&1 || fail "cargo-$tool is missing: cargo install --locked cargo-$tool"
done
[ -z "${MINISIGN_KEY:-}" ] || command -v minisign >/dev/null || fail "minisign is missing: apt-get install minisign"

# Times in the files are those of the last commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}
export SOURCE_DATE_EPOCH
version=$(sed -n '0,/^version = "\(.*\)"/s//\1/p' Cargo.toml)
host=$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d)
sbom=sbom-$$
# The list of parts is written beside each Cargo.toml.
trap 'rm -rf "$work"; find . -path ./target -prune -o -name "$sbom.json" -exec rm {} +' EXIT

if [ -z "$binary" ]; then
    # The program does not name the directories of the machine that built it. A directory of its own: the flags differ.
    RUSTFLAGS="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" \
        CARGO_TARGET_DIR=target/dist cargo build --release --locked --bin grandstand
    binary=$PWD/target/dist/release/grandstand
fi

extras=$work/target/release/package
mkdir -p "$extras/man"
install -m 755 "$binary" "$work/target/release/grandstand"
"$binary" man "$extras/man" >/dev/null
gzip --best --no-name "$extras"/man/*.1
"$binary" completions bash > "$extras/grandstand.bash"
"$binary" completions zsh > "$extras/_grandstand"
"$binary" completions fish > "$extras/grandstand.fish"

# `--no-strip`: a release build has nothing to strip, and other programs take long.
CARGO_TARGET_DIR=$work/target cargo deb --quiet --no-build --no-strip --fast --deb-version "$version-$revision" --output "$out/"

name=grandstand-$version-$host
mkdir -p "$work/$name"
cp -r "$work/target/release/grandstand" "$extras/man" README.md CHANGELOG.md LICENSE-* config/systemd "$work/$name/"
mkdir "$work/$name/completions" "$work/$name/samples"
cp "$extras"/*grandstand* "$work/$name/completions/"
cp config/*.toml "$work/$name/samples/"
tar --create --directory "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner "$name" \
    | gzip --best --no-name > "$out/$name.tar.gz"

cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$host" --override-filename "$sbom"
mv "$sbom.json" "$out/grandstand-$version.cdx.json"

(cd "$out" && sha256sum -- *.tar.gz *.deb *.cdx.json > SHA256SUMS)
if [ -n "${MINISIGN_KEY:-}" ]; then
    printf '%s\n' "${MINISIGN_PASSWORD:-}" \
        | minisign -S -s "$MINISIGN_KEY" -m "$out/SHA256SUMS" -t "grandstand $version" >/dev/null
fi
ls -l "$out"
