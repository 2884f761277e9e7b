#!/usr/bin/env python3
"""Writes a text to compare tokenizers on: languages, code, emoji, odd spaces, broken UTF-8, and random characters.

    bench/tokenizer/mixed_text.py 10 > mixed.txt       # 10 MB, the same bytes each time on one machine

Code and prose come from the Python library's own sources; the rest is drawn from a seed.
"""
import glob
import os
import random
import sys
import sysconfig

WORDS = {
    "latin": "Größe façade naïve coöperate Łódź Çeşme İstanbul ǅ ﬁne ŉ ſpace Straße œuvre año über žluťoučký kůň",
    "greek": "Ελληνικά γλώσσα Ὀδυσσεύς ς Σίσυφος ΑΒΓ ͅ ᾳ",
    "cyrillic": "Привет мир съешь ещё этих мягких французских булок Ђорђе й",
    "arabic": "مرحبا بالعالم السلام عليكم ١٢٣ ﷺ لا إله",
    "hebrew": "שלום עולם בְּרֵאשִׁית ‏",
    "indic": "नमस्ते दुनिया क्षत्रिय বাংলা ভাষা தமிழ் తెలుగు ಕನ್ನಡ മലയാളം ૧૨૩",
    "thai": "สวัสดีชาวโลก ภาษาไทยไม่เว้นวรรค ๑๒๓ ລາວ ខ្មែរ မြန်မာ བོད",
    "cjk": "你好世界 東京都 한국어 안녕하세요 ひらがな カタカナ ｶﾀｶﾅ 漢字仮名交じり文 ㈱ ㍿ 〇 １２３ ｆｕｌｌ 𠮷野家 龍龘",
    "numbers": "0 1 12 123 1234 12345 3.14159 1e-7 0xFF ½ ² Ⅷ ① 一二三 1,234,567.89 ٣ 𝟘𝟙",
    "emoji": "😀 👩‍👩‍👧‍👦 🇩🇪🇯🇵 👍🏽 ❤️ ☺ 🫨 🏴󠁧󠁢󠁳󠁣󠁴󠁿 ✈︎ ⏰ 🤷🏿‍♀️",
    "punctuation": "... !!! ?? -- — “quoted” ‘it’s’ don't DON'T we'Ve I'll you'RE 'tis <|x|> [UNK] </s> #!/usr {{}} &amp; a_b@c.d $€£¥ ±×÷ ∑∫√∞",
    "spaces": "  \t \n\n \r\n \u00a0 \u2003 \u3000 \u200b \u2028 \ufeff \x85 \x0b\x0c    ",
    "combining": "e\u0301 a\u0308\u0323 n\u0303o \u0041\u030a \u1100\u1161\u11a8 q\u0307\u0323 Z\u0351\u036b\u0343a\u0334l\u035cgo",
}


def random_characters(rng, count):
    ranges = [(1, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0xE0000, 0x10FFFF)]
    return "".join(chr(rng.randint(*ranges[min(int(rng.expovariate(0.7)), 5)])) for _ in range(count))


def main():
    size = int(float(sys.argv[1]) * 1_000_000)
    rng = random.Random(1)
    library = sorted(glob.glob(os.path.join(sysconfig.get_paths()["stdlib"], "**", "*.py"), recursive=True))
    rng.shuffle(library)
    kinds = [words.split(" ") for words in WORDS.values()]
    written = 0
    while written < size:
        part = rng.random()
        if part < 0.45:
            with open(library[written % len(library)], "rb") as file:
                text = file.read()[rng.randint(0, 2000) :][:20_000]
        elif part < 0.85:
            kind = rng.choice(kinds)
            text = " ".join(rng.choice(kind if rng.random() < 0.8 else rng.choice(kinds)) for _ in range(300)).encode()
        elif part < 0.90:
            text = random_characters(rng, 500).encode()
        elif part < 0.95:
            text = (rng.choice([" ", "\n", "\t", "a", "0", "=", "-", "é", "中", "▁", "'"]) * rng.randint(1, 400)).encode()
        else:
            text = bytes(rng.choice([rng.randint(0, 255), rng.randint(0x80, 0xFF), 0x20]) for _ in range(200))
        text += rng.choice([b"\n", b" ", b"\n\n", b"", b"\r\n", b"\t"])
        sys.stdout.buffer.write(text)
        written += len(text)


main()
