//! The built-in patterns.

use std::ops::Range;

use regex::{Regex, RegexSet};

use crate::SecretMatch;
use crate::kind::SecretKind;
use crate::likely::{is_assigned_secret, is_basic, is_credential, is_random, is_url_password};
use crate::mark::outside_marks;

/// The check that a match must pass to count as a secret.
#[derive(Clone, Copy)]
enum Check {
    /// The group `body`, or the secret if there is no such group, must look random.
    Random,
    /// As `Random`, and the body must have both letters and digits.
    Mixed,
    /// As `Mixed`, and the body must have exactly forty characters.
    Aws,
    Url,
    /// As `Url`, and before the match the line must have the word `curl`. As a part of the pattern,
    /// the distance between the two would need thousands of states, for every text.
    Curl,
    /// As `Url`, and before the match the line must name a program that takes a password there.
    PasswordFlag,
    Credential,
    /// As `Credential`, and before the match the line must have the word `curl`.
    CurlCookie,
    Assigned,
    /// As `Mixed`, and letters and digits must alternate as in a key, and not as in a name.
    Scrambled,
    /// The pattern is enough.
    Any,
}

impl Check {
    fn accepts(self, before: &str, user: &str, body: &str) -> bool {
        match self {
            Self::Random => is_random(body),
            Self::Mixed => is_random(body) && is_mixed(body),
            Self::Aws => body.len() == 40 && is_random(body) && is_mixed(body),
            Self::Url => is_url_password(user, body),
            Self::Curl => is_url_password(user, body) && is_of_curl(before),
            Self::PasswordFlag => is_url_password(user, body) && takes_password(before),
            Self::Credential => is_credential(body) || is_basic(body),
            Self::CurlCookie => is_credential(body) && is_of_curl(before),
            Self::Scrambled => is_mixed(body) && is_assigned_secret(body),
            Self::Any => true,
            Self::Assigned => is_assigned_secret(body),
        }
    }
}

struct Rule {
    kind: SecretKind,
    /// The secret is the group `s`, or the whole match if there is no such group. A leading `\b`
    /// also matches after an escape, see [`full_pattern`].
    pattern: &'static str,
    check: Check,
}

const fn rule(kind: SecretKind, pattern: &'static str, check: Check) -> Rule {
    Rule { kind, pattern, check }
}

/// The built-in rules, in order of precedence.
///
/// Only the PEM pattern may match a quote or a backslash. Replacing a match within JSON therefore
/// keeps the JSON valid. No pattern has an optional tail that would be searched for far beyond the
/// match, so that finding all matches of a text takes linear time.
static TABLE: &[Rule] = &[
    // Line breaks may be literal, or escaped by any number of JSON levels.
    rule(
        SecretKind::PrivateKey,
        // Header lines, lines of base64, and, unless truncated, the short last line and the footer.
        r#"(?x)-----BEGIN\ (?:[A-Z0-9]+\ ){0,3}PRIVATE\ KEY(?:\ BLOCK)?-----
          (?: (?:[\ \t\r\n]|\\+[nrt])+ [A-Za-z-]+:[^\r\n\\"]* )*
          (?P<body> (?: (?:[\ \t\r\n]|\\+[nrt])* [A-Za-z0-9+/=]{16,} )+ )
          (?: (?: (?:[\ \t\r\n]|\\+[nrt])+ [A-Za-z0-9+/=]{1,15} )? (?:[\ \t\r\n]|\\+[nrt])* -----END\ [A-Z0-9\ ]+----- )?"#,
        Check::Random,
    ),
    rule(
        SecretKind::Anthropic,
        r"\bsk-ant-[a-z]{2,8}[0-9]{2}-(?P<body>[A-Za-z0-9_-]{24,})",
        Check::Random,
    ),
    rule(SecretKind::OpenRouter, r"\bsk-or-(?:v[0-9]-)?(?P<body>[A-Za-z0-9]{32,})", Check::Random),
    rule(
        SecretKind::OpenAi,
        r"\bsk-(?:proj|svcacct|admin|None)-(?P<body>[A-Za-z0-9_-]{24,})",
        Check::Random,
    ),
    rule(SecretKind::OpenAi, r"\bsk-(?P<body>[A-Za-z0-9]{32,})", Check::Mixed),
    rule(SecretKind::GoogleApi, r"\bAIza(?P<body>[A-Za-z0-9_-]{35})", Check::Random),
    rule(SecretKind::GoogleOauth, r"\bGOCSPX-(?P<body>[A-Za-z0-9_-]{24,})", Check::Random),
    rule(SecretKind::GoogleOauth, r"\bya29\.(?P<body>[A-Za-z0-9_-]{24,})", Check::Random),
    rule(
        SecretKind::AwsKeyId,
        r"\b(?:AKIA|ASIA|ABIA|ACCA)(?P<body>[A-Z2-7]{16})(?-u:\b)",
        Check::Random,
    ),
    rule(
        SecretKind::AwsSecret,
        r#"(?i-u)aws[a-z_ .-]*secret[a-z_ .-]*[ \t]*(?:\\*["'])?[ \t]*[=:]>?[ \t]*(?:\\*["'])?[ \t]*(?P<s>[a-z0-9/+]{40,})"#,
        Check::Aws,
    ),
    rule(SecretKind::GitHub, r"\bgh[pousr]_(?P<body>[A-Za-z0-9]{36,})", Check::Random),
    rule(SecretKind::GitHub, r"\bgithub_pat_(?P<body>[A-Za-z0-9_]{40,})", Check::Random),
    rule(
        SecretKind::GitLab,
        r"\bgl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-(?P<body>[A-Za-z0-9_.-]{20,})",
        Check::Random,
    ),
    rule(SecretKind::Slack, r"\bxox[abcdeoprs]-(?P<body>[A-Za-z0-9-]{20,})", Check::Random),
    rule(SecretKind::Slack, r"\bxapp-[0-9]-(?P<body>[A-Za-z0-9-]{20,})", Check::Random),
    rule(
        SecretKind::SlackWebhook,
        r"\bhttps://hooks\.slack\.com/(?:services|workflows)/(?P<s>T[A-Za-z0-9_]{8,}/[AB][A-Za-z0-9_]{8,}/(?P<body>[A-Za-z0-9_/]{16,}))",
        Check::Random,
    ),
    rule(
        SecretKind::Stripe,
        r"\b(?:sk|rk)_(?:live|test)_(?P<body>[A-Za-z0-9]{16,})",
        Check::Random,
    ),
    rule(SecretKind::Stripe, r"\bwhsec_(?P<body>[A-Za-z0-9+/=]{24,})", Check::Random),
    rule(SecretKind::Npm, r"\bnpm_(?P<body>[A-Za-z0-9]{36})(?-u:\b)", Check::Random),
    rule(SecretKind::PyPi, r"\bpypi-AgE(?P<body>[A-Za-z0-9_-]{50,})", Check::Random),
    rule(SecretKind::HuggingFace, r"\bhf_(?P<body>[A-Za-z0-9]{30,})(?-u:\b)", Check::Random),
    rule(SecretKind::HuggingFace, r"\bapi_org_(?P<body>[A-Za-z0-9]{30,})(?-u:\b)", Check::Random),
    rule(SecretKind::Twilio, r"\bSK(?P<body>[0-9a-f]{32})(?-u:\b)", Check::Random),
    rule(
        SecretKind::SendGrid,
        r"\bSG\.[A-Za-z0-9_-]{16,32}\.(?P<body>[A-Za-z0-9_-]{32,})",
        Check::Random,
    ),
    rule(
        SecretKind::Jwt,
        r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.(?P<body>[A-Za-z0-9_-]{16,})",
        Check::Random,
    ),
    // An encrypted token: header, key (may be empty), nonce, text, tag.
    rule(
        SecretKind::Jwt,
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{8,}\.(?P<body>[A-Za-z0-9_-]{16,})\.[A-Za-z0-9_-]{8,}",
        Check::Random,
    ),
    rule(
        SecretKind::ServiceToken,
        r"\b(?x:(?: gsk_ | xai- | pplx- | r8_ | dapi | lin_(?:api|oauth)_ | ntn_ | figd_ | do[opr]_v1_
          | shp(?:at|ca|pa|ss)_ | hv[sbr]\. | dckr_(?:pat|oat)_ | ATATT3x | ATBB | NRAK- | gl(?:sa|c)_
          | sntry[su]_ | rubygems_ | PMAK- | pscale_(?:tkn|pw|oauth)_ | sbp_ | sb_secret_ | tskey-[a-z]{2,10}-
          | nfp_ | lsv2_(?:pt|sk)_ | pcsk_ | tvly-(?:dev-|prod-)? | cfut_ | sk-lf- | sk_ | fc- | jina_ | e2b_
          | sgp_ | dp\.(?:pt|st|ct|sa)\. | dt0c01\. | sq0(?:atp|csp)- | EAAA | 1// | CFPAT-
          | cio | fm2_ | vcp_ | nvapi- | fw_ )
          (?P<body>[A-Za-z0-9_-]{24,}))",
        Check::Scrambled,
    ),
    rule(SecretKind::PrivateKey, r"\bAGE-SECRET-KEY-1(?P<body>[A-Z0-9]{40,})", Check::Random),
    // A private key in PEM, in base64.
    rule(
        SecretKind::PrivateKey,
        r"\bLS0tLS1CRUdJTi(?:BSU0EgUFJJVkFUR|BQUklWQVRF|BFQyBQUklWQVRF|BPUEVOU1NI|BFTkNSWVBURUQg|BEU0EgUFJJVkFUR)(?P<body>[A-Za-z0-9+/=]{16,})",
        Check::Any,
    ),
    rule(
        SecretKind::PrivateKey,
        r"(?x)Private-Lines:\ [0-9]+ (?P<s> (?: (?:[\r\n]|\\+[nr])+ (?P<body>[A-Za-z0-9+/=]{16,}) )+ )",
        Check::Any,
    ),
    rule(
        SecretKind::UrlPassword,
        r#"\b[a-zA-Z][a-zA-Z0-9+.-]+://(?P<user>[^\x00-\x20/@:"'`\\<>?#]*):(?P<s>[^\x00-\x20/@"'`\\<>?#]{3,})@[A-Za-z0-9\[]"#,
        Check::Url,
    ),
    rule(
        SecretKind::Bearer,
        r#"(?i-u)authorization[ \t]*(?:\\*["'])?[ \t]*[:=,][ \t]*\[?(?:\\*["'`])?[ \t]*(?:[a-z][a-z0-9-]{1,23} )?(?P<s>[a-z0-9._~+/=-]{12,})"#,
        Check::Credential,
    ),
    rule(
        SecretKind::Bearer,
        r#"(?i-u)(?u:^|[^a-z0-9_-]|\\[nrt])bearer +(?P<s>[a-z0-9._~+/-]{20,}=*)"#,
        Check::Assigned,
    ),
    rule(
        SecretKind::Bearer,
        r#"(?i-u)x-(?:api-key|goog-api-key|auth(?:-token|-key)?|access-token|token)[ \t]*(?:\\*["'])?[ \t]*[:=][ \t]*(?:\\*["'])?[ \t]*(?P<s>[a-z0-9._~+/=-]{16,})"#,
        Check::Credential,
    ),
    rule(
        SecretKind::Assigned,
        r#"(?i-u)[ \t](?:-[a-z]{0,6}u|--user|--proxy-user)[ \t=]*(?:\\*["'])?(?P<user>(?u:[^\x00-\x20:"'\\])*):(?P<s>(?u:[^\x00-\x20"'\\|&;]){3,})"#,
        Check::Curl,
    ),
    rule(
        SecretKind::Assigned,
        r#"(?-u)[ \t](?:-p|--password|--pass)[ \t=]*(?:\\*["'])?(?P<s>(?u:[^\x00-\x20"'\\|&;]){3,})"#,
        Check::PasswordFlag,
    ),
    rule(
        SecretKind::Assigned,
        r#"(?-u)(?:PGPASSWORD|MYSQL_PWD|SSHPASS|REDISCLI_AUTH|RESTIC_PASSWORD)=(?:\\*["'])?(?P<s>(?u:[^\x00-\x20"'\\|&;]){3,})"#,
        Check::Url,
    ),
    // A line of `.netrc`, or several.
    rule(
        SecretKind::Assigned,
        r#"(?x-u)(?:machine (?:[\ \t\r\n]|\\+[nrt])+ (?u:[^\x00-\x20"'\\])+|default)
          (?:[\ \t\r\n]|\\+[nrt])+ login (?:[\ \t\r\n]|\\+[nrt])+ (?P<user>(?u:[^\x00-\x20"'\\])+)
          (?: (?:[\ \t\r\n]|\\+[nrt])+ account (?:[\ \t\r\n]|\\+[nrt])+ (?u:[^\x00-\x20"'\\])+ )?
          (?:[\ \t\r\n]|\\+[nrt])+ password (?:[\ \t\r\n]|\\+[nrt])+ (?P<s>(?u:[^\x00-\x20"'\\]){3,})"#,
        Check::Url,
    ),
    // A line of `.pgpass`: host, port, database, user, password.
    rule(
        SecretKind::Assigned,
        r#"(?x-u)(?:(?m:^)|["']|\\+[nrt])[A-Za-z0-9*][A-Za-z0-9*.-]*:(?:[1-9][0-9]{3,4}|\*):[A-Za-z0-9_*-]+:
          (?P<user>[A-Za-z0-9_*.@-]+):(?P<s>(?u:[^\x00-\x20:"'\\]){3,})"#,
        Check::Url,
    ),
    // A line of a cookie jar: domain, flag, path, flag, time, name, value.
    rule(
        SecretKind::Assigned,
        r#"(?x-u)(?:\t|\\+t)(?:TRUE|FALSE)(?:\t|\\+t)/(?u:[^\x00-\x20"'\\])*(?:\t|\\+t)(?:TRUE|FALSE)(?:\t|\\+t)
          [0-9]+(?:\t|\\+t)(?u:[^\x00-\x20"'\\])+(?:\t|\\+t)(?P<s>[A-Za-z0-9%_.~+/=:-]{8,})"#,
        Check::Credential,
    ),
    // A token as the user of a URL.
    rule(
        SecretKind::UrlPassword,
        r#"\bhttps?://(?P<s>[A-Za-z0-9_.~-]{16,})@[A-Za-z0-9\[]"#,
        Check::Assigned,
    ),
    rule(
        SecretKind::Assigned,
        r#"(?-u)(?:requirepass|masterauth)[ \t]+(?:\\*["'])?(?P<s>(?u:[^\x00-\x20"'\\]){3,})"#,
        Check::Url,
    ),
    rule(
        SecretKind::Assigned,
        r#"(?-u)[ \t](?:-b|--cookie)[ \t=]*(?:\\*["'])?(?:[A-Za-z0-9_.%-]{1,64}=[A-Za-z0-9%_.~+/=:-]*;[ ]?){0,20}?(?P<s>[A-Za-z0-9_.%-]{1,64}=[A-Za-z0-9%_.~+/=:-]{8,}(?:;[ ]?[A-Za-z0-9_.%-]{1,64}=[A-Za-z0-9%_.~+/=:-]*)*)"#,
        Check::CurlCookie,
    ),
    rule(
        SecretKind::Assigned,
        r#"(?i-u)(?u:^|[^a-z0-9_]|\\[nrt])(?:set-)?cookie(?:\\*["'])?[ \t]*[:=][ \t]*(?:\\*["'])?[ \t]*(?:[a-z0-9_.%-]{1,64}=[a-z0-9%_.~+/=:-]*;[ ]?){0,20}?(?P<s>[a-z0-9_.%-]{1,64}=[a-z0-9%_.~+/=:-]{8,}(?:;[ ]?[a-z0-9_.%-]{1,64}=[a-z0-9%_.~+/=:-]*)*)"#,
        Check::Credential,
    ),
];

/// The compiled patterns.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Finds in one pass which patterns match at all, so that only those are run on their own.
    any: RegexSet,
    each: Vec<Regex>,
}

impl Rules {
    pub(crate) fn new() -> Self {
        let patterns: Vec<String> = TABLE.iter().map(|rule| full_pattern(rule.pattern)).collect();
        Self {
            any: RegexSet::new(&patterns).expect("the tests compile every pattern"),
            each: patterns
                .iter()
                .map(|pattern| Regex::new(pattern).expect("the tests compile every pattern"))
                .collect(),
        }
    }

    pub(crate) fn find(&self, text: &str, found: &mut Vec<SecretMatch>) {
        for index in self.any.matches(text) {
            let (Some(rule), Some(regex)) = (TABLE.get(index), self.each.get(index)) else {
                continue;
            };
            let mut from = 0;
            while let Some(captures) = regex.captures_at(text, from) {
                let Some(whole) = captures.get(0) else { break };
                let secret = captures.name("s").unwrap_or(whole);
                let body = captures.name("body").unwrap_or(secret);
                let user = captures.name("user").map_or("", |user| user.as_str());
                let before = text.get(..whole.start()).unwrap_or_default();
                if rule.check.accepts(before, user, body.as_str()) {
                    let range = outside_marks(text, secret.range());
                    found.extend(range.map(|range| SecretMatch { kind: rule.kind, range }));
                    from = whole.end();
                } else {
                    from = within(text, whole.start(), body.range());
                }
            }
        }
    }
}

/// Returns the offset at which to resume after a match that failed its check. It resumes inside of
/// the match, since the value may have swallowed the prefix of a real secret. At most the last 256
/// bytes of the value are read again: otherwise a text made of prefixes would be rescanned once for
/// each of them.
fn within(text: &str, start: usize, body: Range<usize>) -> usize {
    const READ_AGAIN: usize = 256;
    let from = body.start.max(start + 1).max(body.end.saturating_sub(READ_AGAIN));
    (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Lets a pattern that starts at a word boundary also match after an escaped line break, as in
/// `\n`, and after a terminal color sequence: both end with a letter, so there is no word boundary.
fn full_pattern(pattern: &str) -> String {
    const START: &str = r"(?:(?-u:\b)|\\[nrtbf]|\[[0-9;]{0,12}m)";
    match pattern.strip_prefix(r"\b") {
        Some(rest) if rest.contains("(?P<s>") => format!("{START}{rest}"),
        Some(rest) => format!("{START}(?P<s>{rest})"),
        None => pattern.to_owned(),
    }
}

/// Returns whether a text ends with a line that has the word `curl`.
fn is_of_curl(text: &str) -> bool {
    words_of_line(text).any(|word| word.eq_ignore_ascii_case(b"curl"))
}

/// Returns whether a text ends with a line that has a program whose flag `-p` is a password. That
/// of `docker` is one only after `login`; others are ports and folders.
fn takes_password(text: &str) -> bool {
    const PROGRAMS: [&[u8]; 14] = [
        b"sshpass",
        b"mysql",
        b"mysqldump",
        b"mysqladmin",
        b"mysqlimport",
        b"mysqlshow",
        b"mariadb",
        b"mongosh",
        b"mongo",
        b"mongodump",
        b"mongorestore",
        b"mongoexport",
        b"mongoimport",
        b"rabbitmqadmin",
    ];
    const REGISTRIES: [&[u8]; 9] =
        [b"docker", b"podman", b"helm", b"oras", b"az", b"oc", b"cf", b"buildah", b"skopeo"];
    let has = |names: &[&[u8]]| words_of_line(text).any(|word| names.contains(&word));
    has(&PROGRAMS) || has(&REGISTRIES) && has(&[b"login"])
}

/// Returns the words of the last line of a text, or of the end of a long one.
fn words_of_line(text: &str) -> impl Iterator<Item = &[u8]> {
    const SEARCHED: usize = 512;
    let bytes = text.as_bytes();
    let end = bytes.get(bytes.len().saturating_sub(SEARCHED)..).unwrap_or_default();
    let line = end.rsplit(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    line.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
}

fn is_mixed(body: &str) -> bool {
    body.bytes().any(|byte| byte.is_ascii_digit())
        && body.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Unicode word boundary, and a counted repetition of a class with characters beyond ASCII,
    /// make the set of patterns so large or slow that an import takes ten times as long.
    #[test]
    fn no_pattern_slows_down_all_texts() {
        for rule in TABLE {
            let pattern = full_pattern(rule.pattern).replace(r"(?-u:\b)", "");
            assert!(!pattern.contains(r"\b"), "{pattern}");
            let counted = pattern.match_indices("]{").filter(|(at, _)| {
                let class = pattern.get(..*at).and_then(|before| before.rfind('['));
                class.is_some_and(|class| pattern[class..].starts_with("[^"))
            });
            let most = counted.filter(|(at, _)| !pattern[*at..].starts_with("]{3,}"));
            assert_eq!(most.count(), 0, "{pattern}");
        }
    }

    fn found(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        Rules::new().find(text, &mut found);
        found.into_iter().map(|secret| text[secret.range].to_owned()).collect()
    }

    #[test]
    fn passwords_of_commands_are_found_and_other_flags_are_not() {
        for text in [
            "sshpass -p h7Gk2pQz9v ssh ada@h.test",
            "$ docker login -u ada -p h7Gk2pQz9v r.test",
            "docker login --password=\"h7Gk2pQz9v\" r.test",
            "mysql -u ada -ph7Gk2pQz9v db",
            "mongodump -u ada -p h7Gk2pQz9v",
            "az login -u ada -p h7Gk2pQz9v",
            "PGPASSWORD=h7Gk2pQz9v psql -h db.test",
            "export MYSQL_PWD='h7Gk2pQz9v'",
            "machine h.test login ada password h7Gk2pQz9v",
            "machine h.test\n  login ada\n  password h7Gk2pQz9v\n",
            r#"{"text":"machine h.test\n  login ada\n  password h7Gk2pQz9v\n"}"#,
        ] {
            assert_eq!(found(text), ["h7Gk2pQz9v"], "{text}");
        }
        for text in [
            "mkdir -p h7Gk2pQz9v",
            "docker run -p 8080:8080 image",
            "ssh -p 2222 h.test",
            "PGPASSWORD=$SECRET psql",
            "the machine has a login and a password that is not known",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_flag_of_curl_has_a_password() {
        let far = format!("curl -s {} -u ada:h7Gk2pQz9v", "-H x ".repeat(80));
        for text in [
            "curl -u ada:h7Gk2pQz9v https://h.test",
            "CURL --user='ada:h7Gk2pQz9v' x",
            "a\n$ curl -sS --proxy-user \"ada:h7Gk2pQz9v\" x",
            "/usr/bin/curl x -u ada:h7Gk2pQz9v",
            "curl -su ada:h7Gk2pQz9v https://h.test",
            "curl -fsSLu 'ada:h7Gk2pQz9v' x",
            far.as_str(),
        ] {
            assert_eq!(found(text), ["h7Gk2pQz9v"], "{text}");
        }
        for text in [
            "docker run -u ada:h7Gk2pQz9v image",
            "curl x\nsort -u ada:h7Gk2pQz9v",
            "curly -u ada:h7Gk2pQz9v",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
