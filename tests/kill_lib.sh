# What the kill tests share; sourced first, not run. Runs the script again with a /dev/shm of its own, so that
# what other tests leave there for a moment is not taken for this one's; where that is not allowed, only files
# that are plainly Shoal's count.
if [ -z "${KILL_PRIVATE:-}" ]; then
  if unshare --mount mount -t tmpfs tmpfs /dev/shm 2>/dev/null; then
    KILL_PRIVATE=yes exec unshare --mount bash -c 'mount -t tmpfs tmpfs /dev/shm && exec bash "$@"' bash "$0" "$@"
  fi
  export KILL_PRIVATE=no
fi
kill_ranks() { python3 "${SHOAL_SOURCE_DIR:?}/tests/kill_driver.py" "$@"; }
