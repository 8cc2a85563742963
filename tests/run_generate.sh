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

# Texts are written as they come, one after the other: writes to a socket of packets can be counted. Two rows at a
# time; the last token of a text that the model's positions cut is not known to be one, and what follows waits.
greedy_all="--load out/step-30 --prompts prompts --temperature 0 --batch 2"
for tokens in 5 80; do
  while IFS= read -r line; do
    if [ -n "$line" ]; then
      "$shoal" generate --load out/step-30 --prompt "$line" --max-tokens $tokens --temperature 0 2>/dev/null
    else
      echo
    fi
  done <prompts >apart
  python3 - "$shoal" $greedy_all --max-tokens $tokens >together <<'END' || fail "not as it comes: $(cat together)"
import socket, subprocess, sys
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
run = subprocess.Popen([sys.argv[1], "generate", *sys.argv[2:]], stdout=theirs, stderr=subprocess.DEVNULL)
theirs.close()
parts = list(iter(lambda: ours.recv(65536), b""))
sys.stdout.buffer.write(b"".join(parts))
sys.exit(run.wait() or len(parts) < 8)
END
  cmp apart together || fail "together they are others: $(cat together)"
done

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

# Where the run kept moving averages, they are what is read and converted; --raw has the parameters.
"$shoal" train gpt2 $size --data text --steps 12 --lr 0.05 --average 0.9 --save kept >/dev/null
for raw in "" --raw; do
  "$shoal" generate --load kept $raw --prompt the --max-tokens 12 --temperature 0 >mine$raw 2>err || fail "$(cat err)"
  "$shoal" convert kept hf$raw $raw >/dev/null 2>said || fail "convert: $(cat said)"
  [ -s err ] && diff err said || fail "generate says '$(cat err)', convert '$(cat said)'"
  "$shoal" convert hf$raw back$raw --dtype f64 >/dev/null || fail "convert back ended with $?"
  "$shoal" generate --load back$raw --prompt the --max-tokens 12 --temperature 0 >theirs$raw || fail "generate --load back$raw"
  cmp mine$raw theirs$raw || fail "converted, '$raw': $(cat theirs$raw)"
done
cmp -s mine mine--raw && fail "averages and parameters say the same: $(cat mine)"

# an answer is written without its prompt
"$shoal" generate t5 --context 9 --target 6 --width 8 --heads 2 --prompt abcde >answer 2>err || fail "t5: $(cat err)"
grep -aq abcde answer && fail "the prompt leads an answer: $(cat answer)"
grep -q "texts end where the model's 6 positions" err || fail "a cut answer: $(cat err)"

# A byte that changed on the disk is found.
cp -r out/step-30 bad
printf x | dd of=bad/model.safetensors bs=1 seek=$(($(od -An -tu8 -N8 bad/model.safetensors) + 8)) conv=notrunc 2>/dev/null
for command in "convert bad there" "generate --load bad --prompt the"; do
  "$shoal" $command >/dev/null 2>err && fail "$command takes damaged weights"
  grep -q "tensor '.*' is not what was saved" err || fail "$command: $(cat err)"
done

# --- weights, files, prompts ---
tiny="--max-tokens 5 --seed 3"
"$shoal" generate --load out/step-30/model.safetensors --prompt the --max-tokens 12 --temperature 0 >file 2>err ||
  fail "--load FILE: $(cat err)"
cmp one file || fail "from the file it says $(cat file)"
[ -s err ] && fail "nothing was to be said: $(cat err)"
"$shoal" generate gpt2 $size --prompt the $tiny >random 2>err
grep -q "without --load the weights are random" err || fail "random weights are not said: $(cat err)"
"$shoal" generate --load out --prompt the --max-tokens 80 >long 2>err
grep -q "1 of 1 texts end where the model's 24 positions are used up" err || fail "a cut text: $(cat err)"
"$shoal" generate --load hf --prompt the 2>err >no && fail "a folder of Hugging Face's is taken"
grep -q "hint: shoal convert hf DIR" err || fail "$(cat err)"
"$shoal" generate --load out --prompt "" 2>err && fail "an empty prompt is taken"
grep -q -- "--prompt is empty" err || fail "$(cat err)"
"$shoal" generate --load out --prompt the --temperature -1 >no 2>err && fail "a negative temperature is taken"
[ -s no ] && fail "the prompt is written before the temperature is looked at: $(cat no)"
printf 'the\r\n\r\n\nis' >windows
printf 'the\n\n\nis\n' >unix
"$shoal" generate --load out --prompts windows --temperature 0 --max-tokens 4 >from_windows
"$shoal" generate --load out --prompts unix --temperature 0 --max-tokens 4 >from_unix
cmp from_windows from_unix || fail "line ends are part of prompts"
[ "$(sed -n '2,3p' from_unix)" = "" ] && sed -n 4p from_unix | grep -q '^is' || fail "blank lines move: $(cat from_unix)"
printf 'the\n\0sea\n' >zero
"$shoal" generate --load out --prompts zero 2>err && fail "a zero byte is taken"
grep -q "zero byte in line 2" err || fail "$(cat err)"

# --- how it is drawn ---
for way in "" "--top-p 0.01" "--repetition 1000000" "--top-k 1"; do
  "$shoal" generate --load out --prompt the --seed 5 --max-tokens 16 --temperature 3 $way >"drawn$way" || fail "generate $way"
done
"$shoal" generate --load out --prompt the --max-tokens 16 --temperature 0 >likeliest
cmp "drawn--top-p 0.01" likeliest && cmp "drawn--top-k 1" likeliest || fail "the likeliest token alone is greedy"
cmp -s drawn likeliest && fail "a high temperature draws the likeliest"
cmp -s drawn "drawn--repetition 1000000" && fail "--repetition changes nothing"
[ "$("$shoal" generate --help | grep -cE -- "--top-k (N|WORD|TEXT)")" = 1 ] || fail "--top-k is in the help twice"
SHOAL_TOP_K=1 "$shoal" generate --load out --prompt the --seed 5 --max-tokens 16 --temperature 3 >environment
cmp drawn environment || fail "SHOAL_TOP_K, of experts, changes what is drawn"
"$shoal" generate moe-gpt-tiny --set top_k=99 --prompt x --tokenizer bytes 2>err && fail "99 experts of a token"
grep -q "99" err || fail "--set top_k does not reach the experts: $(cat err)"

# --- whose tokens ---
"$shoal" generate gpt2 --vocabulary 300 --prompt x 2>err && fail "bytes are taken for a vocabulary of 300"
grep -q "knows 300 tokens" err || fail "$(cat err)"
cat >tokenizer.json <<'EOF'
{"model": {"type": "BPE", "vocab": {"h": 0, "e": 1, "t": 2, "th": 3, "the": 4, " ": 5}, "merges": ["t h", "th e"]}}
EOF
if "$shoal" train gpt2 $size --vocabulary 6 --data text --tokenizer tokenizer.json --steps 1 --save own >/dev/null 2>err; then
  (mkdir -p below && cd below && "$shoal" generate --load ../own --prompt the --max-tokens 3 >../own.txt) ||
    fail "the tokenizer of training is not found"
else
  fail "train with a tokenizer: $(cat err)"
fi

# --- shards ---
"$shoal" convert --help | grep -q -- "--width" && fail "convert has settings as flags, and nowhere to keep them"
"$shoal" convert out hf2 --shard-size 4K >/dev/null || fail "convert --shard-size"
[ "$(ls hf2/model-*.safetensors | wc -l)" -gt 1 ] || fail "one file: $(ls hf2)"
"$shoal" convert out/step-30 out/step-30 2>err && fail "convert writes over its input"
grep -q "is the folder to read" err || fail "$(cat err)"
exit $failed
