//! The pages of `tract view` in a real browser: their structure, keys, folding, colors, phones, and
//! what is written meanwhile.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{COAT, Workspace, needs, stream};
use crate::viewing::{Browser, hostile};
use crate::webdriver::Driver;

/// The pages, by name.
const PAGES: [(&str, &str); 15] = [
    ("sessions", "/"),
    ("projects", "/?sort=project"),
    ("costs", "/?sort=cost"),
    ("transcript", "/transcript?rev=main"),
    ("compare", "/compare?a=lyon&b=main"),
    ("tools", "/tools?rev=main"),
    ("history", "/history?rev=main&all=1"),
    ("window", "/window?rev=main"),
    ("usage", "/usage"),
    ("cost", "/cost?rev=main"),
    ("cache", "/cache"),
    ("misses", "/cache?rev=main"),
    ("pending", "/pending"),
    ("search", "/search?words=umbrella+coat"),
    ("error", "/transcript?rev=mian"),
];

/// A store with a little of everything.
fn talk() -> Workspace {
    let place = Workspace::of(COAT);
    let usage = json!({"input_tokens": 150, "cached_tokens": 100, "output_tokens": 10});
    let answer = json!({
        "op": "assistant", "text": "Take a scarf too.", "at": "2026-03-14T09:00:00Z",
        "generation_config": {"model": "claude-sonnet-4-20250514"}, "metadata": {"usage": usage},
    });
    let lines = stream([json!({"op": "user", "text": "And a scarf?"}), answer]);
    place.feed(&["apply", "-"], lines.as_bytes()).expect(0);
    place.ok(&["branch", "lyon", "--from", "main#2"]);
    place.ok(&["edit", "main#2", "Do I need a coat in Nice?"]);
    place.ok(&["checkout", "lyon"]);
    place.ok(&["edit", "lyon#2", "Do I need a coat in Lyon?"]);
    place.ok(&["merge", "main", "--keep"]);
    place.ok(&["checkout", "main"]);
    place
}

/// A store, and its pages in a real browser, where there is one.
fn entered(place: impl FnOnce() -> Workspace) -> Option<(Workspace, Driver, Browser)> {
    let driver = Driver::start()?;
    let place = place();
    let browser = Browser::open(&place);
    driver.open(&browser.entry());
    driver.wait_for("return document.title.length > 0");
    Some((place, driver, browser))
}

/// The elements that a reader sees, nested, each with its class and role, equal neighbors once.
const OUTLINE: &str = r#"
  function outline(element, depth) {
    var style = getComputedStyle(element);
    if (style.display === "none" || style.visibility === "hidden") { return []; }
    var name = element.tagName.toLowerCase();
    if (/^(script|style|path|line|rect|circle|option|span|b|mark)$/.test(name)) { return []; }
    var line = "  ".repeat(depth) + name;
    if (element.className && element.className.baseVal === undefined) { line += "." + element.className; }
    ["role", "rel", "type", "tabindex", "aria-label"].forEach(function (attribute) {
      if (element.hasAttribute(attribute)) { line += " " + attribute + "=" + element.getAttribute(attribute); }
    });
    var inner = [];
    Array.from(element.children).forEach(function (child) {
      var lines = outline(child, depth + 1).join("\n");
      if (lines && inner[inner.length - 1] !== lines) { inner.push(lines); }
    });
    return [line].concat(inner);
  }
  return outline(document.body, 0).join("\n");
"#;

#[test]
fn every_page_has_the_structure_that_it_had() {
    let Some((_place, driver, browser)) = entered(talk) else { return };
    let mut outlines = String::new();
    for (name, path) in PAGES {
        driver.open(&format!("{}{path}", browser.origin()));
        let outline = driver.run(OUTLINE);
        writeln!(outlines, "# {name}\n{}\n", outline.as_str().expect("a text")).expect("a text");
        let complaints = driver.complaints();
        // An answer that is an error is said to be one.
        match name {
            "error" => assert!(complaints.iter().all(|one| one.contains("404")), "{complaints:?}"),
            _ => assert_eq!(complaints, [] as [String; 0], "{name}"),
        }
        // Readers of all sizes, colors and devices.
        driver.resize(360, 640);
        let width = driver.run("return document.documentElement.scrollWidth");
        assert!(width.as_u64() <= Some(360), "{name} is {width} pixels wide on a phone");
        driver.resize(1200, 800);
        let color = "return getComputedStyle(document.body).backgroundColor";
        driver.prefer("light");
        let light = driver.run(color);
        driver.prefer("dark");
        assert_ne!(driver.run(color), light, "{name}");
        let main = driver.run("return document.querySelectorAll('main, h1, html[lang]').length");
        assert_eq!(main, 3, "{name}: one main, one heading, a language");
        let unnamed = driver.run(
            "return Array.from(document.querySelectorAll('input:not([type=hidden]), select, svg')).filter(\
             function (e) { return !e.closest('label, [aria-hidden]') && !e.hasAttribute('aria-label'); }).length",
        );
        assert_eq!(unnamed, 0, "{name}: inputs and charts have names");
    }
    insta::assert_snapshot!("pages", outlines);
}

/// The rules of axe-core, which knows the guidelines for accessible pages: contrast, names, order.
#[test]
fn every_page_is_accessible_in_all_sizes_and_colors() {
    let missing = "axe-core; TRACT_NODE_SDKS names the folder that has it";
    let Some(modules) = needs("TRACT_NODE_SDKS", missing) else { return };
    let path = Path::new(&modules).join("axe-core/axe.min.js");
    let axe = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let Some((_place, driver, browser)) = entered(talk) else { return };
    let mut checked = 0;
    for (name, path) in PAGES {
        driver.open(&format!("{}{path}", browser.origin()));
        driver.run(&axe);
        for (width, height) in [(360, 640), (768, 1024), (1280, 800), (2560, 1440)] {
            driver.resize(width, height);
            for scheme in ["light", "dark"] {
                driver.prefer(scheme);
                driver.run(
                    "window.found = null; axe.run(document, {resultTypes: ['violations']}).then(function (result) { \
                     window.found = JSON.stringify(result.violations.map(function (rule) { \
                     return [rule.id].concat(rule.nodes.slice(0, 3).map(function (node) { return node.html.slice(0, 200) + ' ' + node.failureSummary; })); })); }, \
                     function (error) { window.found = String(error); });",
                );
                let found = driver.wait_for("return window.found");
                assert_eq!(found, "[]", "{name}, {width} wide, {scheme}");
                checked += 1;
            }
        }
    }
    assert_eq!(checked, PAGES.len() * 8);
}

#[test]
fn keys_and_folding_work_in_a_browser() {
    let Some((_place, driver, browser)) = entered(talk) else { return };
    driver.open(&format!("{}/transcript?rev=main", browser.origin()));
    driver.wait_for_keys();
    let focused =
        "Array.from(document.querySelectorAll('article')).indexOf(document.activeElement)";
    for (keys, at) in [("jj", 1), ("k", 0), ("k", 0), ("jjj", 3)] {
        driver.press(keys);
        driver.wait_for(&format!("return {focused} === {at}"));
    }
    let folded = "return document.querySelector('article details').open";
    assert_eq!(driver.run(folded), Value::Bool(false));
    driver.click("article details summary");
    assert_eq!(driver.run(folded), Value::Bool(true));
    let shown = driver.run("return document.querySelector('article details').innerText");
    let shown = shown.as_str().expect("a text");
    assert!(shown.contains("11 degrees, rain"), "the result is with its call: {shown}");
    // The search leads to its message, which the address names.
    driver.open(&browser.origin());
    driver.wait_for_keys();
    driver.press("/");
    driver.wait_for("return document.activeElement.type === 'search'");
    driver.open(&format!("{}/search?words=umbrella", browser.origin()));
    driver.click("article a[href*='#']");
    let target =
        "return document.querySelector(':target') && document.querySelector(':target').innerText";
    let target = driver.wait_for(target);
    assert!(target.as_str().is_some_and(|text| text.contains("umbrella")), "{target}");
}

#[test]
fn pages_are_read_without_javascript() {
    let Some((_place, driver, browser)) = entered(talk) else { return };
    driver.allow_scripts(false);
    driver.open(&format!("{}/transcript?rev=main", browser.origin()));
    let text = driver.run("return document.querySelector('main').innerText");
    let text = text.as_str().expect("a text");
    assert!(text.contains("Do I need a coat in Nice?") && text.contains("umbrella"), "{text}");
    driver.click("article details summary");
    let shown = driver.run("return document.querySelector('article details').innerText");
    assert!(shown.as_str().is_some_and(|shown| shown.contains("11 degrees, rain")), "{shown}");
    driver.press("j");
    let focused = driver.run("return document.activeElement.tagName");
    assert_ne!(focused, "ARTICLE", "the page's script did not run");
    driver.click(".tabs a[href^='/window']");
    driver.wait_for("return document.querySelector('svg path') !== null");
}

#[test]
fn an_open_page_shows_what_is_written_meanwhile() {
    let Some((place, driver, browser)) = entered(talk) else { return };
    driver.open(&format!("{}/transcript?rev=main", browser.origin()));
    driver.click("article details summary");
    // The stream begins with the head that the page shows, so nothing is missed before it is open.
    driver.run(
        "window.seen = null; new MutationObserver(function () { \
         if (!window.seen && document.body.innerText.includes('And gloves?')) { window.seen = Date.now(); } \
         }).observe(document.body, {childList: true, subtree: true});",
    );
    place.ok(&["commit", "user", "And gloves?"]);
    let written = driver.run("return Date.now()").as_u64().expect("a time");
    let seen = driver.wait_for("return window.seen").as_u64().expect("a time");
    // `tract commit` has ended before, so this counts too much rather than too little by its end.
    let took = seen.saturating_sub(written);
    let finding = format!("an append is seen {took} ms after its command ended");
    tract_testkit::figure("browser", "sqlite", finding);
    let open = driver.run("return document.querySelectorAll('article').length");
    assert_eq!(open, 7, "{open}");
}

/// A browser keeps six connections to a server.
#[test]
fn any_number_of_transcripts_can_be_open_at_once() {
    let Some((place, driver, browser)) = entered(talk) else { return };
    for _ in 0..9 {
        driver.open_tab();
        driver.open(&format!("{}/transcript?rev=main", browser.origin()));
        driver.wait_for("return document.querySelectorAll('article').length === 6");
    }
    place.ok(&["commit", "user", "And gloves?"]);
    driver.wait_for("return document.body.innerText.includes('And gloves?')");
    driver.open(&browser.origin());
    driver.wait_for("return document.querySelectorAll('table a').length > 0");
}

#[test]
fn an_update_leaves_what_its_reader_does_in_place() {
    let Some((place, driver, browser)) = entered(talk) else { return };
    driver.open(&format!("{}/transcript?rev=main", browser.origin()));
    driver.wait_for_keys();
    let write = |text: &str| {
        place.ok(&["commit", "user", text]);
        driver.wait_for(&format!("return document.body.innerText.includes('{text}')"));
    };
    driver.press("jjj");
    driver.wait_for("return document.activeElement.id === 'm3'");
    driver.click("article details summary");
    driver.press("j");
    driver.run("document.getElementById('m3').focus(); window.scrolled = window.scrollY;");
    write("first news");
    assert_eq!(driver.run("return document.activeElement.id"), "m3");
    assert_eq!(driver.run("return window.scrollY === window.scrolled"), true);
    assert_eq!(driver.run("return document.querySelector('article details').open"), true);
    driver.run("getSelection().selectAllChildren(document.querySelector('article'))");
    let selected = driver.run("return getSelection().toString()");
    write("second news");
    assert_eq!(driver.run("return getSelection().toString()"), selected);
    driver.run(
        "var field = document.querySelector('input[name=a]'); field.focus(); field.value = 'main~3'; \
         field.setSelectionRange(2, 4);",
    );
    write("third news");
    let field = "var field = document.activeElement; return field.name + ' ' + field.value + ' ' + \
                 field.selectionStart";
    assert_eq!(driver.run(field), "a main~3 2");
    // Messages that an edit or a revert takes away go, and the others stay.
    place.ok(&["edit", "main#2", "Do I need a coat in Rome?"]);
    driver.wait_for("return document.body.innerText.includes('in Rome?')");
    assert_eq!(driver.run(field), "a main~3 2");
}

/// A store with more conversations than a page of Home lists.
fn many() -> Workspace {
    let place = Workspace::new();
    let line = |id: String, prompt: String| {
        format!("{}\n", json!({"id": id, "messages": [{"role": "user", "content": prompt}]}))
    };
    let mut lines: String =
        (0..204).map(|n| line(format!("c{n:03}"), format!("Plot tide {n}"))).collect();
    lines.push_str(&line("last".to_owned(), "Repair the mooring".to_owned()));
    place.write("chats.jsonl", &lines);
    place.ok(&["import", "chats.jsonl"]);
    place
}

#[test]
fn the_filter_of_home_finds_sessions_of_other_pages_while_a_reader_types() {
    let Some((_place, driver, browser)) = entered(many) else { return };
    driver.open(&format!("{}/?sort=tokens", browser.origin()));
    driver.wait_for_keys();
    let has = |text: &str| format!("return document.body.innerText.includes('{text}')");
    assert_eq!(driver.run(&has("Repair the mooring")), false, "it is on the second page");
    driver.run("document.querySelector('input[name=q]').focus()");
    driver.press("mooring");
    driver.wait_for(&has("Repair the mooring"));
    let field = "var field = document.activeElement; return field.name + ' ' + field.value";
    assert_eq!(driver.run(field), "q mooring");
    assert_eq!(driver.run("return location.search.includes('q=mooring')"), true);
    assert_eq!(driver.run(&has("Plot tide")), false);
    assert_eq!(driver.complaints(), Vec::<String>::new());
}

#[test]
fn a_page_stays_when_its_viewer_ends() {
    let Some((_place, driver, mut browser)) = entered(talk) else { return };
    driver.open(&format!("{}/transcript?rev=main", browser.origin()));
    assert_eq!(driver.run("return document.getElementById('live').innerText"), "");
    browser.end();
    driver.wait_for("return document.getElementById('live').innerText.includes('not up to date')");
    assert_eq!(driver.run("return document.querySelectorAll('article').length"), 6);
}

#[test]
fn a_phone_shows_numbers_and_times_in_one_line() {
    let Some((_place, driver, browser)) = entered(talk) else { return };
    driver.resize(360, 640);
    for path in ["/", "/?sort=cost", "/usage", "/tools?rev=main", "/window?rev=main"] {
        driver.open(&format!("{}{path}", browser.origin()));
        let broken = driver.run(
            "return Array.from(document.querySelectorAll('td')).filter(function (cell) { \
             var text = cell.innerText.trim(); if (!/^[0-9][0-9.,: -]*$/.test(text)) { return false; } \
             var range = document.createRange(); range.selectNodeContents(cell); \
             var tops = Array.from(range.getClientRects()).map(function (box) { return Math.round(box.top); }); \
             return new Set(tops).size > 1; }).map(function (cell) { return cell.innerText; })",
        );
        assert_eq!(broken, json!([]), "{path}");
    }
}

#[test]
fn hostile_texts_run_nothing_in_a_browser() {
    let Some((_place, driver, browser)) = entered(hostile) else { return };
    let pages = "/ /transcript?rev=main /tools?rev=main /history?rev=main&all=1 /window?rev=main";
    for path in pages.split(' ') {
        driver.open(&format!("{}{path}", browser.origin()));
        let title = driver.run("return document.title");
        assert!(title.as_str().is_some_and(|title| title.ends_with("tract")), "{path}: {title}");
        let foreign = driver.run("return document.querySelectorAll('main iframe, main img, main script, main meta, main style').length");
        assert_eq!(foreign, 0, "{path}");
        assert_eq!(driver.complaints(), [] as [String; 0], "{path}: nothing even tried");
        let inside = driver.run("return location.origin");
        assert_eq!(inside, browser.origin(), "{path}");
    }
}

/// Long conversations are shown a page at a time: figures, the limits of which are in the docs.
#[test]
fn long_conversations_are_painted_a_page_at_a_time() {
    for count in [5_000, tract_testkit::scaled(50_000, 0.2, 10_000)] {
        let turn = [("user", "What is next?"), ("assistant", "Then we look at the next file.")];
        let lines = (0..count).map(|n| {
            let (op, says) = turn[n % 2];
            let text = format!("{says} {} {}", n / 2, "words of a message ".repeat(24));
            json!({"op": op, "text": text})
        });
        let long = || {
            let place = Workspace::new();
            place.write("stream.jsonl", stream(lines));
            place.ok(&["apply", "stream.jsonl", "--atomic"]);
            place
        };
        let Some((_place, driver, browser)) = entered(long) else { return };
        let mut paints = Vec::new();
        for _ in 0..7 {
            driver.open(&format!("{}/transcript?rev=main", browser.origin()));
            let paint = driver.wait_for(
                "var paint = performance.getEntriesByType('paint')[0]; return paint && paint.startTime",
            );
            paints.push(paint.as_f64().expect("milliseconds"));
        }
        paints.sort_by(f64::total_cmp);
        let shown = driver.run("return document.querySelectorAll('article').length");
        assert_eq!(shown, 200, "a page of {count} messages");
        let finding = format!("first paint of {count} messages: {:.0} ms (median of 7)", paints[3]);
        tract_testkit::figure("browser", "sqlite", finding);
    }
}
