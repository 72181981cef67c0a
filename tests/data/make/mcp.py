"""What MCP servers list, written for tract: a server as it should be, and one of odd definitions.

    python3 tests/data/make/mcp.py              writes tests/data/mcp/SERVER.json

A file is {serverInfo, protocolVersion, result: {tools}}, as `tools/list` answers.
"""

import json
import pathlib

FOLDER = pathlib.Path(__file__).parent.parent / "mcp"
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def object_of(required=(), /, **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False,
            "$schema": "http://json-schema.org/draft-07/schema#"}


def text(description):
    return {"type": "string", "description": description}


def tool(name, title, description, schema, hints="", **more):
    marks = {hint: letter in hints for hint, letter in zip(HINTS, "rdio")}
    return {"name": name, "title": title, "description": description, "inputSchema": schema, "annotations": marks, **more}


BOAT = {"type": "object", "properties": {"name": text("As painted on the bow."), "length_m": {"type": "number"},
                                         "crew": {"type": "array", "items": {"type": "string"}}}, "required": ["name", "length_m", "crew"]}

HARBOR = [
    tool("list_berths", "List berths", "List all berths, with the boats in them.", object_of(), "ri",
         outputSchema={"type": "object", "properties": {"berths": {"type": "array", "items": BOAT}}, "required": ["berths"]}),
    tool("read_gauge", "Read a gauge", "Height of the water at a gauge, in metres.\n\nGauges are named after their piers.",
         object_of(["gauge"], gauge=text("Such as north.")), "ro"),
    tool("book_berth", "Book a berth", "Book a berth for a boat.",
         object_of(["berth", "boats"], berth={**text("A letter and a number."), "pattern": "^[A-F][0-9]+$"},
                   boats={"type": "array", "items": BOAT, "minItems": 1}, nights={"type": "integer", "minimum": 1, "default": 1})),
    tool("free_berth", "Free a berth", "Take a boat out of its berth.", object_of(["berth"], berth=text("Which one.")), "di"),
    tool("move_boats", "Move boats", "Move boats from berths to others, all or none.", object_of(["moves"], moves={
        "type": "array", "items": object_of(["from", "to"], **{"from": text("Berth."), "to": text("Berth.")})}), "d"),
    tool("find_boats", "Find boats", "Boats whose names contain a text.", object_of(["text"], text=text("Case does not matter.")), "ri",
         _meta={"skarholm.example/cost": 0.5}),
    tool("post_notice", "Post a notice", "Post a notice to all boats.", object_of(["notice"], notice=text("Plain text."), until={
        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None}), "o"),
    tool("set_light", "Set a light", "Set the light of a pier.", object_of(["pier", "state"], pier={"type": "integer"}, state={
        "oneOf": [{"const": "off", "title": "Off"}, {"const": "red"}, {"const": "green"}]}), "i", execution={"taskSupport": "optional"}),
    tool("harbor_clock", "Clock", "The time at the harbor.", {"type": "object"}, "r",
         icons=[{"src": "https://skarholm.example/clock.png", "mimeType": "image/png", "sizes": ["48x48"]}]),
]

ODD = [
    {"name": "bare", "inputSchema": {"type": "object"}},
    {"name": "no-properties.but_a.dotted/name", "description": "", "inputSchema": {"type": "object", "additionalProperties": {}}},
    {"name": "a" * 60, "description": "A long name.", "inputSchema": {"type": "object", "properties": {"": {"type": "string"}, "é ü": True, "never": False}}},
    {"name": "tree", "description": "A schema that leads back to itself.", "inputSchema": {
        "type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": {
            "type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}}},
    {"name": "tuple", "description": "Items by place.", "inputSchema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {"at": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False}}}},
    {"name": "numbers", "description": "Numbers that are easily changed: 1.0, 1e2.", "inputSchema": {"type": "object", "properties": {
        "n": {"type": "number", "multipleOf": 0.01, "maximum": 12345678901234567890, "examples": [1.0, 1e-07]}}}},
    {"name": "types", "description": "Types as a list, with and without null.", "inputSchema": {"type": "object", "properties": {
        "a": {"type": ["string", "null"]}, "b": {"type": ["integer", "string"]}, "c": {}, "d": {"enum": [1, "one", None]}}, "required": ["d", "a"]}},
    {"name": "no_type", "title": "Keywords that say more than a type", "description": "Line one.\n\tLine two: \"quoted\" \\ and \u2028.", "inputSchema": {
        "type": "object", "properties": {"x": {"minLength": 1}, "y": {"not": {"type": "null"}}}, "dependentRequired": {"x": ["y"]}}},
]


def main():
    FOLDER.mkdir(exist_ok=True)
    for file, name, version, tools in (("harbor", "harbor-office", "3.1.0", HARBOR), ("odd", "odd-definitions", "0.0.1", ODD)):
        listing = {"serverInfo": {"name": name, "version": version}, "protocolVersion": "2025-06-18", "result": {"tools": tools}}
        (FOLDER / f"{file}.json").write_text(json.dumps(listing, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
