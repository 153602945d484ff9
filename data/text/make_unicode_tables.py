#!/usr/bin/python3
"""Writes unicode_kinds.hpp and unicode_forms.hpp beside it, from Debian's package unicode-data.

    apt-get install -y unicode-data && data/text/make_unicode_tables.py

The version of Unicode is the package's: 15.0 in Debian 12.
"""

import pathlib
import re
import textwrap

SOURCE = pathlib.Path("/usr/share/unicode")
HERE = pathlib.Path(__file__).parent


def lines_of(name):
    """The fields of each line, without comments."""
    for line in (SOURCE / name).read_text(encoding="utf-8").splitlines():
        fields = [field.strip() for field in line.split("#")[0].split(";")]
        if fields != [""]:
            yield fields


def span_of(text):
    first, _, last = text.partition("..")
    return range(int(first, 16), int(last or first, 16) + 1)


def characters():
    """(code point, fields) of UnicodeData.txt; of ranges each code point."""
    begin = 0
    for fields in lines_of("UnicodeData.txt"):
        code = int(fields[0], 16)
        if fields[1].endswith("First>"):
            begin = code
            continue
        for each in range(begin if fields[1].endswith("Last>") else code, code + 1):
            yield each, fields


def runs(values):
    """[first, last, value] of neighbouring code points with the same value."""
    found = []
    for code, value in sorted(values.items()):
        if found and found[-1][1] == code - 1 and found[-1][2] == value:
            found[-1][1] = code
        else:
            found.append([code, code, value])
    return found


def stepped_runs(offsets):
    """[first, last, step, offset]: every step-th code point, one or two, has the offset."""
    found = []
    for code, offset in sorted(offsets.items()):
        if found and found[-1][3] == offset:
            first, last, step, _ = found[-1]
            if code - last == step or (first == last and code - last == 2):
                found[-1][1:3] = [code, code - last]
                continue
        found.append([code, code, 1, offset])
    return found


def table(comment, declaration, rows):
    body = textwrap.fill(" ".join(rows), 100, initial_indent="  ", subsequent_indent="  ")
    return f"// {comment}\n{declaration} = {{\n{body}\n}};\n"


def write(name, version, tables, include=""):
    head = (f"#pragma once\n\n#include <cstdint>\n\n{include}"
            f"// Unicode {version}, by make_unicode_tables.py.\n// clang-format off\n"
            "namespace tapestry::unicode {\n\n")
    tail = "\n}  // namespace tapestry::unicode\n// clang-format on\n"
    (HERE / name).write_text(head + "\n".join(tables) + tail, encoding="utf-8")


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

    def triples(one_way):
        return [f"{{0x{code:X},0x{first:X},{second and f'0x{second:X}'}}},"
                for code, (first, second) in sorted(decompositions.items())
                if (code in excluded) == one_way]

    write("unicode_kinds.hpp", version, [
        "inline constexpr auto L = CharacterKind::letter, N = CharacterKind::number,\n"
        "                      S = CharacterKind::space;\n",
        table("First, last, kind: categories L and N, and White_Space.",
              "inline constexpr struct { char32_t first, last; CharacterKind kind; } kinds[]",
              [f"{{0x{a:X},0x{b:X},{kind}}}," for a, b, kind in runs(kinds)]),
        table("Simple lower case: first, last, step, offset.",
              "inline constexpr struct { char32_t first, last, step; std::int32_t offset; } "
              "upper_cases[]",
              [f"{{0x{a:X},0x{b:X},{step},{offset}}}," for a, b, step, offset in
               stepped_runs(lower)])],
          '#include "data/text/unicode.hpp"\n\n')
    write("unicode_forms.hpp", version, [
        table("First, last, canonical combining class, of those whose class is not 0.",
              "inline constexpr struct { char32_t first, last; std::uint8_t value; } "
              "combining_classes[]",
              [f"{{0x{a:X},0x{b:X},{value}}}," for a, b, value in runs(classes)]),
        table("Character and the two that it is made of.",
              "inline constexpr char32_t compositions[][3]", triples(False)),
        table("The same of those that are taken apart but never put together; 0: made of one.",
              "inline constexpr char32_t one_way_decompositions[][3]", triples(True))])


if __name__ == "__main__":
    main()
