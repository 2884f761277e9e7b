#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_ranges.inc: where the characters of Hugging Face's tokenizers differ from utf8proc's.

    pip install tokenizers unicodedata2==16.0.0
    bench/tokenizer/unicode_ranges.py > src/tokenizer/unicode_ranges.inc

Every code point is asked for, so the lists are as complete as the two libraries are.
"""
import ctypes

import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
utf8proc = ctypes.CDLL("libutf8proc.so.2")
utf8proc.utf8proc_category_string.restype = ctypes.c_char_p
CATEGORY = {c: utf8proc.utf8proc_category_string(c).decode() for c in CODE_POINTS}


def removed_by(pre_tokenizer):
    left = set(CODE_POINTS)
    for piece, _ in pre_tokenizer.pre_tokenize_str("".join(map(chr, CODE_POINTS))):
        left -= set(map(ord, piece))
    return left


def changed_by(normalizer):
    return {c: normalizer.normalize_str(chr(c)) for c in CODE_POINTS if normalizer.normalize_str(chr(c)) != chr(c)}


def ranges(points):
    found = []
    for c in sorted(points):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def write(comment, name, kind, rows):
    print(f"// {comment}")
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 119:
            print(line)
            line = "   "
        line += f" {row},"
    print(f"{line}\n}};\n")


def write_ranges(comment, name, points):
    write(comment, name, "CodeRange", [f"{{{a:#x}, {b:#x}}}" for a, b in ranges(points)])


def main():
    print("// Made by bench/tokenizer/unicode_ranges.py: where the reference differs from utf8proc 2.8 (Unicode 15).\n")
    rows = []
    for category in ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf",
                     "Po", "Sm", "Sc", "Sk", "So"]:
        hit = removed_by(pre_tokenizers.Split(Regex(r"\p{%s}" % category), "removed"))
        newer = {c for c in hit if CATEGORY[c] != category}
        rows += [(a, b, category) for a, b in ranges(newer)]
    write("Categories of characters that are newer than Unicode 15.", "kNewerCategories", "CategoryRange",
          [f"{{{a:#x}, {b:#x}, UTF8PROC_CATEGORY_{category.upper()}}}" for a, b, category in sorted(rows)])
    punctuation = removed_by(pre_tokenizers.Punctuation("removed"))
    ascii_marks = {c for c in range(33, 127) if not chr(c).isalnum()}
    ours = {c for c in CODE_POINTS if CATEGORY[c][0] == "P"} | ascii_marks
    write_ranges("Characters whose punctuation the pre-tokenisers see otherwise.", "kOtherPunctuation", punctuation ^ ours)
    marks = {c for c, text in changed_by(normalizers.StripAccents()).items() if not text}
    ours = {c for c in CODE_POINTS if CATEGORY[c][0] == "M"}
    write_ranges("Characters that StripAccents sees otherwise.", "kOtherMarks", marks ^ ours)
    bert = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    accents = changed_by(normalizers.BertNormalizer(**{**bert, "strip_accents": True}))
    ours = {c for c in CODE_POINTS if CATEGORY[c] == "Mn"}
    write_ranges("Characters that BertNormalizer sees otherwise as accents.", "kOtherAccents",
                 {c for c, text in accents.items() if not text} ^ ours)
    cleaned = changed_by(normalizers.BertNormalizer(**{**bert, "clean_text": True}))
    ours = {c for c in CODE_POINTS if CATEGORY[c][0] == "C" and CATEGORY[c] != "Cn"} - {9, 10, 13} | {0xFFFD}
    write_ranges("Characters that BertNormalizer sees otherwise as controls.", "kOtherControls",
                 {c for c, text in cleaned.items() if not text} ^ ours)
    # Characters whose decomposition is newer than the reference's tables: it leaves them alone.
    kept = {c for c in CODE_POINTS if unicodedata2.normalize("NFKD", chr(c)) != chr(c)} - set(changed_by(normalizers.NFKD()))
    write_ranges("Characters that the reference's NFKC and NFKD leave as they are.", "kNotDecomposed", kept)


main()
