#!/usr/bin/env bash
# Packs a folder and sends it somewhere.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/lib/log.sh"
. ./config.sh
source "$HOME/.packrc"

readonly VERSION=1.2
export TARGET="${TARGET:-/srv/packs}" KEEP=3
declare -a PARTS=(bin share)
declare -A SIZES=()
count=0

usage() {
  cat <<TEXT
usage: $0 [-v] DIR
keeps $KEEP packs in $TARGET
TEXT
}

function pack {
  local dir=$1 name
  name=$(archive_name "$dir")
  for part in "${PARTS[@]}"; do
    if ! tar_part "$dir/$part" | compress > "$TARGET/$name.$part"; then
      log_error "cannot pack $part"
      return 1
    fi
  done
  count=$((count + 1))
  trap 'cleanup "$name"' EXIT
}

function archive_name() {
  echo "$(basename "$1")-${VERSION}"
}

compress() ( gzip -9 )

prune() {
  local old
  while read -r old; do
    remove_pack "$old" && log_info "removed $old"
  done < <(list_packs | tail -n "+$KEEP")
  inner() {
    prune_deep "$@"
  }
  inner "$old" || true
}

if [[ $# -eq 0 ]]; then
  usage
  exit 2
fi

case "${1:-}" in
  -v) echo "$VERSION" ;;
  --prune) prune ;;
  *)
    pack "$1"
    prune
    ;;
esac

[ "$count" -gt 0 ] && log_info "packed $count"
