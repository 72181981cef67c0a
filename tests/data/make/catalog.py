"""A catalog of tools, questions that each answer, calls, and the same calls with one thing broken.

    python3 -m venv venv && venv/bin/pip install jsonschema==4.26.0
    venv/bin/python tests/data/make/catalog.py          writes tests/data/toolcatalog/*.jsonl

tools.jsonl: {tool_id, name, description, parameters, categories}; `tool_id` is the first 12 digits of
the SHA-256 of the other members, so that tools of one name stay apart. queries.jsonl: {id, query,
expected}. hydration.jsonl: calls, with the verdict of Python's jsonschema (Draft 2020-12, formats not
asserted). hydration_negative.jsonl: {mutation, …}, a valid call with one thing broken.
"""

import copy
import hashlib
import json
import pathlib

from jsonschema import Draft202012Validator

FOLDER = pathlib.Path(__file__).parent.parent / "toolcatalog"

# name | what it does | parameters | a question | arguments of a call. `!` marks what is required.
TOOLS = """
tide.height | Height of the tide at a place and hour. | place:string! hour:integer! | How high is the water in Skarholm at six? | {"place": "Skarholm", "hour": 6}
ferry_departures | Next departures of the ferry from a pier to an island. | island:string! after:string limit:integer | Which ferry goes to Lilla Vik after two o'clock? | {"island": "Lilla Vik", "after": "14:00", "limit": 3}
berth_reserve | Reserve a berth in the harbor for a boat and some nights. | boat:string! nights:integer! side:port|starboard|either | Reserve two nights in the harbor for my boat Måsen. | {"boat": "Måsen", "nights": 2, "side": "either"}
lock_schedule | Hours at which the canal lock opens on a day. | day:string! | When does the lock of the canal open on Sunday? | {"day": "sunday"}
wind_forecast | Wind speed and gusts forecast for a sea area. | area:string! hours:integer unit:knots|ms | What wind and gusts are forecast for the northern sea area? | {"area": "north", "hours": 12, "unit": "ms"}
bike_rent | Rent a bicycle at a station for some hours. | station:string! hours:number! helmet:boolean | Rent me a bicycle at the canal station for three hours, with a helmet. | {"station": "canal", "hours": 3, "helmet": true}
tire.pressure | Pressure for a bicycle tire of a size under a weight. | size:string! weight_kg:number! | What pressure does a 55-406 tire need for 118 kg? | {"size": "55-406", "weight_kg": 118.5}
repair_quote | Quote what repairs of a bicycle cost. | bike:string! repairs:[string]! voucher:string | Quote truing the wheel and a new rotor for bike B-3310. | {"bike": "B-3310", "repairs": ["true_wheel", "rotor"], "voucher": "HJUL26"}
spare_part_stock | How many of a spare part are in stock. | part:string! warehouse:string | Is spare part SP-184-20 in stock? | {"part": "SP-184-20"}
library_search | Search the library's catalog for books by author, title or subject. | words:string! language:string available:boolean | Search the library for books on lighthouses. | {"words": "lighthouses", "available": true}
loan_renew | Renew the loan of a book for some weeks. | loan:string! weeks:integer! | Renew my loan L-77 for another two weeks. | {"loan": "L-77", "weeks": 2}
reading_room_book | Book a desk in the reading room. | day:string! from:integer! to:integer! quiet:boolean | Book a quiet desk in the reading room tomorrow from nine to twelve. | {"day": "2026-03-18", "from": 9, "to": 12, "quiet": true}
seed_sow_date | When to sow the seeds of a plant in a climate zone. | plant:string! zone:integer! | When do I sow tomato seeds in climate zone 3? | {"plant": "tomato", "zone": 3}
soil_mix | Shares of sand, compost and clay for a bed of some litres. | litres:number! plant:string! | Mix soil for a bed of 80 litres for carrots. | {"litres": 80, "plant": "carrot"}
watering_plan | Plan the watering of a greenhouse for a week. | beds:[string]! litres_per_day:number | Plan the watering of beds A and B in the greenhouse. | {"beds": ["A", "B"], "litres_per_day": 12.5}
pest_identify | Identify a garden pest from what it does to leaves. | signs:[string]! | Which pest leaves round holes and silver trails on leaves? | {"signs": ["round holes", "silver trails"]}
frost_alarm | Set an alarm that rings when frost is forecast for the garden. | below_c:number! phone:string! | Ring my phone when frost below minus two is forecast. | {"below_c": -2.0, "phone": "0701234567"}
bread_scale | Scale a bread recipe to another number of loaves. | recipe:string! loaves:integer! | Scale the rye bread recipe to five loaves. | {"recipe": "rye", "loaves": 5}
oven_convert | Convert an oven temperature between celsius, fahrenheit and gas marks. | degrees:number! from:celsius|fahrenheit|gas! to:celsius|fahrenheit|gas! | Convert an oven temperature of 450 fahrenheit to celsius. | {"degrees": 450, "from": "fahrenheit", "to": "celsius"}
pantry_list | List what is in the pantry and until when it keeps. | shelf:string | What is in the pantry on the upper shelf? | {"shelf": "upper"}
shopping_add | Add items to the shopping list. | items:[string]! | Add milk and yeast to the shopping list. | {"items": ["milk", "yeast"]}
music.metronome | Start a metronome at a tempo. | bpm:integer! beats:integer | Start a metronome at 92 beats per minute. | {"bpm": 92, "beats": 3}
chord_spell | Spell the notes of a chord. | root:string! kind:major|minor|diminished! | Which notes are in an F sharp minor chord? | {"root": "F#", "kind": "minor"}
choir_rehearsals | Dates of the choir's rehearsals in a month. | month:integer! voice:soprano|alto|tenor|bass | On which dates does the choir rehearse in May? | {"month": 5, "voice": "alto"}
instrument_tune | Frequency of an instrument's string at a pitch standard. | instrument:string! string:integer! a_hz:number | At which frequency do I tune the third string of a viola? | {"instrument": "viola", "string": 3, "a_hz": 442}
geometry.circle_area | Area of a circle with a radius. | radius:number! | What is the area of a circle with a radius of 4? | {"radius": 4}
geometry.triangle_height | Height of a triangle from its area and base. | area:number! base:number! | A triangle has the area 12 and the base 6: how high is it? | {"area": 12, "base": 6}
number.primes | Prime numbers up to a limit. | limit:integer! | List the prime numbers up to 100. | {"limit": 100}
number.fraction_reduce | Reduce a fraction to lowest terms. | numerator:integer! denominator:integer! | Reduce the fraction 42 over 56. | {"numerator": 42, "denominator": 56}
statistics.median | Median of a list of numbers. | values:[number]! | What is the median of 3, 8, 1 and 9.5? | {"values": [3, 8, 1, 9.5]}
convert | Convert an amount of money between currencies. | amount:number! from:string! to:string! | Convert 250 kronor into euros. | {"amount": 250, "from": "SEK", "to": "EUR"}
convert | Convert a length between units such as metres, feet and nautical miles. | value:number! from:m|ft|nm! to:m|ft|nm! | Convert a length of 12 feet to metres. | {"value": 12, "from": "ft", "to": "m"}
loan_payment | Monthly payment of a loan with an interest rate over some years. | amount:number! rate:number! years:integer! | What is the monthly payment of a loan of 90000 at 3.5 percent over ten years? | {"amount": 90000, "rate": 3.5, "years": 10}
invoice_find | Find invoices of a customer that are not paid. | customer:string! older_than_days:integer | Which invoices of customer K-1042 are not paid? | {"customer": "K-1042", "older_than_days": 30}
tax_deadline | Until when a tax return is due in a country. | country:string! year:integer! | Until when is the tax return due in Sweden this year? | {"country": "SE", "year": 2026}
train_seat | Reserve a seat in a train, by the window or the aisle. | train:string! place:window|aisle! carriage:integer | Reserve a window seat in train 537. | {"train": "537", "place": "window", "carriage": 4}
bus_line_stops | Stops of a bus line in order. | line:string! direction:string | What are the stops of bus line 12? | {"line": "12"}
parcel_track | Track a parcel by its number. | number:string! | Track my parcel RX55SE. | {"number": "RX55SE"}
post_office_hours | Opening hours of a post office. | town:string! day:string | When is the post office in Skarholm open on Saturday? | {"town": "Skarholm", "day": "saturday"}
star_rise | When a star or planet rises at a place. | body:string! latitude:number! longitude:number! | When does the planet Jupiter rise at latitude 58 and longitude 11? | {"body": "Jupiter", "latitude": 58.0, "longitude": 11.25}
moon_phase | Phase of the moon on a date. | date:string! | What phase is the moon in on 1 May? | {"date": "2026-05-01"}
bird_log | Log a bird that was seen, with a count. | species:string! count:integer! place:string | Log that I saw four eiders at the pier. | {"species": "eider", "count": 4, "place": "pier"}
trail_grade | Length, climb and grade of a hiking trail. | trail:string! | How long and steep is the hiking trail around the lake? | {"trail": "lake"}
snow_depth | Depth of snow at a ski slope. | slope:string! unit:cm|inch | How deep is the snow at the north slope? | {"slope": "north", "unit": "cm"}
light_dim | Dim the lights of a room to a level. | room:string! percent:integer! | Dim the lights in the kitchen to 30 percent. | {"room": "kitchen", "percent": 30}
heating_set | Set the heating of a room to a temperature. | room:string! celsius:number! until:string | Set the heating in the bathroom to 22 degrees. | {"room": "bathroom", "celsius": 22, "until": "08:00"}
door_lock | Lock or unlock a door of the house. | door:string! locked:boolean! | Unlock the front door of the house. | {"door": "front", "locked": false}
vacuum_start | Start the vacuum robot in some rooms. | rooms:[string]! quiet:boolean | Start the vacuum in the hall and the kitchen. | {"rooms": ["hall", "kitchen"], "quiet": false}
file.word_count | Count the words of a text file. | path:string! | How many words are in notes.txt? | {"path": "notes.txt"}
file.rename | Rename a file. | path:string! to:string! overwrite:boolean | Rename the file draft.md to final.md. | {"path": "draft.md", "to": "final.md", "overwrite": false}
image_resize | Resize an image to a width and height in pixels. | path:string! width:integer! height:integer! | Resize the image pier.png to 800 by 600 pixels. | {"path": "pier.png", "width": 800, "height": 600}
text_translate | Translate a text into a language. | text:string! language:string! tone:plain|formal | Translate "gå ombord i tid" into English. | {"text": "gå ombord i tid", "language": "en", "tone": "plain"}
calendar_move | Move a meeting in the calendar to another time. | meeting:string! to:string! notify:boolean | Move the meeting with Bo to Thursday at ten. | {"meeting": "Bo", "to": "2026-03-19T10:00", "notify": true}
timer_set | Set a timer for some minutes with a label. | minutes:number! label:string | Set a timer for twelve minutes for the eggs. | {"minutes": 12, "label": "eggs"}
note_append | Append lines to a note. | note:string! lines:[string]! | Append a line to the note about the roof. | {"note": "roof", "lines": ["two tiles are loose"]}
contact_find | Find the phone number or address of a contact. | name:string! | What is the phone number of Ines Lindqvist? | {"name": "Ines Lindqvist"}
mail_send | Send a mail to people, with a subject. | to:[string]! subject:string! body:string! | Send a mail to the crew with the subject rehearsal. | {"to": ["crew@skarholm.example"], "subject": "rehearsal", "body": "At seven."}
survey.distance | Distance between two points of a survey, in metres. | a:point! b:point! | Measure the distance between the two survey points. | {"a": {"x": 1.5, "y": 2}, "b": {"x": 4, "y": -2.25}}
mooring_inspect | Record the inspection of moorings, each with a state and remarks. | moorings:[mooring]! inspector:string! | Record that mooring 14 is worn, for the inspection by Aida. | {"moorings": [{"number": 14, "state": "worn", "remarks": ["chain thin"]}], "inspector": "Aida"}
sensor_limits | Set lower and upper limits of sensors, by name. | limits:limits! dry_run:boolean | Set the limits of the pump's sensor. | {"limits": {"pump": [1.5, 4.25], "gauge": [0, 3]}, "dry_run": true}
""".strip()

KINDS = {
    "point": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x", "y"],
              "additionalProperties": False},
    "mooring": {"type": "object", "required": ["number", "state"], "properties": {
        "number": {"type": "integer", "minimum": 1}, "state": {"type": "string", "enum": ["good", "worn", "broken"]},
        "remarks": {"type": "array", "items": {"type": "string"}, "maxItems": 3}}},
    "limits": {"type": "object", "minProperties": 1, "additionalProperties": {
        "type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}},
}


def schema_of(kind):
    if kind.startswith("["):
        return {"type": "array", "items": schema_of(kind[1:-1])}
    if "|" in kind:
        return {"type": "string", "enum": kind.split("|")}
    return copy.deepcopy(KINDS.get(kind)) or {"type": kind}


def parameters_of(spec):
    properties, required = {}, []
    for part in spec.split():
        name, kind = part.split(":")
        if kind.endswith("!"):
            kind = kind[:-1]
            required.append(name)
        properties[name] = schema_of(kind)
    return {"type": "object", "properties": properties, "required": required}


def verdict(schema, value):
    found = Draft202012Validator(schema).iter_errors(value)
    return sorted(f"{error.validator}:/{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in found)


def broken(schema, arguments):
    """The call with one thing broken, by what it is."""
    for first in schema["required"][:1]:
        yield "missing_required", {key: value for key, value in arguments.items() if key != first}
    for key, value in arguments.items():
        kind = schema["properties"][key]
        if kind.get("type") == "integer":
            yield "integer_as_string", {**arguments, key: str(value)}
            yield "fraction_for_integer", {**arguments, key: value + 0.5}
        elif "enum" in kind:
            yield "not_in_enum", {**arguments, key: value + "?"}
        elif kind.get("type") == "array" and kind["items"]["type"] == "string":
            yield "wrong_item_type", {**arguments, key: [*value, 7]}
        elif kind.get("type") == "object":
            yield "wrong_member", {**arguments, key: {**value, "x": "east"}}
        elif kind.get("type") == "boolean":
            yield "boolean_as_string", {**arguments, key: str(value).lower()}
        else:
            yield "wrong_type", {**arguments, key: [value]}


def malformed(text, n):
    """No JSON: a comma too many, single quotes, an end that is missing, words of Python, text around it."""
    return [text[:-1] + ",}", text.replace('"', "'"), text[:-1], text.replace("true", "True").replace("false", "False") + " ok",
            "Sure: " + text][n % 5]


def main():
    tools, queries, calls, negatives = [], [], [], []
    for n, line in enumerate(TOOLS.splitlines()):
        name, description, spec, query, arguments = (part.strip() for part in line.replace(" | ", "\0").split("\0"))
        row = {"name": name, "description": description, "parameters": parameters_of(spec)}
        id = hashlib.sha256(json.dumps(row, ensure_ascii=False).encode()).hexdigest()[:12]
        tools.append({"tool_id": id, **row, "categories": ["own"]})
        queries.append({"id": f"own_{n}", "query": query, "expected": [id]})
        value, schema = json.loads(arguments), row["parameters"]
        base = {"id": f"own_{n}", "tool_id": id, "name": name}
        errors = verdict(schema, value)
        assert not errors, (line, errors)
        calls.append({**base, "arguments": value, "arguments_json": arguments, "jsonschema_valid": True, "jsonschema_errors": []})
        for mutation, other in broken(schema, value):
            text, errors = json.dumps(other, ensure_ascii=False), verdict(schema, other)
            assert errors, (line, mutation)
            negatives.append({**base, "id": f"own_{n}~{mutation}", "mutation": mutation, "arguments": other, "arguments_json": text,
                              "jsonschema_valid": False, "jsonschema_errors": errors})
        text = malformed(arguments, n)
        negatives.append({**base, "id": f"own_{n}~malformed_json", "mutation": "malformed_json", "arguments": None,
                          "arguments_json": text, "jsonschema_valid": None, "jsonschema_errors": []})
    FOLDER.mkdir(exist_ok=True)
    for file, rows in (("tools", tools), ("queries", queries), ("hydration", calls), ("hydration_negative", negatives)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (FOLDER / f"{file}.jsonl").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
