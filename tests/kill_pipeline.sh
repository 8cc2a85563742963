#!/usr/bin/env bash
# A rank of a pipeline is killed in the middle of its training, the first, a middle and the last stage in turn: every
# survivor ends by itself with an error that names it, and the launcher says who died.
# labels: script
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
for victim in 0 1 2; do
  rm -f talk
  mkfifo talk
  "$shoal" run -n 3 -- "$shoal" train gpt2-tiny --batch 8 --steps 1000000000 --log-every 1 --cache '' --vocabulary 256 \
    --data "$SHOAL_SOURCE_DIR/README.md" --strategy pipeline --mesh pipe=3,micro=4 --schedule zb-h1 >talk 2>err &
  launcher=$!
  exec 3<talk
  grep -m1 -q 'step 2 ' <&3 || { cat err; fail "the pipeline does not train"; }
  children=($(cat /proc/$launcher/task/$launcher/children))  # the launcher's guard, and the ranks
  [ ${#children[@]} = 4 ] || fail "the launcher has ${#children[@]} children"
  kill -9 "${children[1 + victim]}"
  cat <&3 >/dev/null
  code=0
  wait $launcher || code=$?
  [ $code != 0 ] || fail "killing rank $victim was no failure"
  for rank in 0 1 2; do
    if [ $rank = $victim ]; then continue; fi
    grep "^\[$rank\] shoal: error: " err | grep -q "rank $victim\b" || { cat err; fail "rank $rank does not name rank $victim"; }
  done
  grep -v '^\[' err | grep -q "rank $victim\b.*kill" || { cat err; fail "the launcher does not say that rank $victim was killed"; }
  exec 3<&-
done
