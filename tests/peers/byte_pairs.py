"""Qwen's tokenizer on a million generated lines: kinema's ids are those of `tokenizers`.

    byte_pairs.py TOKENIZE_LINES            KINEMA_LINES=N gives another number of lines, KINEMA_SEED=N others
    byte_pairs.py --write FOLDER            the tokenizer and 300 lines with their ids, of tests/golden/byte_pairs

The vocabulary is learned from lines of the same kind, with the expression and the added tokens of Qwen3's tokenizer.json.
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

EXPRESSION = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> <|quad_start|> "
    "<|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>"
).split()
ADDED = (
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> "
    "<tool_response> </tool_response> <think> </think>"
).split()

# What both programs' tables of Unicode know: Python's are the oldest.
ASSIGNED = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "àéîöüßçñåøœæÀÉÎÖÜ", "абвгдежзийклмнопрстуфхцчшщьюя",
    "αβγδεζηθικλμνξοπρστυφχψω", "אבגדהוזחטיכלמנסעפצקרשת", "ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "अआइईउऊएऐओऔकखगघचछजझटठडढतथदधनपफबभमयरलवशषसह",
    "กขคงจฉชซญฎฐณดตถทธนบปผพฟมยรลวศษสหอ", "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年", "あいうえおかきくけこさしすせそアイウエオカキクケコ", "가나다라마바사아자차카타파하각난",
]  # fmt: skip
MARKS = "\u0301\u0300\u0308\u0327\u094d\u093e\u0e31\u0e34\u0651\u05b8\u200d\ufe0f\u20e3"
PUNCTUATION = ".,;:!?-_()[]{}<>\"'`/\\|@#$%^&*+=~…—–«»“”‘’¿¡。、！？・€£°×÷→√"
SPACES = [" "] * 8 + ["  ", "\t", "\n", "\r\n", "\r", "\n\n", "\u00a0", "\u3000", "\u2028", "\u0085", "\u000b", "\u2003", "    "]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧", "🇩🇪", "❤️", "🏳️‍🌈", "1️⃣", "🧪"]
CODE = [
    "def f(x):\n    return x**2", "if (a && b) { c[i] += 0x1F; }", '{"key": [1, 2.5, null]}', "<a href=\"x\">y</a>", "SELECT * FROM t;",
    "#include <vector>", "https://a.b/c?d=e&f=1#g", "a@b.org", "\\frac{1}{2}", "x_1'T", "I'LL don't WE'RE it'ſ O'D'm",
]  # fmt: skip


def word(r):
    letters = r.choice(ALPHABETS)
    out = "".join(r.choice(letters) for _ in range(r.randint(1, 9)))
    if r.random() < 0.15:
        at = r.randint(0, len(out))
        out = out[:at] + r.choice(MARKS) + out[at:]
    return out.capitalize() if r.random() < 0.2 else out


def part(r):
    which = r.random()
    if which < 0.5:
        return word(r)
    if which < 0.6:
        return str(r.randint(0, 10 ** r.randint(1, 7)))
    if which < 0.7:
        return "".join(r.choice(PUNCTUATION) for _ in range(r.randint(1, 4)))
    if which < 0.75:
        return word(r) + r.choice(["'s", "'T", "'re", "'VE", "'m", "'LL", "'d", "'x", "’s"])
    if which < 0.79:
        return r.choice(CODE)
    if which < 0.83:
        return r.choice(EMOJI)
    if which < 0.87:  # accents by themselves, which are composed
        return unicodedata.normalize("NFD", word(r) + r.choice("àéîöüñÅ가ộ"))
    if which < 0.91:
        token = r.choice(SPECIAL + ADDED)
        return token if r.random() < 0.7 else token[: r.randint(1, len(token))] + r.choice(["", ">", "|>"])
    if which < 0.96:
        return "".join(r.choice(ASSIGNED) for _ in range(r.randint(1, 5)))
    return "".join(r.choice(SPACES) for _ in range(r.randint(1, 6)))


def lines(count, seed):
    r = random.Random(seed)
    for _ in range(count):
        yield "".join(part(r) + (r.choice(SPACES) if r.random() < 0.75 else "") for _ in range(r.randint(0, 16)))


def learned(size):
    out = Tokenizer(models.BPE())
    out.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(EXPRESSION), behavior="isolated")
    out.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    out.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    out.train_from_iterator((line for line in lines(20000, seed=1) if "<" not in line), trainer)
    out.add_tokens([AddedToken(each, special=True, normalized=False) for each in SPECIAL])
    out.add_tokens([AddedToken(each, special=False, normalized=False) for each in ADDED])
    return out


def save(tokenizer, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "Qwen2Tokenizer", "pad_token": "<|endoftext|>"}) + "\n"
    )


def write(folder):
    tokenizer = learned(1200)
    save(tokenizer, folder)
    given = list(lines(300, seed=2))
    ids = [tokenizer.encode(line, add_special_tokens=False).ids for line in given]
    cases = [json.dumps({"text": text, "ids": each}, separators=(",", ":")) for text, each in zip(given, ids)]
    (folder / "lines.json").write_text("[\n" + ",\n".join(cases) + "\n]\n")


def compare(program, count, seed):
    with tempfile.TemporaryDirectory(prefix="kinema-peers-") as scratch:
        folder = pathlib.Path(scratch) / "tokenizer"
        tokenizer = learned(16000)
        save(tokenizer, folder)
        done = 0
        kinds = set()
        for first in range(0, count, 50000):
            given = list(lines(min(50000, count - first), seed=seed + first))
            coded = [line.encode() for line in given]
            data = b"".join(struct.pack("<I", len(each)) + each for each in coded)
            made = subprocess.run([program, folder], input=data, capture_output=True, check=True, timeout=600).stdout
            at = 0
            for line, expected in zip(given, tokenizer.encode_batch(given, add_special_tokens=False)):
                (size,) = struct.unpack_from("<I", made, at)
                ids = list(struct.unpack_from(f"<{size}I", made, at + 4))
                at += 4 + 4 * size
                assert ids == expected.ids, f"{line!r}\n  kinema:     {ids}\n  tokenizers: {expected.ids}"
                kinds.update(ids)
                done += 1
            assert at == len(made), "more ids than lines"
        assert done == count
        assert len(kinds) > 0.95 * tokenizer.get_vocab_size() or count < 100000, f"only {len(kinds)} tokens were seen"
        print(f"{done} lines, {len(kinds)} of {tokenizer.get_vocab_size()} tokens: the same ids")


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if sys.argv[1] == "--write":
        write(pathlib.Path(sys.argv[2]))
    else:
        compare(
            pathlib.Path(sys.argv[1]).resolve(),
            int(os.environ.get("KINEMA_LINES", "1000000")),
            int(os.environ.get("KINEMA_SEED", "100")),
        )
