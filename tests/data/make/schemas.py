"""Cases of JSON Schema, in the shape of the schema authors' own suite, for two drafts.

    python3 -m venv venv && venv/bin/pip install jsonschema==4.26.0 rfc3339-validator
    venv/bin/python tests/data/make/schemas.py      writes tests/data/jsonschema/DRAFT/KEYWORD.json

A file is [{description, schema, tests: [{description, data, valid}]}]. What is written here is which
data fit; Python's jsonschema is asked whether it agrees.
"""

import json
import pathlib

from jsonschema import Draft7Validator, Draft202012Validator

FOLDER = pathlib.Path(__file__).parent.parent / "jsonschema"
DRAFTS = {"draft7": Draft7Validator, "draft2020-12": Draft202012Validator}
BOTH = tuple(DRAFTS)
BERTH = {"type": "object", "properties": {"berth": {"type": "string"}, "nights": {"type": "integer"}}, "required": ["berth"]}

# keyword: [(what, schema, data that fit, data that do not, drafts)]
CASES = {
    "type": [
        ("a number without a fraction is an integer, however it is written", {"type": "integer"}, [0, -7, 3.0, 12345678901234567890], [3.5, "3", None, True, []], BOTH),
        ("a number", {"type": "number"}, [0, 2.5, -1e-7], ["0", False, None], BOTH),
        ("a truth value is no number", {"type": "boolean"}, [True, False], [0, 1, "true"], BOTH),
        ("one of several", {"type": ["string", "null"]}, ["pier", "", None], [0, [], {}], BOTH),
        ("a list or an object", {"type": ["array", "object"]}, [[], {}, [1]], ["[]", 1], BOTH)],
    "enum": [
        ("words", {"enum": ["port", "starboard"]}, ["port"], ["Port", "", None, ["port"]], BOTH),
        ("values of many kinds", {"enum": [6, "six", [6], {"n": 6}, None, False]}, [6, 6.0, [6], {"n": 6}, None, False], [0, "6", [False], {"n": "6"}, True], BOTH),
        ("as a property", {"type": "object", "properties": {"side": {"enum": ["port"]}}}, [{}, {"side": "port"}], [{"side": None}, {"side": "either"}], BOTH)],
    "const": [("an object", {"const": {"pier": 3, "open": True}}, [{"open": True, "pier": 3}, {"pier": 3.0, "open": True}], [{"pier": 3}, {"pier": 3, "open": 1}], BOTH)],
    "required": [
        ("some of the properties", BERTH, [{"berth": "C4"}, {"berth": "C4", "other": 1}], [{}, {"nights": 2}, []], BOTH),
        ("says nothing of what is no object", {"required": ["berth"]}, [[], "berth", 7, None], [{}], BOTH),
        ("names that need quoting", {"required": ["a/b", "c~d", "e\"f", "é"]}, [{"a/b": 1, "c~d": 1, "e\"f": 1, "é": 1}], [{"a": {"b": 1}, "c~d": 1, "e\"f": 1, "é": 1}], BOTH)],
    "properties": [("of different types", BERTH, [{"berth": "C4", "nights": 2}], [{"berth": 4}, {"berth": "C4", "nights": "2"}, {"berth": "C4", "nights": 1.5}], BOTH),
                   ("a property that must not be", {"properties": {"old": False}}, [{}, {"new": 1}], [{"old": None}], BOTH)],
    "additionalProperties": [
        ("none", {**BERTH, "additionalProperties": False}, [{"berth": "C4"}], [{"berth": "C4", "boat": "Måsen"}], BOTH),
        ("of a type", {"type": "object", "additionalProperties": {"type": "number"}}, [{}, {"a": 1, "b": 2.5}], [{"a": "1"}], BOTH),
        ("but for patterns", {"patternProperties": {"^x-": {}}, "additionalProperties": False}, [{"x-note": 1}], [{"note": 1}], BOTH)],
    "items": [
        ("all of a type", {"type": "array", "items": {"type": "integer"}}, [[], [1, 2]], [[1, "2"], [[1]]], BOTH),
        ("lists of lists", {"items": {"type": "array", "items": {"enum": [0, 1]}}}, [[[0, 1], []]], [[[0, 2]]], BOTH),
        ("by place", {"items": [{"type": "string"}, {"type": "number"}], "additionalItems": False}, [["a", 1], ["a"], []], [[1, "a"], ["a", 1, 2]], ("draft7",)),
        ("after the first ones", {"prefixItems": [{"type": "string"}], "items": {"type": "number"}}, [["a", 1, 2], []], [["a", "b"], [1]], ("draft2020-12",))],
    "limits": [
        ("of numbers", {"minimum": 0, "exclusiveMaximum": 24}, [0, 23.999, "x"], [-0.1, 24, 25], BOTH),
        ("a step", {"multipleOf": 0.25}, [0, 1.75, -0.5], [0.1, 1.3], BOTH),
        ("of lengths, in characters", {"minLength": 2, "maxLength": 3}, ["ab", "日本語", "\U0001F6B2\U0001F6B2"], ["a", "abcd", "\U0001F6B2"], BOTH),
        ("of lists", {"minItems": 1, "maxItems": 2, "uniqueItems": True}, [[1], [1, "1"], [0, False]], [[], [1, 2, 3], [1, 1.0], [{"a": 1}, {"a": 1}]], BOTH),
        ("of objects", {"minProperties": 1, "maxProperties": 2}, [{"a": 1}], [{}, {"a": 1, "b": 2, "c": 3}], BOTH)],
    "pattern": [("anywhere in the text", {"pattern": "[A-F][0-9]{1,2}$"}, ["C4", "berth F12", 7], ["G4", "C123x", ""], BOTH)],
    "anyOf": [("a text or a boat", {"anyOf": [{"type": "string", "minLength": 1}, BERTH]}, ["C4", {"berth": "C4"}], ["", {}, 4], BOTH)],
    "oneOf": [("exactly one of two", {"oneOf": [{"minimum": 2}, {"type": "integer"}]}, [1, 2.5], [3, 1.5], BOTH)],
    "allOf": [("all of two", {"allOf": [{"minimum": 2}, {"maximum": 4}]}, [2, 3.3, 4], [1, 5], BOTH)],
    "not": [("anything but a number", {"not": {"type": "number"}}, ["1", None], [1, 1.5], BOTH)],
    "if-then-else": [("a side only by a pier", {"if": {"properties": {"at": {"const": "pier"}}, "required": ["at"]}, "then": {"required": ["side"]}, "else": {"not": {"required": ["side"]}}},
                      [{"at": "pier", "side": 1}, {"at": "buoy"}, {}], [{"at": "pier"}, {"side": 1}], BOTH)],
    "ref": [
        ("definitions", {"definitions": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/definitions/n"}}}, [{"n": 1}, {}], [{"n": "1"}], BOTH),
        ("$defs", {"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}}, [[1]], [["1"]], ("draft2020-12",)),
        ("a tree", {"$ref": "#/definitions/node", "definitions": {"node": {"type": "object", "required": ["value"], "properties": {
            "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/definitions/node"}}}}}},
         [{"value": 1, "children": [{"value": 2, "children": []}]}], [{"value": 1, "children": [{"children": []}]}, {"value": "1"}], BOTH),
        ("names with signs", {"definitions": {"a/b": {"type": "null"}, "c%d": {"type": "null"}, "e~f": {"type": "null"}},
                              "properties": {"1": {"$ref": "#/definitions/a~1b"}, "2": {"$ref": "#/definitions/c%25d"}, "3": {"$ref": "#/definitions/e~0f"}}},
         [{"1": None, "2": None, "3": None}], [{"1": 1}, {"2": 1}, {"3": 1}], BOTH)],
    "dependencies": [("one brings another", {"dependentRequired": {"voucher": ["customer"]}}, [{"voucher": 1, "customer": 1}, {"customer": 1}, {}], [{"voucher": 1}], ("draft2020-12",)),
                     ("one brings another, in the old words", {"dependencies": {"voucher": ["customer"]}}, [{"voucher": 1, "customer": 1}, {}], [{"voucher": 1}], ("draft7",))],
    "contains": [("a number among them", {"contains": {"type": "number"}}, [["a", 1]], [[], ["a"]], BOTH)],
    "propertyNames": [("short names", {"propertyNames": {"maxLength": 3}}, [{"abc": 1}, {}], [{"abcd": 1}], BOTH)],
    "default": [("says nothing of what fits", {"properties": {"n": {"type": "integer", "default": "three"}}}, [{}, {"n": 3}], [{"n": "three"}], BOTH)],
    "boolean_schema": [("everything", True, [1, None, {}], [], BOTH), ("nothing", False, [], [1, None, {}], BOTH)],
    "format": [("is not asserted unless that is asked for", {"format": "email"}, ["harbor@skarholm.example", "nobody"], [], BOTH)],
    "optional-format-date": [("a date", {"format": "date"}, ["2026-03-17", 7], ["2026-02-30", "17 March", "2026-3-7"], BOTH)],
}


def main():
    for draft, validator in DRAFTS.items():
        folder = FOLDER / draft
        folder.mkdir(parents=True, exist_ok=True)
        for keyword, groups in CASES.items():
            found = []
            for what, schema, fit, unfit, drafts in groups:
                if draft not in drafts:
                    continue
                if isinstance(schema, dict) and draft == "draft2020-12":
                    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
                tests = [(data, True) for data in fit] + [(data, False) for data in unfit]
                checks = validator.FORMAT_CHECKER if keyword.startswith("optional-format-") else None
                for data, valid in tests:
                    assert validator(schema, format_checker=checks).is_valid(data) == valid, (draft, keyword, what, data)
                found.append({"description": what, "schema": schema, "tests": [
                    {"description": json.dumps(data, ensure_ascii=False), "data": data, "valid": valid} for data, valid in tests]})
            if found:
                (folder / f"{keyword}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
