//! The rules as cases: `sessions/wire-rules` of the recordings, which are not in the repository.
//! Cases of our own test the same rules.

use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;
use tract_testkit::data;

use crate::decode::{DecodeError, MAX_DECODED_BYTES, decode};
use crate::turn::{Thread, endpoint, is_answer};

fn cases(folder: &str) -> Vec<Value> {
    let folder = data::full(&format!("sessions/wire-rules/{folder}"));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(path).expect("a case");
        serde_json::from_str(&text).expect("a case is JSON")
    };
    folder.map(|folder| data::files(&folder, "json")).into_iter().flatten().map(read).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn plaintext(form: &Value) -> Vec<u8> {
    let number = |value: &Value| usize::try_from(value.as_u64().expect("a number")).expect("fits");
    if let Some(repeat) = form.get("repeat_byte") {
        let byte = u8::try_from(number(&repeat["byte"])).expect("a byte");
        return vec![byte; number(&repeat["count"])];
    }
    if let Some(repeat) = form.get("repeat_utf8") {
        return text(repeat, "text").repeat(number(&repeat["count"])).into_bytes();
    }
    text(form, "utf8").as_bytes().to_vec()
}

/// Returns the encoded bytes of a case, and the plain ones.
fn body(case: &Value) -> (Vec<u8>, Vec<u8>) {
    use base64::Engine as _;
    if let Some(bytes) = case["body"]["bytes_b64"].as_str() {
        let bytes = base64::prelude::BASE64_STANDARD.decode(bytes).expect("base64");
        return (bytes, Vec::new());
    }
    let build = &case["body"]["build"];
    let plain = plaintext(&build["plaintext"]);
    let members = usize::try_from(build["members"].as_u64().unwrap_or(1)).expect("fits");
    let mut encoded = Vec::new();
    for piece in plain.chunks(plain.len().div_ceil(members).max(1)) {
        let mut piece = piece.to_vec();
        for layer in build["layers"].as_array().expect("layers") {
            piece = match layer.as_str() {
                Some("gzip") => gzip(&piece),
                Some("zstd") => zstd(&piece),
                other => panic!("no encoder for {other:?}"),
            };
        }
        encoded.extend(piece);
    }
    let of = |value: &Value| usize::try_from(value.as_u64().expect("a number")).expect("fits");
    let truncate = &build["truncate"];
    let keep = if truncate.get("drop_tail_bytes").is_some() {
        encoded.len() - of(&truncate["drop_tail_bytes"])
    } else if truncate.get("keep_head_bytes").is_some() {
        of(&truncate["keep_head_bytes"])
    } else if let Some(ratio) = truncate["keep_head_ratio"].as_array() {
        encoded.len() * of(&ratio[0]) / of(&ratio[1])
    } else {
        encoded.len()
    };
    encoded.truncate(keep);
    (encoded, plain)
}

#[test]
fn content_codings_are_undone_as_the_cases_say() {
    let mut wrong = Vec::new();
    for case in cases("content-encoding") {
        let (encoded, plain) = body(&case);
        let found = decode(encoded, case["encoding"].as_str());
        let expect = &case["expect"];
        let is_right = match (text(expect, "outcome"), &found) {
            ("decoded", Ok(decoded)) => {
                let bytes = expect["decoded"]["bytes_b64"].is_string() || decoded.bytes == plain;
                !decoded.is_cut && bytes
            }
            ("salvaged", Ok(decoded)) => {
                decoded.is_cut && !decoded.bytes.is_empty() && plain.starts_with(&decoded.bytes)
            }
            ("error", Err(error)) => match text(&expect["error"], "class") {
                // brotli is decoded here, and the bytes of the case are not brotli.
                "unsupported" if text(&case, "encoding") == "br" => true,
                "unsupported" => matches!(error, DecodeError::Unsupported { .. }),
                "oversize" => *error == DecodeError::TooLarge,
                _ => matches!(error, DecodeError::Undecodable(_)),
            },
            _ => false,
        };
        if !is_right {
            let found = found.map(|decoded| (decoded.bytes.len(), decoded.is_cut));
            wrong.push(format!("{}: {found:?}", text(&case, "name")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn headers_name_threads_as_the_cases_say() {
    for case in cases("thread") {
        let mut headers = HeaderMap::new();
        for (name, value) in case["headers"].as_object().expect("headers") {
            let name: http::HeaderName = name.parse().expect("a name");
            let value = value.as_str().expect("a text").parse().expect("a value");
            headers.insert(name, value);
        }
        let agent = Thread::of(&headers).agent.unwrap_or_default();
        assert_eq!(agent, text(&case, "thread_id"), "{}", text(&case, "name"));
    }
}

#[test]
fn exchanges_are_turns_as_the_cases_say() {
    for case in cases("drop-reason") {
        for example in case["examples"].as_array().into_iter().flatten() {
            let found = match (example.get("request"), example.get("response")) {
                (Some(request), _) => {
                    endpoint(text(request, "method"), text(request, "path")).is_some()
                }
                (None, Some(response)) => {
                    let status = response["status"].as_u64().expect("a status");
                    is_answer(u16::try_from(status).expect("a status"))
                }
                (None, None) => continue,
            };
            let expected = text(example, "expect") == "eligible";
            assert_eq!(found, expected, "{}", text(example, "description"));
        }
    }
}

#[track_caller]
fn check(bytes: &[u8], coding: &str, expected: Result<(&[u8], bool), &str>) {
    let found = decode(bytes.to_vec(), Some(coding));
    match (&found, expected) {
        (Ok(found), Ok((bytes, is_cut))) => {
            assert_eq!((found.bytes.as_slice(), found.is_cut), (bytes, is_cut));
        }
        (Err(found), Err(expected)) => {
            assert!(found.to_string().contains(expected), "{found}");
        }
        _ => panic!("{coding}: {found:?}"),
    }
}

#[test]
fn every_coding_is_decoded_whole_and_cut() {
    let plain: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let brotli: Vec<u8> = ["8b0d807b2261223a2262726f746c692062726f746c692062726f746c69227d03"]
        .iter()
        .flat_map(|hex| hex.as_bytes().chunks(2))
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16).expect("hex"))
        .collect();
    check(&brotli, "br", Ok((br#"{"a":"brotli brotli brotli"}"#, false)));
    check(&brotli[..20], "br", Err("br"));
    let zlib =
        [0x78, 0x9c, 0xab, 0x56, 0x4a, 0x54, 0xb2, 0x32, 0xac, 0x05, 0x00, 0x08, 0x2a, 0x02, 0x09];
    check(&zlib, "deflate", Ok((br#"{"a":1}"#, false)));
    check(&zlib[2..11], "Deflate", Ok((br#"{"a":1}"#, false)));
    for (coding, encoded) in [("gzip", gzip(&plain)), ("zstd", zstd(&plain))] {
        check(&encoded, coding, Ok((&plain, false)));
        let cut = decode(encoded[..encoded.len() * 3 / 4].to_vec(), Some(coding)).expect(coding);
        assert!(cut.is_cut && !cut.bytes.is_empty() && plain.starts_with(&cut.bytes), "{coding}");
        check(b"", coding, Err(coding));
        check(b"no such data", coding, Err(coding));
    }
    check(&zstd(&gzip(&plain)), "gzip, identity, ZSTD", Ok((&plain, false)));
    // An encoded empty body is empty, but a body of which nothing arrived is not.
    check(&gzip(b""), "gzip", Ok((b"", false)));
    check(&zstd(b""), "zstd", Ok((b"", false)));
    check(&[0x78, 0x9c, 3, 0, 0, 0, 0, 1], "deflate", Ok((b"", false)));
    check(&[3, 0], "deflate", Ok((b"", false)));
    for (coding, cut) in [("deflate", &zlib[..2]), ("gzip", &gzip(b"")[..10]), ("br", &[])] {
        check(cut, coding, Err(coding));
    }
    check(&plain, "identity", Ok((&plain, false)));
    check(&plain, "snappy", Err("snappy"));
}

#[test]
fn a_bomb_is_refused() {
    let zeros = vec![0; MAX_DECODED_BYTES + 1];
    check(&gzip(&zeros), "gzip", Err("more than"));
    // Blocks of one byte and how often it comes: four bytes for 128 KiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    for _ in 0..400 {
        frame.extend_from_slice(&((128_u32 << 10 << 3) | 2).to_le_bytes()[..3]);
        frame.push(0);
    }
    frame.extend([1, 0, 0]);
    check(&frame, "zstd", Err("more than"));
    // A frame that states a window of 128 MiB.
    let frame =
        [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0x29, 0x00, 0x00, b'h', b'e', b'l', b'l', b'o'];
    check(&frame, "zstd", Err("zstd"));
    check(b"x", "gzip, gzip, gzip, gzip, gzip", Err("more than"));
}

#[test]
fn threads_are_named_by_headers() {
    let of = |pairs: &[(&'static str, &'static str)]| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, http::HeaderValue::from_static(value));
        }
        let thread = Thread::of(&headers);
        (thread.session.unwrap_or_default(), thread.agent.unwrap_or_default())
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(of(&[]), pair("", ""));
    let claude = ("x-claude-code-session-id", "s");
    assert_eq!(of(&[claude]), pair("s", ""));
    assert_eq!(of(&[claude, ("x-claude-code-agent-id", "a")]), pair("s", "a"));
    assert_eq!(of(&[("session-id", "s"), ("thread-id", "s")]), pair("s", ""));
    assert_eq!(of(&[("session-id", "s"), ("thread-id", "t")]), pair("s", "t"));
    assert_eq!(of(&[("thread-id", "t")]), pair("", ""));
    assert_eq!(of(&[("x-session-id", "o")]), pair("o", ""));
}

#[test]
fn turns_are_told_by_method_and_path() {
    let is_turn = |method: &str, path: &str| endpoint(method, path).is_some();
    for path in [
        "/v1/messages?beta=true",
        "/gateway/v1/chat/completions/",
        "/codex/responses",
        "/api/chat",
        "/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
    ] {
        assert!(is_turn("POST", path) && !is_turn("GET", path), "{path}");
    }
    for path in ["/v1/messages/count_tokens", "/v1/models", "/api/tags", "/v1/embeddings"] {
        assert!(!is_turn("POST", path), "{path}");
    }
    assert_eq!(crate::turn::model_of("/v1beta/models/gemini-3:generateContent"), Some("gemini-3"));
}
