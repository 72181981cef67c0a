"""Conversations, written for tract, in OpenAI's chat format.

    python3 tests/data/make/conversations.py

writes tests/data/trajectories/conversations.jsonl, and into crates/tract-cli/demo the three that
`tract demo` shows, with a request in Anthropic's shape. A line is {id, model, tools, messages,
anomalies, meta}; `anomalies` lists what a strict reader stumbles over. The workshop, its customers
and their bikes do not exist.
"""

import json
import pathlib

import cassettes

DATA = pathlib.Path(__file__).parent.parent
DEMO = DATA.parent.parent / "crates/tract-cli/demo"

POLICY = """# Hjulverk, the bicycle workshop at the canal: instructions for the desk

Today is Tuesday, 17 March 2026, 10:40. You are the desk: you talk with customers, look things up, quote, book and order.

- Find the customer before you say anything about bikes, jobs or prices. Name and last digits of the phone number must fit.
- One job is one visit of one bike. Work that is added to an open job shares its visit, and its labor costs a third less.
- Quote before you book. Add work, order parts and book slots only after the customer agreed to the sum.
- Parts that cost more than 300 kr are ordered, not kept. They come on the second working day, before noon.
- A voucher counts once, for labor, and not for parts. It is spent when the job is booked.
- Frames, forks and batteries that were hit in an accident are looked at by a mechanic before anybody rides them.
- You cannot pay money back, change an invoice or speak for an insurer: hand such talks over, with a summary.
- Add up with the calculator, not in your head. Prices are in kronor (kr) and contain the tax.
- Be brief and friendly. One question at a time.
"""


def tool(name, description, required=(), /, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def text(description, **more):
    return {"type": "string", "description": description, **more}


def number(description, **more):
    return {"type": "number", "description": description, **more}


def many(items, description):
    return {"type": "array", "items": items, "description": description}


WORKSHOP = [
    tool("find_customer", "Find a customer by name and the last digits of the phone number.", ["name"],
         name=text("First and last name."), phone_end=text("The last four digits.", pattern="^[0-9]{4}$")),
    tool("get_bike", "What is known of a bike: model, parts, accidents.", ["bike_id"], bike_id=text("Such as B-2207.")),
    tool("list_jobs", "Open and past jobs of a customer, newest first.", ["customer_id"],
         customer_id=text("Such as K-1042."), open_only={"type": "boolean", "default": False}),
    tool("check_stock", "How many of a part are on the shelf, and what one costs.", ["part"], part=text("Part number.")),
    tool("search_parts", "Find part numbers by words.", ["words"], words=text("What it is, and for which bike."),
         limit={"type": "integer", "minimum": 1, "maximum": 20, "default": 5}),
    tool("quote_repair", "Reckon what work costs, with the parts it needs.", ["bike_id", "work"],
         bike_id=text("The bike."), work=many({"type": "string", "enum": ["true_wheel", "replace_spokes", "replace_rotor",
                                                                         "bleed_brake", "service", "inspect_frame"]}, "What is to be done."),
         in_job=text("The open job that it is added to, if any."), voucher=text("A voucher of the customer.")),
    tool("check_voucher", "Whether a voucher is good, and for how much.", ["code"], code=text("Six letters and digits.")),
    tool("open_job", "Open a job for a bike.", ["bike_id", "work"], bike_id=text("The bike."),
         work=many({"type": "string"}, "What is to be done."), voucher=text("A voucher to spend.")),
    tool("add_to_job", "Add work to an open job.", ["job_id", "work"], job_id=text("Such as J-8841."),
         work=many({"type": "string"}, "What is to be done."), voucher=text("A voucher to spend.")),
    tool("order_part", "Order a part that is not on the shelf.", ["part", "job_id"], part=text("Part number."),
         count={"type": "integer", "minimum": 1, "default": 1}, job_id=text("The job that it is for.")),
    tool("free_slots", "Free slots of the mechanics on a day.", ["day"], day=text("As 2026-03-19.", format="date")),
    tool("book_slot", "Put a job into a slot.", ["job_id", "slot"], job_id=text("The job."), slot=text("As 2026-03-19T14:00.")),
    tool("calculate", "Work out an expression.", ["expression"], expression=text("Numbers, + - * / and parentheses.")),
    tool("hand_over", "Hand the conversation over to a person of the workshop.", ["summary"], summary=text("What they need to know.")),
]


def system(content=POLICY):
    return {"role": "system", "content": content}


def user(content, **more):
    return {"role": "user", "content": content, **more}


def says(content):
    return {"role": "assistant", "content": content}


class Calls:
    """Ids as a provider makes them: another one for each call."""

    def __init__(self, prefix):
        self.prefix, self.count = prefix, 0

    def __call__(self, *made, content=None):
        """An assistant's message that calls these, and the results that follow it."""
        calls, results = [], []
        for name, arguments, answer in made:
            self.count += 1
            id = f"call_{self.prefix}{self.count:02}"
            function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            calls.append({"id": id, "type": "function", "function": function})
            if answer is not None:
                answer = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
                results.append({"role": "tool", "tool_call_id": id, "name": name, "content": answer})
        return [{"role": "assistant", "content": content, "tool_calls": calls}, *results]


def conversation(id, messages, tools=None, anomalies=(), model="gpt-5.5", **meta):
    return {"id": id, "model": model, "tools": tools, "messages": messages, "anomalies": list(anomalies), "meta": meta}


# The three of the demo

def cargo_bike():
    """A cargo bike that a van hit: looked up, quoted, booked; then the customer asks what was saved."""
    call = Calls("cargo")
    customer = {"customer_id": "K-1042", "name": "Ines Lindqvist", "phone_end": "4417", "bikes": ["B-2207", "B-3310"],
                "since": "2021-05-03", "vouchers": ["HJUL26"], "notes": ["prefers Thursdays", "asks for old parts back"]}
    commuter = {"bike_id": "B-2207", "model": "Vinga Pendel 7", "year": 2019, "color": "green",
                "parts": {"rear_hub": "VH-7-36", "brakes": "rim"}, "accidents": [], "last_service": "2025-09-11"}
    cargo = {"bike_id": "B-3310", "model": "Lastbjörn Kort 20", "year": 2023, "color": "sand",
             "parts": {"rear_hub": "LB-20-36H", "spokes": "SP-184-20", "rotor_rear": "RT-160-6B", "brakes": "hydraulic, LB-4"},
             "accidents": [], "last_service": None, "battery": {"part": "BT-500", "cycles": 212}}
    jobs = [{"job_id": "J-8841", "bike_id": "B-3310", "state": "open", "work": ["service"], "slot": "2026-03-19T14:00", "labor_kr": 890},
            {"job_id": "J-7315", "bike_id": "B-2207", "state": "done", "work": ["service"], "done": "2025-09-11", "paid_kr": 640}]
    quote = {"bike_id": "B-3310", "in_job": "J-8841", "lines": [
        {"work": "inspect_frame", "labor_kr": 0, "note": "after an accident, free"},
        {"work": "replace_spokes", "labor_kr": 420, "parts": [{"part": "SP-184-20", "count": 3, "kr": 57}]},
        {"work": "true_wheel", "labor_kr": 270}, {"work": "replace_rotor", "labor_kr": 210, "parts": [{"part": "RT-160-6B", "count": 1, "kr": 349}]}],
        "labor_kr": 900, "shared_visit_kr": -300, "voucher_kr": -250, "parts_kr": 406, "sum_kr": 756}
    return [
        system(),
        user("Hi! A van clipped my cargo bike yesterday and now the rear wheel wobbles. I think I'm booked with you on Thursday anyway?"),
        says("Oh no, I hope that you are all right! What a start of the week. May I have your name and the last four digits of your phone number?"),
        user("I'm fine, thanks, the driver even stopped and helped me up. Ines Lindqvist, 4417."),
        *call(("find_customer", {"name": "Ines Lindqvist", "phone_end": "4417"}, customer)),
        *call(("get_bike", {"bike_id": "B-2207"}, commuter), ("get_bike", {"bike_id": "B-3310"}, cargo),
              ("list_jobs", {"customer_id": "K-1042"}, jobs)),
        says("Thank you, Ines. Your Lastbjörn Kort (B-3310) is booked for a service on Thursday at 14:00, job J-8841. "
             "Is anything wrong besides the wheel, such as the brake?"),
        user("Yes, the rear brake rubs at every turn. And I see three broken spokes."),
        *call(("check_stock", {"part": "SP-184-20"}, {"part": "SP-184-20", "on_shelf": 64, "kr": 19}),
              ("check_stock", {"part": "RT-160"}, "Error: unknown part \"RT-160\""), content="I look at what we have for it."),
        *call(("search_parts", {"words": "rotor 160 rear Lastbjörn"},
               [{"part": "RT-160-6B", "name": "Rotor 160 mm, six bolts", "on_shelf": 0, "kr": 349}])),
        says("Three spokes are on the shelf at 19 kr each. If the rotor is bent it needs a new one, 349 kr, which we order: it comes "
             "on Thursday before noon, in time for your visit. We also look at the frame, for free. Shall I reckon it all as a part of Thursday's job?"),
        user("Please do. And I have a voucher, HJUL26. Does it count here?"),
        *call(("check_voucher", {"code": "HJUL26"}, {"code": "HJUL26", "good": True, "for": "labor", "kr": 250, "until": "2026-12-31"}),
              ("quote_repair", {"bike_id": "B-3310", "work": ["inspect_frame", "replace_spokes", "true_wheel", "replace_rotor"],
                                "in_job": "J-8841", "voucher": "HJUL26"}, quote)),
        says("It does, for labor. With it, and since it shares Thursday's visit: 900 kr of labor, less 300 kr and 250 kr, and 406 kr of parts. "
             "That is 756 kr on top of the service. Shall I add it, spend the voucher and order the rotor?"),
        user("Yes, do all of that."),
        *call(("add_to_job", {"job_id": "J-8841", "work": ["inspect_frame", "replace_spokes", "true_wheel", "replace_rotor"], "voucher": "HJUL26"},
               {"job_id": "J-8841", "state": "open", "work": ["service", "inspect_frame", "replace_spokes", "true_wheel", "replace_rotor"],
                "minutes": 165, "voucher": "spent"}),
              ("order_part", {"part": "RT-160-6B", "job_id": "J-8841"}, {"order": "O-5520", "part": "RT-160-6B", "arrives": "2026-03-19T11:30"})),
        *call(("free_slots", {"day": "2026-03-19"}, [{"slot": "2026-03-19T12:30", "minutes": 180, "mechanic": "Bo"},
                                                    {"slot": "2026-03-19T14:00", "minutes": 90, "mechanic": "Aida"}])),
        *call(("book_slot", {"job_id": "J-8841", "slot": "2026-03-19T12:30"}, {"job_id": "J-8841", "slot": "2026-03-19T12:30", "mechanic": "Bo"}),
              content="Your slot at 14:00 is too short for all of it, so I take the one before."),
        says("Done. Everything is in job J-8841, the rotor is ordered (O-5520), and your visit begins at 12:30 on Thursday, with Bo. "
             "Please push the bike here: until we saw the frame it should not be ridden."),
        user("Perfect, thank you for being so quick. How much do I save altogether, with the voucher and the shared visit?"),
        *call(("calculate", {"expression": "300 + 250"}, "550")),
        says("You save 550 kr: 300 kr since it shares Thursday's visit, and 250 kr by the voucher."),
        user("Lovely. See you on Thursday, and please keep the old parts for me!"),
    ]


def refund():
    """What the desk may not do."""
    call = Calls("refund")
    jobs = [{"job_id": "J-8790", "bike_id": "B-1158", "state": "done", "work": ["bleed_brake"], "done": "2026-03-02", "paid_kr": 380}]
    return [
        system(),
        user("Your colleague bled my brake two weeks ago and it is soft again. I want my 380 kr back."),
        says("I am sorry to hear that. May I have your name and the last four digits of your phone number?"),
        user("Tomas Ek, 9023."),
        *call(("find_customer", {"name": "Tomas Ek", "phone_end": "9023"},
               {"customer_id": "K-0877", "name": "Tomas Ek", "phone_end": "9023", "bikes": ["B-1158"], "since": "2024-08-19", "vouchers": []})),
        *call(("list_jobs", {"customer_id": "K-0877"}, jobs)),
        says("I found it: job J-8790, done on 2 March. I cannot pay money back myself. A colleague can, or we bleed it once more. Which do you prefer?"),
        user("The money. I had to walk home."),
        *call(("hand_over", {"summary": "Tomas Ek (K-0877): brake of B-1158 is soft two weeks after J-8790 (380 kr). Wants the money back."},
               {"handed_to": "Maj", "answers_by": "2026-03-17T12:00"})),
        says("Maj has it, with all that you told me, and calls you before noon."),
        user("Thanks."),
    ]


def tire_pressure():
    """Two tools, one after the other."""
    call = Calls("tire")
    tools = [tool("tire_of", "The tire of a wheel.", ["wheel"], wheel=text("front or rear", enum=["front", "rear"])),
             tool("pressure_for", "The pressure for a tire and a weight.", ["tire", "weight_kg"], tire=text("Size."), weight_kg=number("Rider and load."))]
    return [user("How hard do I pump my rear tire? The bike, my child and I are 118 kg."),
            *call(("tire_of", {"wheel": "rear"}, {"tire": "55-406"})),
            *call(("pressure_for", {"tire": "55-406", "weight_kg": 118}, {"bar": 3.4, "psi": 49})), says("3.4 bar.")], tools


# More of them, for tests

def code_agent(files=9):
    """Long results, calls without a text, a failed run, numbers and characters that are easily changed."""
    call = Calls("code")
    names = [("list_files", "List the files below a folder."), ("read_file", "Read a file."), ("edit_file", "Replace lines of a file."),
             ("run_tests", "Run the tests whose names contain a word.")]
    path = {"type": "string", "description": "Below the repository's root."}
    tools = [tool(names[0][0], names[0][1], [], folder=path), tool(names[1][0], names[1][1], ["path"], path=path, lines=text("As 10-20.")),
             tool(names[2][0], names[2][1], ["path", "from", "to", "text"], path=path, **{"from": {"type": "integer"}, "to": {"type": "integer"}}, text=text("The new lines.")),
             tool(names[3][0], names[3][1], ["word"], word=text("A part of the name."), timeout_s={"type": "number", "exclusiveMinimum": 0})]
    messages = [system("You mend the timetable reader of the ferry line. Work in small steps. Run the tests before you say that it is done."),
                user("Departures after midnight land on the wrong day. See `timetable/days.py`. The ticket is FRY417.")]
    listing = "\n".join(f"timetable/part_{n:02}.py  {1200 + 37 * n} bytes" for n in range(files * 4))
    messages += call(("list_files", {"folder": "timetable"}, listing))
    for n in range(files):
        body = "\n".join(f"{line:4}  def rule_{n}_{line}(at): return at.replace(hour={line % 24}, minute={7 * line % 60})  # RULE{n}{line % 10}" for line in range(1, 30))
        messages += call(("read_file", {"path": f"timetable/part_{n:02}.py"}, body), content=None if n % 3 else f"Part {n} next.")
    messages += call(("run_tests", {"word": "midnight", "timeout_s": 2.50}, "FAILED midnight_is_the_next_day: expected 2026-03-18, found 2026-03-17 (TEST07)\n1 failed, 41 passed"))
    messages += call(("edit_file", {"path": "timetable/part_03.py", "from": 12, "to": 12, "text": "    return at + timedelta(days=1)  # “nästa dag” \u2028 \t €"}, "replaced 1 line"),
                     ("run_tests", {"word": ""}, "42 passed in 1e-1 s"))
    messages.append(says("Departures after midnight are on the next day now; all 42 tests pass."))
    return messages, tools


def service_call(n, name, bike, kr):
    """Short talks that begin alike: tools, instructions, and for some the first question too."""
    call = Calls(f"service{n}")
    first = "What does a service cost?" if n % 2 else f"What does a service of {bike} cost?"
    return [system(), user(first), says("That depends on the bike. What is your name?"), user(name),
            *call(("find_customer", {"name": name}, {"customer_id": f"K-{2000 + n}", "name": name, "bikes": [bike], "vouchers": []})),
            *call(("get_bike", {"bike_id": bike}, {"bike_id": bike, "model": "Vinga Pendel 7", "year": 2015 + n, "accidents": [],
                                                   "history": [f"{2016 + y}-04-0{1 + n % 9}: service, {540 + 20 * y} kr, mechanic Bo, invoice F{n:02}{y:03}" for y in range(8)]}),
                  ("quote_repair", {"bike_id": bike, "work": ["service"]}, {"bike_id": bike, "labor_kr": kr, "parts_kr": 0, "sum_kr": kr})),
            says(f"{kr} kr, with everything that wears checked."), user("Thanks!")]


FERRY = [
    tool("get_traveler", "A traveler, by the number of their card.", ["card"], card=text("Such as F-31.")),
    tool("search_departures", "Departures to an island on a day.", ["island", "day"], island=text("Where to."), day=text("As 2026-03-19.")),
    tool("calculate", "Work out an expression.", ["expression"], expression=text("Numbers, + - * / and parentheses.")),
    tool("book_ticket", "Book a ticket for a departure.", ["card", "departure"], card=text("Whose."), departure=text("Such as D-1420."),
         bikes={"type": "integer", "default": 0}),
    tool("cancel_ticket", "Cancel a ticket.", ["ticket"], ticket=text("Such as T-501.")),
]


def ferry_desk(n, name, island, bikes):
    """One call at a time, some of which change something: for agents that are killed between any two steps."""
    call, card, departure = Calls(f"ferry{n}"), f"F-{30 + n}", f"D-14{n}0"
    talk = [system("You sell tickets at the ferry's desk. One thing at a time."), user(f"A ticket to {island} tomorrow afternoon, please."),
            says("Gladly. What is the number of your card?"), user(f"{card}."),
            *call(("get_traveler", {"card": card}, {"card": card, "name": name, "tickets": [f"T-{500 + n}"]})),
            *call(("search_departures", {"island": island, "day": "2026-03-19"}, [{"departure": departure, "pier": 1 + n % 3, "kr": 60 + n}])),
            says(f"There is one at 14:{n}0 for {60 + n} kr. Do you bring bikes?"), user(f"Yes, {bikes}." if bikes else "No.")]
    if bikes:
        talk += call(("calculate", {"expression": f"{60 + n} + {bikes} * 20"}, str(60 + n + bikes * 20)))
    talk += call(("book_ticket", {"card": card, "departure": departure, "bikes": bikes}, {"ticket": f"T-{600 + n}", "departure": departure}))
    talk += [says(f"Booked: T-{600 + n}."), user(f"And cancel my old one, T-{500 + n}."),
             *call(("cancel_ticket", {"ticket": f"T-{500 + n}"}, "cancelled")), says("Done."), user("Thank you!")]
    return talk


def parts_of_many_kinds():
    """Content as a list, an image, names, an empty text, null beside calls, a developer's message."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + cassettes.PIXEL, "detail": "low"}}
    made = [{"id": "call_kinds1", "type": "function", "function": {"name": "get_bike", "arguments": "{\"bike_id\":\"B-3310\"}"}}]
    return [{"role": "developer", "content": "Describe what you see in one sentence."},
            user([{"type": "text", "text": "Is this hub cracked?"}, image], name="Ines"),
            {"role": "assistant", "content": "", "tool_calls": made},
            {"role": "tool", "tool_call_id": "call_kinds1", "content": [{"type": "text", "text": "{\"rear_hub\": \"LB-20-36H\", \"torque\": 40.0}"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "No: what you see is grease."}]},
            user("Sure? \u0007\ud83d\udeb2 Ünïcode, 日本語, \"quotes\" and a \\ too.".encode("utf-16", "surrogatepass").decode("utf-16")),
            {"role": "assistant", "content": "Yes.", "refusal": None}]


def reused_ids():
    """Each turn counts its calls from one, as some servers do; the last call has no answer."""
    messages = [system("You look after the pump at the canal.")]
    for n, bar in enumerate((4.0, 4.1, 3.9)):
        made = [{"id": "call_1", "type": "function", "function": {"name": "read_gauge", "arguments": "{}"}}]
        messages += [user(f"Read the gauge, round {n + 1}."), {"role": "assistant", "content": None, "tool_calls": made},
                     {"role": "tool", "tool_call_id": "call_1", "content": f"{bar} bar"}, says(f"{bar} bar.")]
    made = [{"id": "call_2", "type": "function", "function": {"name": "open_valve", "arguments": "{\"percent\": 40"}}]
    messages += [user("Open the valve."), {"role": "assistant", "content": None, "tool_calls": made}]
    return messages, [tool("read_gauge", "Read the gauge."), tool("open_valve", "Open the valve.", ["percent"], percent=number("0 to 100"))]


def all_of_them():
    people = [("Ida Berg", "B-4001", 640), ("Noor Haddad", "B-4002", 890), ("Per Sand", "B-4003", 640), ("Lea Holm", "B-4004", 720),
              ("Omar Yilmaz", "B-4005", 640), ("Siri Dahl", "B-4006", 990), ("Ken Ito", "B-4007", 640), ("Vera Lund", "B-4008", 810)]
    tire, tire_tools = tire_pressure()
    yield conversation("workshop-cargo-bike", cargo_bike(), WORKSHOP, story="demo")
    yield conversation("workshop-refund", refund(), WORKSHOP, story="demo")
    yield conversation("tire-pressure", tire, tire_tools, model="gpt-5.5-mini", story="demo")
    for n, (name, bike, kr) in enumerate(people, 1):
        yield conversation(f"workshop-service-{n}", service_call(n, name, bike, kr), WORKSHOP)
    for n, (name, _, _) in enumerate(people[:6], 1):
        yield conversation(f"ferry-{n}", ferry_desk(n, name, ("Lilla Vik", "Storholmen")[n % 2], n % 3), FERRY)
    code, code_tools = code_agent()
    yield conversation("code-midnight", code, code_tools)
    yield conversation("parts-of-many-kinds", parts_of_many_kinds(), model=None)
    reused, gauge = reused_ids()
    yield conversation("pump-reused-ids", reused, gauge, [
        'messages[6]: tool call id "call_1" reused', 'messages[10]: tool call id "call_1" reused', 'messages[14]: tool call "call_2" unanswered'])
    yield conversation("one-question", [user("Is the canal frozen?"), says("No.")])


def boats():
    """The demo's request to Anthropic: four calls at once, and their results."""
    names = {"Måsen": (2.1, 9.5), "Tärnan": (3.4, 11.0), "Skrattmåsen": (2.9, 8.2), "Labben": (3.9, 12.7)}
    ids = {name: f"toolu_skarholm_boat{n}" for n, name in enumerate(names, 1)}
    info = {"name": "boat_info", "description": "What the register says of a boat.", "input_schema": {
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False}}
    asked = [{"type": "text", "text": "I ask the register for all four at once."},
             *({"type": "tool_use", "id": ids[name], "name": "boat_info", "input": {"name": name}} for name in names)]
    told = [{"type": "tool_result", "tool_use_id": ids[name], "is_error": False, "content": f"{name}: {height} m above the water, {length} m long"}
            for name, (height, length) in names.items()]
    request = {"model": "claude-haiku-4-5", "max_tokens": 1024, "stream": False,
               "system": "You help at the lock of Skarholm. The bridge is 3.2 m above the water. Ask for all boats at once.",
               "tools": [info], "tool_choice": {"type": "auto"}, "messages": [
                   {"role": "user", "content": [{"type": "text", "text": "Måsen, Tärnan, Skrattmåsen and Labben wait. Which of them pass under the bridge?"}]},
                   {"role": "assistant", "content": asked}, {"role": "user", "content": told}]}
    return {"id": "four-boats-at-the-bridge", "provider": "anthropic", "host": "api.anthropic.com", "path": "/v1/messages", "status": 200,
            "response_kind": "json", "request": request}


if __name__ == "__main__":
    lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in all_of_them()]
    (DATA / "trajectories").mkdir(exist_ok=True)
    (DATA / "trajectories/conversations.jsonl").write_text("".join(lines), "utf-8")
    (DEMO / "conversations.jsonl").write_text("".join(lines[:3]), "utf-8")
    (DEMO / "anthropic.json").write_text(json.dumps(boats(), indent=1, ensure_ascii=False) + "\n", "utf-8")
