use serde_json::json;

use crate::results::{STREAM, defer_by};
use crate::support::{RunOutput, Workspace};

/// Characters that move the cursor, hide text or show it in another order.
const HOSTILE: &str = "a\u{1b}]0;title\u{7}b\u{1b}[2Jc\u{1b}[8md\u{9b}31me\u{85}f\u{202e}g\u{2066}h\u{200b}i\u{e0041}j\u{7f}k";

/// Whether a terminal would do anything but show the character.
fn acts(character: char) -> bool {
    character.is_control() && character != '\n'
        || matches!(character, '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

#[track_caller]
fn is_harmless(ran: &RunOutput) {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(acts), "{text:?}");
    }
}

#[test]
fn reasons_and_names_of_handlers_cannot_steer_a_terminal() {
    let reason = format!("{HOSTILE}\nforged line");
    for verb in [
        &["approve"][..],
        &["reject", "--reason", HOSTILE],
        &["edit", "other"],
        &["summarize", "--command", "head -c 4"],
    ] {
        let place = Workspace::of(STREAM);
        let id = defer_by(&place, HOSTILE, HOSTILE, &reason);
        for arguments in [&["pending"][..], &["pending", "show", &id], &["status"]] {
            is_harmless(&place.run(arguments).expect(0));
        }
        let listed = place.ok(&["pending"]);
        assert_eq!(listed.lines().count(), 1, "{listed}");
        let arguments = [&["pending", verb[0], &id], &verb[1..]].concat();
        let done = place.run(&arguments).expect(0);
        is_harmless(&done);
        assert_eq!(done.stdout.lines().count(), 1, "{done:?}");
        is_harmless(&place.run(&["pending", "show", &id]).expect(0));
        is_harmless(&place.run(&["pending", "approve", &id]).expect(1));
        for arguments in [&["show", "HEAD"][..], &["log"], &["turns"], &["diff", "HEAD~1", "HEAD"]]
        {
            is_harmless(&place.run(arguments));
            // Colors are our own alone.
            let ran = place.run(&[&["--color", "always"], arguments].concat());
            for steers in ["\u{1b}[8m", "\u{1b}]", "\u{1b}[2J"] {
                assert!(!ran.stdout.contains(steers), "{ran:?}");
            }
        }
    }
}

#[test]
fn the_sides_of_a_changed_definition_never_look_alike() {
    let place = Workspace::new();
    let tool = |description: &str| {
        let schema = json!({"type": "object"});
        json!([{"name": "pay", "description": description, "input_schema": schema}]).to_string()
    };
    place.write("tools.json", tool("Pays a bill."));
    place.ok(&["tools", "pin", "tools.json"]);
    let hidden = [
        "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}\u{34f}",
        "\u{115f}\u{3164}\u{fe0f}\u{e0100}\u{e0041}\u{a0}\u{2003}",
        "\u{202e}\u{2800}\u{180e}\u{17b4}\u{2061}\u{1d173}\u{fff9}",
    ];
    for hidden in hidden.concat().chars() {
        place.write("changed.json", tool(&format!("Pays a{hidden} bill.")));
        let ran = place.run(&["tools", "check", "changed.json"]).expect(1);
        assert!(!ran.stdout.contains(hidden), "U+{:x}: {ran:?}", u32::from(hidden));
        let change =
            ran.stdout.lines().find(|line| line.contains("description")).expect("a change");
        let (from, to) = change.split_once('→').expect("two sides");
        assert!(from.contains("\"Pays a bill.\""), "{change}");
        assert!(to.contains("\\u"), "U+{:x}: {change}", u32::from(hidden));
        let json = place.run(&["tools", "check", "changed.json", "--json"]).expect(1);
        assert!(json.lines()[0]["changes"][0].as_str().expect("a change").contains("\\u"));
    }
}

#[test]
fn json_writes_controls_and_invisible_characters_as_escapes() {
    let place = Workspace::new();
    let line = json!({"op": "user", "text": HOSTILE, "message": HOSTILE});
    place.feed(&["apply", "-"], line.to_string().as_bytes()).expect(0);
    let tools = json!([{"name": "t", "description": HOSTILE, "input_schema": {"type": "object"}}]);
    place.write("tools.json", tools.to_string());
    place.ok(&["tools", "set", "tools.json"]);
    let mut checked = 0;
    for arguments in [
        &["--json", "log"][..],
        &["--json", "show", "HEAD~1"],
        &["--json", "compile", "--to", "openai"],
        &["compile", "--to", "openai-params"],
        &["--json", "compile", "--to", "messages"],
        &["--json", "tools", "of", "HEAD"],
        &["--json", "tools", "list"],
        &["--json", "turns"],
        &["--json", "commit", "user", HOSTILE],
        &["--json", "show", HOSTILE],
        &["--json", "diff", "HEAD~1", "HEAD"],
        &["--json", HOSTILE],
    ] {
        let ran = place.run(arguments);
        is_harmless(&ran);
        checked +=
            ran.lines().iter().filter(|line| line.to_string().contains(&HOSTILE[..1])).count();
    }
    assert!(checked > 0);
    // Escapes say the same: nothing of the text is lost.
    let sent = place.json(&["--json", "compile", "--to", "openai"]);
    assert_eq!(sent[0][0]["content"], HOSTILE);
}
