#!/usr/bin/env python3
"""Writes prices.json, the price table of tract, from the package `genai-prices`.

    update.py            write the table from the installed package, which must be the pinned version
    update.py --check    fail if the table is not the one that the installed package gives
    update.py --age      report how much newer the newest package on PyPI is than the pinned one

To update: raise the version in requirements.txt, install it in a virtual environment, and run this
script with its Python. `--age` needs no package. It asks PyPI only, never fails, and prints a warning
when the newest package is more than a month newer.
"""

import datetime
import json
import pathlib
import re
import sys
import urllib.request

HERE = pathlib.Path(__file__).parent
TABLE = HERE / "prices.json"
PACKAGE = "genai-prices"
MONTH = datetime.timedelta(days=31)

# Companies whose models go by a name without a company, in the order in which they are tried.
VENDORS = (
    "anthropic", "openai", "google", "mistral", "deepseek", "x-ai", "cohere", "moonshotai", "minimax",
    "meta", "zhipuai",
)
# Hosts, whose prices count only where a name names the host: `groq/NAME`, `amazon.NAME`.
HOSTS = (
    "aws", "openrouter", "groq", "cerebras", "together", "fireworks", "perplexity", "zai",
)
# The prices of a period, in this order.
KEYS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")
# Tiers that ended, which the package does not know of: a request over 200,000 tokens needed a beta
# that Anthropic ended on this day.
ENDED_TIERS = {("anthropic", "claude-sonnet-4-5"): datetime.date(2026, 4, 30)}


def pinned():
    text = (HERE / "requirements.txt").read_text()
    return re.search(rf"^{PACKAGE}==(\S+)$", text, re.M).group(1)


def globs(clause):
    """The names that a clause matches, as patterns: `*` is any text and `#` a digit."""
    kind = type(clause).__name__
    if kind == "ClauseEquals":
        return [plain(clause.equals)]
    if kind == "ClauseStartsWith":
        return [plain(clause.starts_with) + "*"]
    if kind == "ClauseEndsWith":
        return ["*" + plain(clause.ends_with)]
    if kind == "ClauseContains":
        return ["*" + plain(clause.contains) + "*"]
    if kind == "ClauseOr":
        return [glob for part in clause.or_ for glob in globs(part)]
    if kind == "ClauseAnd":
        # The speech models have rows of their own, which come first.
        parts = [part for part in clause.and_ if not is_no_speech(part)]
        assert len(parts) == 1, clause
        return globs(parts[0])
    assert kind == "ClauseRegex", clause
    return regex_globs(clause.regex)


def is_no_speech(clause):
    return getattr(clause, "regex", "").startswith("^(?!.*-[tT][tT][sS]")


def has_no_speech(clause):
    return is_no_speech(clause) or any(
        has_no_speech(part) for name in ("or_", "and_") for part in getattr(clause, name, None) or ()
    )


def regex_globs(regex):
    assert regex.startswith("^"), regex
    text, end = (regex[1:-1], "") if regex.endswith("$") else (regex[1:], "*")
    text = re.sub(r"\\d\{(\d)\}", lambda digits: "#" * int(digits[1]), text)
    text = text.replace(r"\d", "#").replace(r"\.", ".")
    texts = [text.replace("[-@]", mark) for mark in "-@"] if "[-@]" in text else [text]
    for text in texts:
        assert re.fullmatch(r"[a-z0-9#./@:-]+", text), regex
    return [text + end for text in texts]


def plain(text):
    assert not set("*#") & set(text), text
    return text.lower()


def number(price):
    if price is None:
        return None
    return int(price) if price == int(price) else float(price)


def trimmed(prices):
    prices = [number(price) for price in prices]
    while prices and prices[-1] is None:
        prices.pop()
    return prices


def period(prices, constraint, has_tiers=True):
    """What tokens cost at a time: by the size of the request, the largest first."""
    values = [getattr(prices, key) for key in KEYS]
    bases = [getattr(value, "base", value) for value in values]
    if bases[0] is None:
        return None
    row = {"prices": trimmed(bases)}
    starts = sorted({tier.start for value in values for tier in getattr(value, "tiers", ())})
    tiers = []
    for start in starts if has_tiers else ():
        above = []
        for value in values:
            reached = [tier.price for tier in getattr(value, "tiers", ()) if tier.start <= start]
            above.append(reached[-1] if reached else getattr(value, "base", value))
        tiers.append([start, *trimmed(above)])
    if tiers:
        row["above"] = tiers
    kind = type(constraint).__name__
    if kind == "StartDateConstraint":
        row["from"] = constraint.start_date.isoformat()
    elif kind == "TimeOfDateConstraint":
        row["hours"] = [minutes(constraint.start_time), minutes(constraint.end_time)]
    else:
        assert constraint is None, constraint
    return row


def minutes(time):
    assert not time.utcoffset() and not time.second, time
    return time.hour * 60 + time.minute


def periods(provider, model):
    prices = model.prices if isinstance(model.prices, list) else None
    if prices is None:
        rows = [period(model.prices, None)]
    else:
        rows = [period(entry.prices, entry.constraint) for entry in prices]
    ended = ENDED_TIERS.get((provider, model.id))
    if ended:
        assert prices is None and "above" in rows[0], "the package knows of it now"
        rows.append({**period(model.prices, None, False), "from": ended.isoformat()})
    return [row for row in rows if row]


def table():
    import importlib.metadata

    from genai_prices.data import providers

    version = importlib.metadata.version(PACKAGE)
    assert version == pinned(), f"{PACKAGE} {version} is installed, {pinned()} is pinned"
    by_id = {provider.id: provider for provider in providers}
    lines = []
    for name in VENDORS + HOSTS:
        provider = by_id[name]
        rows = []
        # Models with equal prices and contexts in a row are one.
        for model in sorted(provider.models, key=lambda model: has_no_speech(model.match)):
            found = periods(name, model)
            if not found:
                continue
            # The size of the context; models of unknown size have none.
            found = [found, model.context_window] if model.context_window else [found]
            patterns = list(dict.fromkeys(globs(model.match)))
            if rows and rows[-1][1] == found:
                rows[-1][0].extend(pattern for pattern in patterns if pattern not in rows[-1][0])
            else:
                rows.append((patterns, found))
        kind = "vendor" if name in VENDORS else "host"
        models = ",\n".join(dumps([" ".join(names), *found]) for names, found in rows)
        lines.append(f'{{"id":"{name}","kind":"{kind}","models":[\n{models}\n]}}')
    date = release_date(version)
    head = f'"date":"{date}","source":"{PACKAGE} {version}","currency":"USD","per":1000000'
    return f'{{{head},"providers":[\n' + ",\n".join(lines) + "\n]}\n"


def dumps(value):
    return json.dumps(value, separators=(",", ":"))


def releases():
    with urllib.request.urlopen(f"https://pypi.org/pypi/{PACKAGE}/json", timeout=20) as answer:
        document = json.load(answer)
    dates = {}
    for version, files in document["releases"].items():
        if files and not all(file.get("yanked") for file in files):
            dates[version] = datetime.date.fromisoformat(files[0]["upload_time"][:10])
    return document["info"]["version"], dates


def release_date(version):
    """The day of a release: the table's own if it is of this version, else PyPI's."""
    if TABLE.exists():
        old = json.loads(TABLE.read_text())
        if old.get("source") == f"{PACKAGE} {version}":
            return old["date"]
    return releases()[1][version].isoformat()


def age():
    version = pinned()
    try:
        newest, dates = releases()
        newer = dates[newest] - dates[version]
    except (OSError, ValueError, KeyError) as error:
        print(f"prices: the age of the table was not checked: {error}")
        return
    if newer > MONTH:
        print(
            f"WARNING: the price table is from {PACKAGE} {version} of {dates[version]}, and {newest}"
            f" of {dates[newest]} is {newer.days} days newer: update it with {pathlib.Path(__file__).name}"
        )
    else:
        print(f"prices: {PACKAGE} {version} of {dates[version]}; the newest is {newest} of {dates[newest]}")


def main(arguments):
    if arguments == ["--age"]:
        return age()
    text = table()
    if arguments == ["--check"]:
        if TABLE.read_text() != text:
            sys.exit(f"{TABLE.name} is not what {PACKAGE} {pinned()} gives: run {pathlib.Path(__file__).name}")
        return print(f"{TABLE.name} is what {PACKAGE} {pinned()} gives")
    if arguments:
        sys.exit(__doc__)
    TABLE.write_text(text)
    print(f"{len(text)} bytes, {text.count(chr(10))} lines")


main(sys.argv[1:])
