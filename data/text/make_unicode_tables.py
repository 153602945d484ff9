#!/usr/bin/python3
"""Writes unicode_tables.hpp beside this script, from Debian's package unicode-data.

    apt-get install -y unicode-data && data/text/make_unicode_tables.py

The version of Unicode is the package's: 15.0 in Debian 12.
"""

import pathlib
import re
import textwrap

SOURCE = pathlib.Path("/usr/share/unicode")
HERE = pathlib.Path(__file__).parent


def lines_of(name):
    """Yields the fields of each line, without comments."""
    for line in (SOURCE / name).read_text(encoding="utf-8").splitlines():
        fields = [field.strip() for field in line.split("#")[0].split(";")]
        if fields != [""]:
            yield fields


def span_of(text):
    first, _, last = text.partition("..")
    return range(int(first, 16), int(last or first, 16) + 1)


def characters():
    """Yields (code point, fields) of UnicodeData.txt; of ranges each code point."""
    begin = 0
    for fields in lines_of("UnicodeData.txt"):
        code = int(fields[0], 16)
        if fields[1].endswith("First>"):
            begin = code
            continue
        for each in range(begin if fields[1].endswith("Last>") else code, code + 1):
            yield each, fields


def runs(values):
    """Returns [first, last, value] of neighboring code points with the same value."""
    found = []
    for code, value in sorted(values.items()):
        if found and found[-1][1] == code - 1 and found[-1][2] == value:
            found[-1][1] = code
        else:
            found.append([code, code, value])
    return found


def stepped_runs(offsets):
    """Returns [first, last, step, offset]: every step-th code point, step 1 or 2, has the offset."""
    found = []
    for code, offset in sorted(offsets.items()):
        if found and found[-1][3] == offset:
            first, last, step, _ = found[-1]
            if code - last == step or (first == last and code - last == 2):
                found[-1][1:3] = [code, code - last]
                continue
        found.append([code, code, 1, offset])
    return found


def literal_of(code, fields):
    """Returns the character in a literal: escaped if it combines or is written right to left."""
    is_plain = code < 0x7F or (fields[2] in ("Lu", "Ll", "Lo", "Sm") and fields[4] in ("L", "ON"))
    return chr(code) if is_plain else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def cut(literals, columns=80):
    """Returns (index of the first, text) of each part of a list of literals that fits in columns."""
    width = 0
    parts = []
    for index, each in enumerate(literals):
        width += sum(2 if character > "\u2E80" else 1 for character in each)
        if not parts or width > columns:
            parts.append([index, ""])
            width = len(each)
        parts[-1][1] += each
    return parts


def table(comment, declaration, rows):
    body = textwrap.fill(" ".join(rows), 100, initial_indent="  ", subsequent_indent="  ",
                         break_long_words=False, break_on_hyphens=False)
    return f"// {comment}\n{declaration} = {{\n{body}\n}};\n"


def write(version, tables):
    head = ("#pragma once\n\n#include <cstdint>\n#include <string_view>\n\n"
            '#include "data/text/unicode.hpp"\n\n'
            f"// Unicode {version}, by make_unicode_tables.py.\n// clang-format off\n"
            "namespace tapestry::unicode {\n\n")
    tail = "\n}  // namespace tapestry::unicode\n// clang-format on\n"
    (HERE / "unicode_tables.hpp").write_text(head + "\n".join(tables) + tail, encoding="utf-8")


def main():
    version = re.search(r"PropList-(\d+\.\d+)", (SOURCE / "PropList.txt").read_text())[1]
    every = dict(characters())

    kinds = {code: {"L": "L", "N": "N"}.get(fields[2][0]) for code, fields in every.items()}
    for fields in lines_of("PropList.txt"):
        if fields[1] == "White_Space":
            kinds.update(dict.fromkeys(span_of(fields[0]), "S"))
    kinds = {code: kind for code, kind in kinds.items() if kind}

    lower = {code: int(fields[13], 16) - code for code, fields in every.items() if fields[13]}

    classes = {code: int(fields[3]) for code, fields in every.items() if fields[3] != "0"}

    decompositions = {}
    for code, fields in every.items():
        if fields[5] and "<" not in fields[5]:
            parts = [int(part, 16) for part in fields[5].split()]
            decompositions[code] = (parts + [0])[:2]
    excluded = set()
    for fields in lines_of("DerivedNormalizationProps.txt"):
        if fields[1] == "Full_Composition_Exclusion":
            excluded.update(span_of(fields[0]))

    def literal(code):
        return literal_of(code, every[code])

    pairs, to_two, to_one = {}, [], {}
    for code, (first, second) in sorted(decompositions.items()):
        if code not in excluded:
            pairs.setdefault(second, []).append(literal(first) + literal(code))
        elif second:
            to_two.append(f"{{0x{code:X},0x{first:X},0x{second:X}}},")
        else:
            begin = next((key for key in to_one if key + len(to_one[key]) == code), code)
            to_one.setdefault(begin, []).append(literal(first))

    write(version, [
        "inline constexpr auto L = CharacterKind::letter, N = CharacterKind::number,\n"
        "                      S = CharacterKind::space;\n",
        table("First, last, kind: categories L and N, and White_Space.",
              "inline constexpr struct { char32_t first, last; CharacterKind kind; } kinds[]",
              [f"{{0x{a:X},0x{b:X},{kind}}}," for a, b, kind in runs(kinds)]),
        table("Simple lower case: first, last, step, offset.",
              "inline constexpr struct { char32_t first, last, step; std::int32_t offset; } "
              "upper_cases[]",
              [f"{{0x{a:X},0x{b:X},{step},{offset}}}," for a, b, step, offset in
               stepped_runs(lower)]),
        table("First, last, canonical combining class, of those whose class is not 0.",
              "inline constexpr struct { char32_t first, last; std::uint8_t value; } "
              "combining_classes[]",
              [f"{{0x{a:X},0x{b:X},{value}}}," for a, b, value in runs(classes)]),
        table("For each second character: each first character, and after it the composition of both.",
              "inline constexpr struct { char32_t second; std::u32string_view pairs; } "
              "compositions[]",
              [f'{{0x{second:X},U"{text}"}},' for second, texts in sorted(pairs.items())
               for _, text in cut(texts)]),
        table("A character and the two that it is taken apart into, but never composed of.",
              "inline constexpr char32_t decompositions_to_two[][3]", to_two),
        table("The first of consecutive characters, and what each of them stands for.",
              "inline constexpr struct { char32_t first; std::u32string_view others; } "
              "decompositions_to_one[]",
              [f'{{0x{first + index:X},U"{text}"}},' for first, texts in sorted(to_one.items())
               for index, text in cut(texts)])])


if __name__ == "__main__":
    main()
