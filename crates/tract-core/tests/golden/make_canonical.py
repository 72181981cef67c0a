#!/usr/bin/env python3
"""Writes canonical.jsonl: awkward JSON documents and what CPython makes of them.

    python3 make_canonical.py                 # writes the table again
    python3 make_canonical.py --real          # also collects the documents of tests/data again
    python3 make_canonical.py --answer        # answers documents on standard input, see answer()

A line of the table has `name`, `text` (or `base64`, when the bytes are not UTF-8), and either
`ascii_sha256` and `raw_sha256` or `refused` with the reason.

Real documents are kept from the table as it is. They are tools and messages of this repository's
tests/data.
"""

import base64
import hashlib
import json
import re
import struct
import sys
from pathlib import Path

TABLE = Path(__file__).with_name("canonical.jsonl")
MAX_DEPTH = 128

# Before 3.11 there was no limit of 4,300 digits for integers.
if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)
sys.setrecursionlimit(20_000)


class Refused(Exception):
    pass


def canonical(data):
    """The two canonical texts of a document in bytes. Raises Refused with the reason."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("utf8") from None
    if depth(text) > MAX_DEPTH:
        raise Refused("depth")
    try:
        value = json.loads(
            text,
            parse_constant=refuse_constant,
            parse_float=finite,
            object_pairs_hook=checked_pairs,
        )
    except (json.JSONDecodeError, RecursionError):
        raise Refused("syntax") from None
    check_surrogates(value)
    return [
        json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii)
        for ascii in (True, False)
    ]


def depth(text):
    """The greatest number of open brackets. Right for JSON; other texts are refused anyway."""
    deepest = now = 0
    for bracket in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.DOTALL):
        if bracket in "[{":
            now += 1
            deepest = max(deepest, now)
        elif bracket in "]}":
            now -= 1
    return deepest


def refuse_constant(name):
    raise Refused("syntax")


def finite(lexeme):
    value = float(lexeme)
    if value in (float("inf"), float("-inf")):
        raise Refused("not_finite")
    return value


def checked_pairs(pairs):
    """What a later key replaces is refused all the same."""
    if len({key for key, _ in pairs}) < len(pairs):
        for pair in pairs:
            check_surrogates(pair)
    return dict(pairs)


def check_surrogates(value):
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise Refused("surrogate") from None


def answer():
    """For each line of standard input, a document's bytes in hex: its two texts in hex, or why
    it is refused."""
    for line in sys.stdin:
        try:
            print(*(text.encode("utf-8").hex() for text in canonical(bytes.fromhex(line))))
        except Refused as reason:
            print("refused", reason)


def documents():
    """Pairs of a name and a document, which is a text or bytes."""
    groups = [
        ("integer", INTEGERS),
        ("float", FLOATS),
        ("string", STRINGS),
        ("keys", KEYS),
        ("structure", STRUCTURES),
        ("refused", REFUSED),
    ]
    for group, texts in groups:
        for number, text in enumerate(texts):
            yield f"{group}/{number:03}", text
    for exponent in list(range(-1074, 1024, 97)) + [-1022, -44, -25, -24, -23, -14, 52, 53, 54, 1023]:
        yield f"float/two_to_{exponent}", repr_exact(2.0**exponent)
    for exponent in (-323, -308, -45, -24, -7, -6, -5, -4, -3, 14, 15, 16, 17, 20, 21, 22, 23, 308):
        for mantissa in ("1", "9.5", "1.2345678901234567"):
            if float(f"{mantissa}e{exponent}") != float("inf"):
                yield f"float/{mantissa}e{exponent}", f"[{mantissa}e{exponent},-{mantissa}E{exponent:+}]"
    # In the middle between two shortest forms the even one is right.
    for place in range(1, 25):
        for odd in (1, 3, 5, 7):
            fraction = odd / 2.0 ** (place + 1)
            whole = 2.0 ** int(53.5 - 3.3219 * place)
            value = whole + fraction
            yield f"float/middle_{place}_{odd}", f"[{repr_exact(value)},{repr_exact(-whole - 3 * fraction)}]"
    for bits in range(1, 1 << 63, (1 << 63) // 24 | 1):
        value = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
        if abs(value) < float("inf"):
            yield f"float/bits_{bits:016x}", repr_exact(value)


def repr_exact(value):
    """A double in more digits than it needs."""
    return f"{value:.25e}"


INTEGERS = [
    "0", "-0", "1", "-1", "42", "[0,-0,1,-1]", '{"a":-0,"b":[-0]}',
    "2147483647", "2147483648", "-2147483649", "9007199254740991", "9007199254740992",
    "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "18446744073709551615", "18446744073709551616",
    "123456789012345678901234567890", "-123456789012345678901234567890",
    "1" + "0" * 22, "1" + "0" * 400, "-" + "9" * 400, "1234567890" * 430, "7" * 4301,
    "-" + "1234567890" * 600,
]

FLOATS = [
    "0.0", "-0.0", "0e0", "-0e0", "0E+5", "0e-5", "-0e-5", "0.0e99999", "0e999999999999999999999",
    "-0.000", "1.0", "1.00", "-1.0", "1.5", "10.0", "100.0", "1e0", "1E0", "1e+0", "1e-0", "1e00",
    "1E5", "1e5", "1e+5", "1e05", "1e15", "1e16", "1E16", "1e+16", "1e17", "1e21", "1e22", "1e23",
    "123456789012345.6", "1234567890123456.7", "9999999999999998.0", "9999999999999999.0",
    "10000000000000000.0", "12345678901234567.0", "123456789012345680000.0", "1e100",
    "0.1", "0.10", "0.2", "0.3", "0.30000000000000004", "0.1000000000000000055511151231257827",
    "0.001", "0.0001", "0.00012", "0.00001", "0.000012345", "0.0000001", "1e-4", "1e-5", "1e-05",
    "1e-7", "1e-10", "1e-99", "1e-100", "9.999e-5", "0.99999e-4", "0.000099999999999999999",
    "0.00009999999999999999", "9999999999999999.5", "999999999999999.9",
    "3.141592653589793", "2.718281828459045", "3.14159265358979323846264338327950288",
    "1.7976931348623157e308", "-1.7976931348623157e308", "1.7976931348623158e308",
    "179769313486231570000" + "0" * 288 + ".0", "2.2250738585072014e-308",
    "2.225073858507201e-308", "2.2250738585072011e-308", "4.9e-324", "5e-324", "-5e-324", "3e-324",
    "2.5e-324", "2.4e-324", "2e-324", "1e-400", "-1e-400", "1e-99999999999999999999", "1e-323",
    "1.5e-323", "4.4501477170144023e-308", "9007199254740992.0", "9007199254740993.0",
    "9007199254740993.5", "9007199254740994.999", "5.0e-5", "1.0e1", "12.50e1", "1.25E-2",
    "0.5e1", "0.05e2", "100e-2", "1000000e-6", "123e10", "123.456e-10", "8.5e15", "8.41e21",
    "2e0", "4.35", "4.349999999999999", "0.95", "1.1", "2.675", "1.005", "100.1e-1", "5e-1",
    "1.7976931348623157e+0308", "17976931348623157e292", "0.00017976931348623157e312",
    "1" + "0" * 30 + "e-30", "0." + "0" * 30 + "1e31", "1" + "0" * 400 + "e-400",
    "0." + "0" * 400 + "25e400", "0." + "0" * 1500 + "12345e1500", "12345" + "0" * 1500 + "e-1504",
    "1." + "0" * 800 + "1", "9007199254740993." + "0" * 900 + "1", "9007199254740993." + "0" * 900,
    "0." + "3" * 1200, "-" + "9" * 300 + "." + "9" * 300,
    "[1e1,1E1,1.0e+1,10.0,10]", "[1,1.0,1e0]", "[0.1,0.2,0.30000000000000004]",
]

ESCAPED = "".join(f"\\u{code:04x}" for code in range(0x00, 0xA0))

STRINGS = [
    '""', '" "', '"a"', '"hello world"', r'"\""', r'"\\"', r'"\/"', '"/"', r'"<\/script>"',
    r'"\b\f\n\r\t"', r'"\u0008\u000c\u000a\u000d\u0009"', r'"\u0022\u005c\u002f"', r'"\\u0041"',
    r'"\\\\"', r'"\\\""', r'"\\n"', r'"\u0000"', r'"a\u0000b"', r'"\u001f"', r'"\u001F"',
    r'"\u0020"', r'"\u007e\u007f\u0080"', '"\x7f"', '"~\x7f\x80"', '"a long text, then \x7f"',
    '"\x80\x9f\xa0"', r'"\u0041\u00e9\u4e2d"', r'"\u00E9\u00e9"', r'"\uABCD\uabcd\uAbCd"',
    '"\u00e9"', '"caf\u00e9"', '"cafe\u0301"', r'"cafe\u0301"', '"\u4e2d\u6587"', '"\u0440\u0443"',
    '"\u05e9\u05dc\u05d5\u05dd"', '"\u0645\u0631\u062d\u0628\u0627"', '"\u2028\u2029"',
    r'"\u2028\u2029"', '"\u200b\u200d\ufeff"', r'"\ufeff"', '"\ufeff"', '"\ufffd\ufffe\uffff"',
    r'"\ufffd\ufffe\uffff"', '"\U0001f600"', r'"\ud83d\ude00"', r'"\uD83D\uDE00"',
    r'"\uD83d\udE00x"', '"\U00010000\U0010ffff"', r'"\ud800\udc00\udbff\udfff"',
    r'"\ud7ff\ue000"', '"\ud7ff\ue000"', '"\U0001f468\u200d\U0001f469\u200d\U0001f467"',
    '"\U0001f1e9\U0001f1ea"', f'"{ESCAPED}"', f'"{ESCAPED.upper().replace("U", "u")}"',
    '"' + "".join(map(chr, range(0x20, 0x180))).replace("\\", "\\\\").replace('"', '\\"') + '"',
    r'"{\"name\": \"x\", \"arguments\": \"{\\\"a\\\": 1}\"}"', r'"C:\\Users\\new\\table"',
    '"1234567"', '"12345678"', '"123456789"', r'"1234567\n"', r'"12345678\n"', r'"1234567\""',
    '"1234567\u00e9"', '"123456\u00e9"', '"12345678\u00e9"', r'"\n2345678\n2345678\n"',
    '"\U0001f600\U0001f600\U0001f600"', r'"line one\nline two\r\n\ttabbed \"quoted\""',
    '"' + "x" * 5000 + '"', '"' + "\u00fc" * 500 + '"', '"' + r"\u00fc" * 300 + '"',
    '["\u00e9","\\u00e9","e\\u0301","e\u0301"]', '"null"', '"NaN"', '"\\u000b\\u000e"',
]

KEYS = [
    '{"b":1,"a":2}', '{"a":1,"b":2}', '{"b":{"d":1,"c":2},"a":{"f":1,"e":2}}', '{"":1}',
    '{"a":1,"":2}', '{" ":1,"":2,"!":3}', '{"a!":1,"a":2,"a ":3,"a#":4}', '{"a":1,"A":2,"_":3}',
    '{"aa":1,"a":2,"ab":3}', '{"10":1,"9":2,"1":3,"01":4}', '{"1":1,"1.0":2,"1e0":3}',
    '{"-1":1,"0":2,"+1":3}', '{"\u00e9":1,"e":2,"f":3,"e\u0301":4}', '{"z":1,"\u00e9":2}',
    '{"\U0001f600":1,"\uffff":2}', '{"\\ud83d\\ude00":1,"\\uffff":2}',
    '{"\U0001f600":1,"\\ue000":2,"\ud7ff":3}', '{"\uff01":1,"\U00010000":2,"\\ud800\\udc01":3}',
    '{"\\u0062":1,"\\u0061":2}', '{"\\u0061":1,"b":2,"\\u0063":3}', r'{"\n":1,"\u0000":2," ":3}',
    r'{"\"":1,"!":2,"#":3}', r'{"\\":1,"[":2,"]":3}', r'{"\/":1,".":2,"0":3}', '{"\x7f":1,"~":2,"\x80":3}',
    r'{"a\u0000":1,"a":2}', r'{"a\tb":1,"a\nb":2,"a b":3}', r'{"a\\":1,"a\"":2,"a":3}',
    '{"a":1,"a":2}', '{"a":1,"b":2,"a":3}', '{"b":1,"a":2,"b":3,"a":4}', r'{"a":1,"\u0061":2}',
    r'{"\u0061":1,"a":2}', '{"a":1,"a":1}', '{"a":{"x":1},"a":{"y":2}}', '{"a":[],"a":{},"a":null}',
    r'{"\/":1,"/":2}', '{"\u00e9":1,"\\u00E9":2}', '{"\U0001f600":1,"\\uD83D\\uDE00":2,"a":0}',
    '{"":1,"":2}', '{"c":1,"b":2,"a":3,"c":4,"b":5,"a":6,"c":7}',
    '{"k":"a long value that stays where it is, more or less","j":1,"l":2,"a":3,"z":4}',
    '{"b":"the longest comes first, and is dropped","b":1,"a":2}',
    "{" + ",".join(f'"{(n * 37) % 101}":{n}' for n in range(202)) + "}",
    "{" + ",".join(f'"k{n:03}":{n}' for n in range(150)) + "}",
    "{" + ",".join(f'"k{n:03}":{n}' for n in reversed(range(150))) + "}",
    '{"type":"object","required":["b","a"],"properties":{"b":{"type":"string"},"a":{"type":"number"}}}',
    '{"a":{"a":{"a":{"b":1,"a":2},"A":1},"A":1},"A":1}', '{"constructor":1,"__proto__":2,"toString":3}',
]

STRUCTURES = [
    "[]", "{}", "null", "true", "false", "[[]]", "[{}]", '{"a":[]}', '{"a":{}}', "[null,true,false]",
    " [] ", "\t{\n}\r\n", " null ", "\r\n\t 1 \t\n\r", "[ ]", "{ }", "[ 1 , 2 ]", "[1,\n2,\r3,\t4]",
    '{ "a" : 1 , "b" : 2 }', '{\n  "b": [\n    1,\n    2\n  ],\n  "a": {}\n}', '{"a":\t1}', "\n\n1\n\n",
    "[[1,[2,[3,[4]]]],[]]", '[{"a":[{"b":[{"c":{}}]}]}]', '[{"b":1,"a":2},{"d":1,"c":2}]',
    "[" * 128 + "]" * 128, '{"a":' * 128 + "1" + "}" * 128, '[{"a":' * 64 + "0" + "}]" * 64,
    '{"b":0,"a":' * 128 + "1" + "}" * 128, "[" + "[" * 127 + "]" * 127 + ',"[[["]',
    "[" + "[],{}," * 200 + "[]]", "[" + ",".join(map(str, range(500))) + "]",
    '[' * 100 + ']' * 100, '["[[[[","]]]]","{\\"","}"]', '[1,"1",1.0,"1.0",true,"true",null,"null"]',
]

REFUSED = [
    "", " ", "\n", "nul", "nulll", "tru", "True", "None", "undefined", "NaN", "[NaN]", "Infinity",
    "-Infinity", "[-Infinity]", "nan", "inf", "-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1.e5",
    "1e", "1e+", "1E-", "1.5e", "0x10", "1_000", "1 2", "1,", "--1", "- 1", "1e5.5", "1a", "[1 2]",
    "[1,]", "[,1]", "[,]", "[1,,2]", "[", "]", "[1", "[1,", "[}", "{", "}", "{]", '{"a"', '{"a":', '{"a":1',
    '{"a":1,', '{"a":1,}', "{,}", '{"a" 1}', '{"a":1 "b":2}', '{"a"::1}', "{a:1}", "{'a':1}", "{1:2}",
    "{null:1}", '{"a":1}}', "[]]", "[] []", "{}{}", '""""', '"', '"a', '"\\', '"\\"', '"a\nb"', '"\t"', '"\x00"',
    '"\x1f"', '"1234567\n"', '"12345678\x01"', '"\\a"', '"\\x41"', '"\\0"', '"\\v"', "\"\\'\"", '"\\ "', '"\\\n"',
    '"\\u"', '"\\u1"', '"\\u12"', '"\\u123"', '"\\u123g"', '"\\u+123"', '"\\u 123"', '"\\u-123"', '"\\U0041"',
    '"\\u00e', '"\\u12\u00e9"', '"\\\u00e9"', "'a'", "// c\n1", "/* c */1", "1 // c", "# c\n1", "\ufeff1", "\ufeff{}",
    "\u00a01", "1\u00a0", "\x0b1", "\x0c1", "\u20281", "\u0661", "1\u0661", "[1\x00]", "\x00", "1\x00", "\uff11", "{\"a\":}",
    r'"\ud800"', r'"\udc00"', r'"\ud83d"', r'"\ude00\ud83d"', r'"\ud83d\ud83d\ude00"', r'"\ud83dx"',
    r'"\ud83d\n"', r'"\ud83d\u0041"', r'"\uDBFF"', r'"a\uDFFFb"', r'{"\ud800":1}', r'{"a":"\ud800","a":1}',
    r'["\ud800\ud800"]', r'{"a":{"b":["\udfff"]}}',
    "1e309", "-1e309", "1e400", "1E400", "[1e999999999999999999999]", '{"a":1e400,"a":1}', "1.8e308",
    "1.7976931348623159e308", "1" + "0" * 400 + ".0", "1" + "0" * 400 + "e0", "1" + "0" * 1500 + "e-1000",
    "[" * 129 + "]" * 129, '{"a":' * 129 + "1" + "}" * 129, "[" * 128 + "{}" + "]" * 128,
    '[{"a":' * 64 + "[]" + "}]" * 64, "[" * 1000 + "]" * 1000, '{"a":' + "[" * 128 + "]" * 128 + ',"a":1}',
    b'"\xff"', b'"\x80"', b'"\xc3"', b'"\xc3(\x22', b'"\xe2\x82"', b'"\xf0\x9f\x98"', b'"\xc0\xaf"', b'"\xe0\x80\xaf"',
    b'"\xed\xa0\x80"', b'"\xed\xa0\xbd\xed\xb8\x80"', b'"\xf4\x90\x80\x80"', b'"\xf8\x88\x80\x80\x80"', b'\xff\xfe1\x00',
    b'"caf\xe9"', b'{"\xff":1}', b'1 \xc3',
]


def kept_documents():
    for line in TABLE.read_text("ascii").splitlines():
        entry = json.loads(line)
        if entry["name"].startswith("real/"):
            yield entry["name"], entry["text"]


def real_documents(data):
    for server in ("harbor", "odd"):
        listing = json.loads((data / "mcp" / f"{server}.json").read_text("utf-8"))
        for tool in listing["result"]["tools"]:
            yield f"real/mcp/{server}/{tool['name']}", json.dumps(tool, indent=1, ensure_ascii=False)
    for line in (data / "trajectories/conversations.jsonl").read_text("utf-8").split("\n")[:-1]:
        conversation = json.loads(line)
        for number in REAL_MESSAGES.get(conversation["id"], []):
            message = conversation["messages"][number]
            yield f"real/{conversation['id']}/{number}", json.dumps(message, ensure_ascii=False)


REAL_MESSAGES = {
    "workshop-cargo-bike": [0, 1, 4, 5, 6, 8, 9, 12, 14, 19, 21],
    "code-midnight": [1, 2, 5, 26],
    "parts-of-many-kinds": [1, 2, 3, 5],
    "pump-reused-ids": [14],
}


def entry(name, document):
    data = document if isinstance(document, bytes) else document.encode("utf-8")
    try:
        line = {"name": name, "text": data.decode("utf-8")}
    except UnicodeDecodeError:
        line = {"name": name, "base64": base64.b64encode(data).decode("ascii")}
    try:
        for rule, text in zip(("ascii", "raw"), canonical(data)):
            line[f"{rule}_sha256"] = hashlib.sha256(text.encode("utf-8")).hexdigest()
    except Refused as reason:
        line["refused"] = str(reason)
    if name.startswith("refused/") != ("refused" in line):
        sys.exit(f"{name}: {line}")
    return line


def main():
    if sys.argv[1:] == ["--answer"]:
        return answer()
    data = Path(__file__).resolve().parents[4] / "tests/data"
    real = list(real_documents(data) if sys.argv[1:] == ["--real"] else kept_documents())
    lines = [entry(name, document) for name, document in [*documents(), *real]]
    assert len({line["name"] for line in lines}) == len(lines), "names are unique"
    TABLE.write_text("".join(json.dumps(line) + "\n" for line in lines), "ascii")


if __name__ == "__main__":
    main()
