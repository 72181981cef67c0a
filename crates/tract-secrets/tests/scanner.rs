//! What a scanner promises, for any text.

use proptest::prelude::*;
use tract_secrets::{PatternError, Scanner, SecretKind, is_opaque_field, mark};

fn key() -> String {
    format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a")
}

#[test]
fn a_mark_says_kind_and_hash_and_equal_secrets_have_equal_marks() {
    let text = format!("{0} and {0}", key());
    let redacted = Scanner::builtin().redact(&text).expect("two keys");
    let mark = mark(&SecretKind::GitHub, &key());
    assert_eq!(redacted.text, format!("{mark} and {mark}"));
    assert_eq!(redacted.found.len(), 2);
    assert!(mark.starts_with("[redacted:github-token:") && mark.ends_with(']'), "{mark}");
    assert_eq!(mark.len(), "[redacted:github-token:]".len() + 8);
}

#[test]
fn signatures_and_encrypted_content_stay_as_they_are() {
    let key = key();
    for field in ["signature", "thoughtSignature", "thought_signature", "encrypted_content"] {
        assert!(is_opaque_field(field));
        let json = format!(r#"{{"text":"{key}","{field}" : "a {key} b","more":"{key}"}}"#);
        let redacted = Scanner::builtin().redact_json(&json).expect("two keys").text;
        assert!(redacted.contains(&format!(r#""{field}" : "a {key} b""#)), "{redacted}");
        assert_eq!(redacted.matches(&key).count(), 1, "{redacted}");
    }
    let data = format!("{}/{key}/{}", "Ab9/".repeat(20), "Zx8+".repeat(20));
    let json = format!(r#"{{"type":"redacted_thinking","data":"{data}"}}"#);
    assert_eq!(Scanner::builtin().redact_json(&json), None);
    // A field that only looks like one, and a text within the name of a field.
    for json in [
        format!(r#"{{"data":"the key is {key}"}}"#),
        format!(r#"["signature","{key}"]"#),
        format!(r#"{{"signature":{{"by":"{key}"}}}}"#),
        format!(r#"{{"a":"\"signature\":","b":"{key}"}}"#),
    ] {
        let redacted = Scanner::builtin().redact_json(&json).expect(&json).text;
        assert!(!redacted.contains(&key), "{redacted}");
    }
}

#[test]
fn a_key_in_a_field_data_is_found_and_media_are_left_alone() {
    // Longer than any other key, and all of it base64.
    let key = format!("sk-{}-api03-{}AA", "ant", "16C7e42F292c6912E7710c838347Ae178B4a_".repeat(3));
    for json in [
        format!(r#"{{"data":"{key}"}}"#),
        format!(r#"{{"type":"event","data":"{key}"}}"#),
        format!(r#"{{"mimeType":"text/plain","data":"{key}"}}"#),
        format!(r#"{{"data":"{key}","inner":{{"mimeType":"image/png"}}}}"#),
        format!(r#"{{"inner":{{"mimeType":"image/png"}},"data":"{key}"}}"#),
    ] {
        let redacted = Scanner::builtin().redact_json(&json).expect(&json).text;
        assert!(!redacted.contains(&key), "{redacted}");
    }
    let data = format!("{}/{key}/{}", "Ab9/".repeat(20), "Zx8+".repeat(20));
    for json in [
        format!(r#"{{"mimeType":"image/png","data":"{data}"}}"#),
        format!(r#"{{"data":"{data}","more":[{{"a":1}}],"media_type":"image/png"}}"#),
        format!(r#"{{"type":"base64","data":"{data}"#),
        format!(r#"{{"data":"{}"}}"#, data.repeat(10)),
    ] {
        assert_eq!(Scanner::builtin().redact_json(&json), None, "{json}");
    }
}

#[test]
fn a_key_near_the_beginning_of_a_mark_is_found() {
    let key = key();
    let mark = mark(&SecretKind::GitHub, &key);
    for text in [
        format!("[redacted:{key}"),
        format!("[redacted: see {key}]"),
        format!("[redacted:github-token:{key}]"),
        format!("[redacted:github-token:ed12f64] {key}"),
        format!("{mark}{key}{mark}"),
    ] {
        let redacted = Scanner::builtin().redact(&text).expect(&text).text;
        assert!(!redacted.contains(&key), "{redacted}");
        assert_eq!(Scanner::builtin().redact(&redacted), None, "{redacted}");
    }
    // A match that has a mark and more than it.
    let scanner = Scanner::empty().with_pattern(r"pin=(\S+)").expect("valid");
    let redacted = scanner.redact(&format!("pin={mark}1234")).expect("a pin").text;
    assert!(!redacted.contains("no-hex"), "{redacted}");
    assert_eq!(scanner.redact(&redacted), None, "{redacted}");
    assert_eq!(scanner.redact(&format!("pin={mark}{mark}")), None);
}

#[test]
fn patterns_of_the_caller_are_found_and_their_first_group_is_the_secret() {
    let scanner = Scanner::empty().with_pattern(r"case (\d{4})").expect("valid");
    let redacted = scanner.redact("case 1234, case 77, case 5678").expect("two");
    let (a, b) = (mark(&SecretKind::Pattern, "1234"), mark(&SecretKind::Pattern, "5678"));
    assert_eq!(redacted.text, format!("case {a}, case 77, case {b}"));
    assert_eq!(Scanner::empty().find(&key()), []);
    let both = Scanner::builtin().clone().with_pattern("Jane Doe").expect("valid");
    assert_eq!(both.find(&format!("Jane Doe has {}", key())).len(), 2);
}

#[test]
fn a_pattern_that_cannot_be_used_is_refused() {
    let refused = |pattern: &str| Scanner::empty().with_pattern(pattern).expect_err(pattern);
    assert!(matches!(refused("("), PatternError::Invalid { .. }));
    assert!(matches!(refused("(a{1000}){1000}"), PatternError::Invalid { .. }));
    assert!(matches!(refused("x*"), PatternError::Empty { .. }));
}

#[test]
fn overlapping_findings_are_replaced_as_one() {
    let scanner = Scanner::empty().with_pattern("abcd").expect("valid");
    let scanner = scanner.with_pattern("cdef").expect("valid");
    assert_eq!(scanner.find("xabcdefx").len(), 1);
    assert_eq!(scanner.redact("xabcdefx").expect("one").text.matches("ef").count(), {
        mark(&SecretKind::Pattern, "abcdef").matches("ef").count()
    });
}

/// What is no secret because of its end is one when a mark takes the end away.
#[test]
fn a_value_that_a_mark_makes_a_secret_is_replaced_at_once() {
    let begin = format!("-----{} PRIVATE KEY-----", "BEGIN");
    let texts = [
        format!("then api_key=0AAaaaaa0alm2B1Csk-{begin}aAa00a00a1bbB23c end"),
        // Three scans: the key, then what is assigned, then the credentials around both.
        format!("authorization: bearer q7Rm2xK9=api_key=0AAaaaaa0alm2B1C-{}.fake and more", key()),
    ];
    for text in texts {
        let redacted = Scanner::builtin().redact(&text).expect("a secret");
        assert_eq!(Scanner::builtin().redact(&redacted.text), None, "{}", redacted.text);
        assert!(!redacted.text.contains("0AAaaaaa0alm2B1C"), "{}", redacted.text);
        let mut rest = text.clone();
        redacted.found.iter().rev().for_each(|secret| {
            rest.replace_range(
                secret.range.clone(),
                &mark(&secret.kind, &text[secret.range.clone()]),
            );
        });
        assert_eq!(rest, redacted.text);
    }
}

/// A value that is no secret may have taken the name or the prefix of the next one.
#[test]
fn a_value_that_is_no_secret_hides_none() {
    let body = "16C7e42F292c6912E7710c838347Ae178B4a";
    for text in [
        format!("password=my-long-name-for-api_key={body}"),
        format!("api_key=the.name.of.the_access_token={body}&x=1"),
        format!("authorization: bearer aaaaaaaaaaaaaaaaaaaaaaaa authorization: bearer {body}"),
        format!("sk-{0}-sk-{0}-{body}", "proj"),
        format!("{}sk-{}-{body}", "sk-proj-".repeat(50), "proj"),
        format!("ghp_{}.ghp_{body}", "a".repeat(40)),
        format!(
            "-----{0} PRIVATE KEY-----\n{1}\n-----{0} PRIVATE KEY-----\n{body}\n",
            "BEGIN",
            "A".repeat(64)
        ),
    ] {
        let redacted = Scanner::builtin().redact(&text).expect(&text).text;
        assert!(!redacted.contains(body), "{redacted}");
        assert_eq!(Scanner::builtin().redact(&redacted), None, "{redacted}");
    }
}

/// Texts on which a careless scanner takes quadratic time: many starts, no end.
#[test]
fn time_is_linear_in_the_text() {
    let begin = format!("-----{} RSA PRIVATE KEY-----", "BEGIN");
    let units = [
        "a://a:".to_owned(),
        "a://a:a".to_owned(),
        "aws secret".to_owned(),
        "api_key=".to_owned(),
        "authorization: ".to_owned(),
        "eyJaaaaaaaaaaaa.eyJ".to_owned(),
        "\"signature\":\"".to_owned(),
        "\"data\"".to_owned(),
        "[redacted:".to_owned(),
        format!("{begin}\n"),
        format!("{begin}\n{}\n", "A".repeat(64)),
        "sk-".to_owned(),
        "sk-proj-".to_owned(),
        "password=a-long-name-that-is-no-".to_owned(),
        "glpat-a.".to_owned(),
        "\\".to_owned(),
        " ".to_owned(),
    ];
    for unit in units {
        let time = |bytes: usize| {
            let text = unit.repeat(bytes / unit.len());
            let start = std::time::Instant::now();
            let found = Scanner::builtin().redact_json(&text);
            drop(found);
            start.elapsed().as_secs_f64()
        };
        time(1 << 14);
        let (short, long) = (time(1 << 18), time(1 << 21));
        // Eight times the text. A quadratic scan takes 64 times as long; noise of a busy machine
        // is left room.
        assert!(long < short * 30.0 + 0.5, "{unit:?}: {short:.3} s, then {long:.3} s");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_and_redacting_again_changes_nothing(
        text in r#"(\PC|\\|"|:|=|sk-|://a:|@b|-----BEGIN PRIVATE KEY-----|api_key=|[A-Za-z0-9]{16,40}|\[redacted:|\]){0,30}"#
    ) {
        if let Some(redacted) = Scanner::builtin().redact(&text) {
            let again = Scanner::builtin().redact(&redacted.text);
            prop_assert_eq!(again, None, "{}", redacted.text);
        }
        let _ = Scanner::builtin().redact_json(&text);
    }

    #[test]
    fn json_stays_json_with_the_same_shape(
        texts in proptest::collection::vec(
            r#"(\PC|\n|"|\\|[A-Za-z0-9]{16,40}|api_key=|a://b:|@c|-----BEGIN PRIVATE KEY-----\n){0,12}"#,
            1..4,
        ),
        names in proptest::collection::vec("signature|api_key|text|data|password", 4),
    ) {
        // A JSON text within a JSON text, as the arguments of tools are.
        let inner: serde_json::Map<_, _> =
            names.iter().cloned().zip(texts.iter().cloned().map(Into::into)).collect();
        let inner = serde_json::Value::Object(inner).to_string();
        let outer = serde_json::json!({ "text": texts, "arguments": inner, "api_key": key() });
        let outer = outer.to_string();
        let redacted = Scanner::builtin().redact_json(&outer).expect("the key").text;
        let read: serde_json::Value = serde_json::from_str(&redacted).expect(&redacted);
        prop_assert!(!redacted.contains(&key()));
        let arguments = read["arguments"].as_str().expect("a text");
        let inner: serde_json::Value = serde_json::from_str(arguments).expect(arguments);
        prop_assert!(inner.is_object());
        prop_assert_eq!(read["text"].as_array().map(Vec::len), Some(texts.len()));
    }
}

#[test]
fn a_value_ends_with_the_json_string_that_it_is_cut_off_in() {
    for backslashes in 0..5 {
        let cut = format!("api_key=\"{}{}", key(), "\\".repeat(backslashes));
        let mut text = serde_json::json!({ "text": [cut], "next": "a \"quoted\" word" });
        for level in 0..3 {
            let redacted = Scanner::builtin().redact_json(&text.to_string()).expect("the key");
            assert!(!redacted.text.contains(&key()), "{backslashes}, {level}: {}", redacted.text);
            let mut read: serde_json::Value = serde_json::from_str(&redacted.text).expect("JSON");
            for _ in 0..level {
                let inner = read["inner"].as_str().expect("a text");
                read = serde_json::from_str(inner).expect("JSON");
            }
            assert_eq!(read["next"], "a \"quoted\" word", "{backslashes}, {level}");
            text = serde_json::json!({ "inner": text.to_string() });
        }
    }
}

#[test]
fn values_of_flags_and_headers_are_found_where_they_look_like_credentials() {
    let secret = format!("q7Tk9ZpL2vXw{}", "8RmN4cB16dyHs6DfJ");
    for text in [
        format!("login --password {secret} --quiet"),
        format!("deploy --api-key '{secret}'"),
        format!(r#"{{"headers":{{"X-Auth":"{secret}"}}}}"#),
        format!("X-Token: {secret}"),
        format!("AWS_SESSION_TOKEN={secret}"),
    ] {
        let redacted = Scanner::builtin().redact(&text).expect(&text).text;
        assert!(!redacted.contains(&secret), "{redacted}");
    }
    for text in [
        "login --password hunter2".to_owned(),
        "use --token to pass a token of the environment".to_owned(),
        format!("--password-file {secret}"),
        "X-Auth: see-the-documentation-of-the-server".to_owned(),
    ] {
        assert_eq!(Scanner::builtin().redact(&text), None, "{text}");
    }
}
