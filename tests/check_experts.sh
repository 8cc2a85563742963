#!/usr/bin/env bash
# Strategy `expert`, proven on 2 to 5 ranks and with other axes: experts and rows that do not divide, ranks without an
# expert or a row, half precision. With 10 picks of a row and 6 places (--capacity 0.5) at least 4 are dropped in every row:
# which ones is compared, exactly, with one device.
# labels: slow
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
moe="moe-gpt-tiny --layers 1 --steps 1"
for n in 3 4 5; do
  # shellcheck disable=SC2086
  proven $moe --capacity 0.5 -n $n --strategy expert --dtype f64 || fail "$n ranks"
done
# shellcheck disable=SC2086
{
  proven $moe --capacity 0.5 -n 4 --strategy expert+zero1 --mesh data=2,expert=2 || fail "with zero1"
  proven $moe --capacity 1 -n 8 --strategy expert+zero3 --mesh data=2,expert=2,tensor=2 --dtype f64 || fail "with zero3"
  proven $moe --capacity 0.5 -n 6 --strategy expert --mesh expert=2,tensor=3 || fail "with tensor"
  proven $moe --capacity 1 -n 4 --strategy expert --mesh expert=2,context=2 --dtype f64 || fail "with context"
  proven moe-gpt --layers 1 --steps 1 --capacity 0.75 --batch 3 --context 21 --width 16 --heads 4 --hidden 10 \
    --vocabulary 11 -n 6 --strategy expert --mesh expert=2,context=3 --dtype f64 || fail "with a scan over context"
  proven $moe --capacity 1 -n 3 --strategy expert --dtype bf16 --mixed || fail "in mixed precision"
  proven $moe --capacity 1 -n 2 --strategy expert --mesh expert=2,micro=2 --balance 0 || fail "in micro-batches"
  "$shoal" explain moe-gpt-tiny --capacity 1 --layers 1 -n 2 --strategy expert --program >program
}
# To the experts and back, forward and backward, and forward again in eval; nothing but logits is gathered.
[ "$(grep -c ' comm exchange ' program)" = 6 ] || fail "$(grep -c ' comm exchange ' program) exchanges of places"
[ "$(grep '^channel .*"expert:[0-9]" -> ""' program | wc -l)" = 1 ] ||
  fail "gathered: $(grep '^channel .*"expert:[0-9]" -> ""' program)"
# Without dropping: as many places as are taken are sent, and one pick too many is the same error on every rank. 10 picks of a
# row and 9 places: there is one in the first step.
# shellcheck disable=SC2086
{
  proven $moe --bounded on -n 3 --strategy expert --dtype f64 || fail "without dropping"
  proven $moe --bounded on -n 4 --strategy expert --mesh data=2,expert=2 --dtype bf16 || fail "without dropping, with data"
}
printf 'abcabdabeabfabgabhabiabj%.0s' {1..40} >text
if "$shoal" run -n 3 -- "$shoal" train moe-gpt-tiny --bounded on --capacity 0.9 --strategy expert --steps 1 --data text \
  --vocabulary 128 >out 2>&1; then fail "a pick too many is accepted"; fi
for rank in 0 1 2; do
  grep -q "^\[$rank\] .*moe/dispatch/bound.*rows, and dim 2 has room for 3: raise the capacity" out || { cat out; fail "rank $rank"; }
done
for model in moe-gpt-tiny gpt2-tiny; do
  "$shoal" check $model -n 2 --strategy expert >out 2>&1 && fail "experts of $model"
  grep -q "^shoal: error: UNSUPPORTED: strategy 'expert': " out || fail "$model: $(cat out)"
done
echo "experts: N ranks drop the tokens that one does"
