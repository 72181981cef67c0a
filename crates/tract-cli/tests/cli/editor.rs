use crate::support::Workspace;

const STREAM: &str = "{\"op\":\"user\",\"text\":\"Do I need a coat in Paris?\\n\"}\n";

fn content(place: &Workspace) -> String {
    let body = place.json(&["compile", "--to", "openai"]);
    body[0][0]["content"].as_str().expect("a text").to_owned()
}

#[test]
fn an_empty_input_blanks_no_message() {
    let place = Workspace::of(STREAM);
    for arguments in [&["edit", "HEAD#1"][..], &["edit", "HEAD#1", "-"]] {
        place.refused_with(arguments, b"", 1, "empty_input", "nothing was changed");
        place.refused_with(arguments, b"\n", 1, "empty_input", "nothing was changed");
    }
    assert_eq!(content(&place), "Do I need a coat in Paris?\n");
    place.feed(&["edit", "HEAD#1"], b"Do I need a coat in Lyon?\n").expect(0);
    assert_eq!(content(&place), "Do I need a coat in Lyon?");
    // Only a text that is stated may be empty.
    place.ok(&["edit", "HEAD#1", ""]);
    assert_eq!(content(&place), "");
}

#[test]
#[cfg(target_os = "linux")]
fn edit_opens_the_editor_of_a_terminal() {
    let place = Workspace::of(STREAM);
    let edit = |environment: &[(&str, &str)]| place.on_a_terminal(environment, "edit HEAD#1");
    let (code, text) = edit(&[("EDITOR", "sed -i s/Paris/Lyon/")]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(content(&place), "Do I need a coat in Lyon?\n", "the newline stays");
    // VISUAL comes first.
    let (code, text) = edit(&[("VISUAL", "sed -i s/coat/hat/"), ("EDITOR", "false")]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(content(&place), "Do I need a hat in Lyon?\n");
    let head = place.id("HEAD");
    let left = |editor: &str, exit: i32, says: &str| {
        let (code, text) = edit(&[("EDITOR", editor)]);
        assert_eq!(code, Some(exit), "{editor}: {text}");
        assert!(text.contains(says), "{editor}: {text}");
        assert_eq!(place.id("HEAD"), head, "{editor}");
    };
    left("true", 0, "nothing was changed");
    left("false", 1, "error[editor]");
    left("no-such-editor", 1, "cannot be started");
    left("truncate --size 0", 1, "error[empty_input]");
}
