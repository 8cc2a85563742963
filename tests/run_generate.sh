#!/usr/bin/env bash
# `shoal generate` and `shoal convert`: a trained model continues texts, the same on one rank and on several, from its
# checkpoint and from one that went through Hugging Face's names.
set -euo pipefail
shoal=${SHOAL_BIN:-build/release/shoal}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0
fail() {
  echo "FAILED $*"
  failed=1
}

size="--context 24 --width 16 --heads 2 --layers 1"
for i in {1..40}; do echo "the sea is deep and the shoal is wide"; done >text
"$shoal" train gpt2 $size --data text --steps 30 --log-every 30 --lr 0.01 --save out >/dev/null

greedy="--load out --prompt the --max-tokens 12 --temperature 0"
"$shoal" generate gpt2 $size $greedy >one || fail "generate ended with $?"
head -c 3 one | grep -q the || fail "the prompt does not lead: $(cat one)"
[ "$(wc -c <one)" = 16 ] || fail "12 bytes behind 'the' and a line's end are 16, not $(wc -c <one)"
"$shoal" generate $greedy -n 2 --strategy data >two || fail "generate -n 2 ended with $?"
"$shoal" generate gpt2 $size $greedy -n 2 --strategy tensor --threads >cut || fail "generate by tensor ended with $?"
cmp one two && cmp one cut || fail "ranks differ"

printf 'the sea\n\nis\nand the\n' >prompts
for ranks in 1 2; do
  "$shoal" generate gpt2 $size --load out/step-30 --prompts prompts --seed 7 --top-k 20 --max-tokens 9 -n $ranks >many$ranks
done
cmp many1 many2 || fail "drawn texts differ between ranks"
[ "$(grep -ac '^the sea\|^is\|^and the' many1)" = 3 ] || fail "not every prompt is continued: $(cat many1)"
"$shoal" generate gpt2 $size --load out/step-30 --prompts prompts --seed 8 --top-k 20 --max-tokens 9 >other
cmp -s many1 other && fail "another seed gives the same text"

"$shoal" convert out/step-30 hf >said || fail "convert ended with $?"
grep -q "Hugging Face's names" said && grep -q "passed over" said || fail "convert says $(cat said)"
grep -q '"model_type": "gpt2"' hf/config.json && grep -q '"n_positions": 24' hf/config.json || fail "$(cat hf/config.json)"
"$shoal" convert hf back --dtype f64 >/dev/null || fail "convert back ended with $?"
"$shoal" generate --load back --prompt the --max-tokens 12 --temperature 0 >three || fail "generate --load back"
cmp one three || fail "converted there and back it says $(cat three)"

"$shoal" generate gpt2 $size --prompt x --stop nonsense 2>err && fail "a stop that is no token is taken"
grep -q "'nonsense' is no token" err || fail "$(cat err)"
"$shoal" generate gpt2 $size --prompt "$(printf 'x%.0s' {1..30})" 2>err && fail "a prompt longer than the context is taken"
grep -q "30 tokens" err || fail "$(cat err)"
exit $failed
