//! How many of the secrets of a corpus are found, and how much else.
//!
//! No secret is written here: bodies come from a generator, and prefixes are put together when the
//! test runs, so that scanners of repositories find nothing in this file.

use tract_secrets::{Scanner, SecretKind};

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HEX: &str = "0123456789abcdef";
const UPPER32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A generator of bodies: xorshift, from a fixed start.
struct Bodies(u64);

impl Bodies {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn body(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| letters[self.next() as usize % letters.len()]).collect()
    }

    fn pem(&mut self, label: &str, lines: usize, end: &str) -> String {
        let mut out = format!("-----{} {label}-----{end}", "BEGIN");
        for _ in 0..lines {
            out += &self.body(BASE64, 64);
            out += end;
        }
        let last = self.body(BASE64, 22);
        out + &last + "==" + end + &format!("-----{} {label}-----", "END")
    }
}

/// The secrets of every kind, all of them new.
fn secrets(bodies: &mut Bodies) -> Vec<(SecretKind, String)> {
    let mut b = |alphabet, length| bodies.body(alphabet, length);
    let jwt = |b: &mut dyn FnMut(&'static str, usize) -> String| {
        format!("ey{}{}.ey{}{}.{}", "J", b(ALNUM, 33), "J", b(ALNUM, 60), b(URL64, 43))
    };
    vec![
        (SecretKind::Anthropic, format!("sk-{}-api03-{}AA", "ant", b(URL64, 93))),
        (SecretKind::Anthropic, format!("sk-{}-oat01-{}AA", "ant", b(URL64, 93))),
        (SecretKind::OpenRouter, format!("sk-{}-v1-{}", "or", b(HEX, 64))),
        (SecretKind::OpenAi, format!("sk-{}-{}T3BlbkFJ{}", "proj", b(URL64, 74), b(URL64, 74))),
        (SecretKind::OpenAi, format!("sk-{}-{}", "svcacct", b(URL64, 120))),
        (SecretKind::OpenAi, format!("{}-{}T3BlbkFJ{}", "sk", b(ALNUM, 20), b(ALNUM, 20))),
        (SecretKind::OpenAi, format!("{}-{}", "sk", b(HEX, 32))),
        (SecretKind::GoogleApi, format!("AI{}{}", "za", b(URL64, 35))),
        (SecretKind::GoogleOauth, format!("GOC{}-{}", "SPX", b(URL64, 28))),
        (SecretKind::GoogleOauth, format!("ya{}.{}", "29", b(URL64, 120))),
        (SecretKind::AwsKeyId, format!("AK{}{}", "IA", b(UPPER32, 16))),
        (SecretKind::AwsKeyId, format!("AS{}{}", "IA", b(UPPER32, 16))),
        (SecretKind::GitHub, format!("gh{}_{}", "p", b(ALNUM, 36))),
        (SecretKind::GitHub, format!("gh{}_{}", "s", b(ALNUM, 36))),
        (SecretKind::GitHub, format!("github_{}_{}_{}", "pat", b(ALNUM, 22), b(ALNUM, 59))),
        (SecretKind::GitLab, format!("gl{}-{}", "pat", b(URL64, 20))),
        (SecretKind::Slack, format!("xo{}-{}-{}-{}", "xb", "2041883", "31337007", b(ALNUM, 24))),
        (SecretKind::Slack, format!("xa{}-1-A{}-{}", "pp", b(UPPER32, 10), b(HEX, 64))),
        (SecretKind::Stripe, format!("sk_{}_{}", "live", b(ALNUM, 24))),
        (SecretKind::Stripe, format!("rk_{}_{}", "test", b(ALNUM, 40))),
        (SecretKind::Stripe, format!("wh{}_{}", "sec", b(ALNUM, 32))),
        (SecretKind::Npm, format!("np{}_{}", "m", b(ALNUM, 36))),
        (SecretKind::PyPi, format!("py{}-AgEIcHlwaS5vcmc{}", "pi", b(URL64, 140))),
        (SecretKind::HuggingFace, format!("h{}_{}", "f", b(ALNUM, 34))),
        (SecretKind::Twilio, format!("S{}{}", "K", b(HEX, 32))),
        (SecretKind::SendGrid, format!("S{}.{}.{}", "G", b(URL64, 22), b(URL64, 43))),
        (SecretKind::ServiceToken, format!("gs{}{}", "k_", b(ALNUM, 52))),
        (SecretKind::ServiceToken, format!("ntn{}{}", "_", b(ALNUM, 46))),
        (SecretKind::Jwt, jwt(&mut b)),
    ]
}

/// Texts with one secret each: how agents' tools print them.
fn positives() -> Vec<(SecretKind, String, String)> {
    let mut bodies = Bodies(0x5eed_1234_9876_0001);
    let mut out = Vec::new();
    let mut push = |kind, secret: &str, text: String| out.push((kind, secret.to_owned(), text));
    for _ in 0..8 {
        for (kind, secret) in secrets(&mut bodies) {
            push(kind, &secret, format!("TOKEN={secret}"));
            push(kind, &secret, format!("export X_KEY='{secret}'\ncargo run"));
            push(kind, &secret, format!(r#"{{"note":"use {secret} please","n":1}}"#));
            push(kind, &secret, format!(r#"{{"args":"{{\"k\":\"{secret}\"}}"}}"#));
            push(kind, &secret, format!(r#"{{"out":"a line\n{secret}\tanother"}}"#));
            push(kind, &secret, format!("\u{1b}[32m{secret}\u{1b}[0m"));
            push(kind, &secret, format!("I put `{secret}` into the settings."));
        }
        let webhook = format!(
            "T{}/B{}/{}",
            bodies.body(UPPER32, 9),
            bodies.body(UPPER32, 9),
            bodies.body(ALNUM, 24)
        );
        let url = format!("https://hooks.slack{}/services/{webhook}", ".com");
        push(SecretKind::SlackWebhook, &webhook, format!("curl -X POST {url} -d @body.json"));
        let aws = bodies.body(BASE64, 40);
        push(
            SecretKind::AwsSecret,
            &aws,
            format!("aws_secret_access_{} = {aws}\nregion = x", "key"),
        );
        push(SecretKind::AwsSecret, &aws, format!(r#"{{"AWS_SECRET_ACCESS_{}":"{aws}"}}"#, "KEY"));
        for (scheme, length) in
            [("postgres", 14), ("mongodb+srv", 18), ("https", 30), ("redis", 12)]
        {
            let user = if scheme == "redis" { "" } else { "app" };
            let password = bodies.body(ALNUM, length);
            let text = format!("{scheme}://{user}:{password}@db.internal:5432/app?x=1");
            push(SecretKind::UrlPassword, &password, text);
        }
        for scheme in ["Bearer", "bearer", "Basic", "token"] {
            let token = bodies.body(BASE64, 40);
            push(
                SecretKind::Bearer,
                &token,
                format!("curl -H \"Authorization: {scheme} {token}\" https://api.internal/v1"),
            );
            push(
                SecretKind::Bearer,
                &token,
                format!(r#"{{"headers":{{"authorization":"{scheme} {token}"}}}}"#),
            );
        }
        for name in [
            "api_key",
            "API-KEY",
            "apiKey",
            "client_secret",
            "SECRET_KEY",
            "DB_PASSWORD",
            "authToken",
        ] {
            let value = bodies.body(ALNUM, 32);
            let hex = bodies.body(HEX, 40);
            push(SecretKind::Assigned, &value, format!("{name}={value}"));
            push(SecretKind::Assigned, &value, format!("{name}: \"{value}\""));
            push(SecretKind::Assigned, &value, format!(r#"{{"{name}":"{value}"}}"#));
            push(SecretKind::Assigned, &value, format!(r#"{{"a":"{{\"{name}\": \"{value}\"}}"}}"#));
            push(SecretKind::Assigned, &hex, format!("{name} := '{hex}'"));
        }
        let labels = ["RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY"];
        for label in labels {
            for end in ["\n", "\r\n", "\\n", "\\\\n"] {
                let lines = bodies.next() as usize % 25 + 1;
                let pem = bodies.pem(label, lines, end);
                push(SecretKind::PrivateKey, &pem, format!("cat id{end}{pem}{end}done."));
            }
        }
        // Cut off, as tool output often is.
        let pem = bodies.pem("RSA PRIVATE KEY", 9, "\n");
        let cut = &pem[..pem.len() / 2 / 65 * 65 + 20];
        push(SecretKind::PrivateKey, cut, format!("{cut}\n[output truncated]"));
    }
    out
}

/// Texts without a secret that are written like one.
fn negatives() -> Vec<String> {
    let mut bodies = Bodies(0x5eed_4321_1111_0007);
    let mut out: Vec<String> = [
        "Set OPENAI_API_KEY to your key, which starts with sk-.",
        "api_key=YOUR_API_KEY",
        "api_key = \"your-api-key-goes-here-please\"",
        "API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "api_key=os.environ[\"OPENAI_API_KEY\"]",
        "apiKey: process.env.ANTHROPIC_API_KEY",
        "api_key: ${{ secrets.MY_SECRET_TOKEN_2 }}",
        "client_secret=$CLIENT_SECRET",
        "password: ********************",
        "password=correct-horse-battery-staple",
        "let password = request.password_from_form_v2();",
        "access_token: string; // 2024-01-01T00:00:00Z",
        "api_key=get_api_key_from_settings_v2",
        "secret_key: config/secrets/production.key.yml",
        "apiKey: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
        "api_key=12345678901234567890",
        "api_key=abcdefghijklmnopqrstuvwxyz123456",
        "access_key: UserAccessKeyDescription2",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "gh_pat is short for personal access token",
        "AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "postgres://user:password@localhost/db",
        "postgres://postgres:postgres@localhost:5432/db",
        "postgres://${USER}:${PASSWORD}@host/db",
        "https://user:<token>@github.com/a/b",
        "https://user:***@example.com/",
        "https://example.com:8080/path@2x.png",
        "http://localhost:3000/users/@me",
        "ssh://git@github.com:22/a/b.git",
        "see https://www.npmjs.com/package/@scope/name",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer YOUR_ACCESS_TOKEN_HERE",
        "headers = {\"Authorization\": f\"Bearer {self.token}\"}",
        "x-api-key: test",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "the file starts with -----BEGIN RSA PRIVATE KEY----- and ends later",
        "npm_config_registry=https://registry.npmjs.org/",
        "npm_lifecycle_event_that_is_rather_long_x",
        "hf_hub_download(repo_id=\"a/b\", filename=\"c\")",
        "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "whsec_... is the webhook's signing secret",
        "SG.xxxxxxxxxxxxxxxxxxxxxx.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9 is a header alone",
        "sk-learn and scikit-learn are the same package",
        "risk-assessments-for-all-departments-2024-and-2025",
        "task-1234567890abcdef1234567890abcdef was finished",
        "the mask-0123456789abcdef0123456789abcdef01 layer",
        "glpat-<your token>",
        "xoxb-your-token-here-please-and-thanks",
        "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx",
        "pypi-publish@release/v1",
        "\"tokens\": {\"input\": 4093, \"output\": 1200}",
        "password_hash_rounds=12, password_min_length: 16",
        "[redacted:github-token:08b1b3f5] and api_key=[redacted:assigned-secret:0badcafe]",
        "postgres://app:[redacted:url-password:0badcafe]@db/app",
    ]
    .map(str::to_owned)
    .to_vec();
    for _ in 0..25 {
        let (hex, base64) = (bodies.body(HEX, 64), bodies.body(BASE64, 4000));
        out.push(format!("commit {}", &hex[..40]));
        out.push(format!("sha256:{hex}  file.tar.gz"));
        out.push(format!("\"integrity\": \"sha512-{}==\"", &base64[..86]));
        out.push(format!("data:image/png;base64,{base64}"));
        out.push(format!("checksum = \"{hex}\""));
        out.push(format!("ssh-ed25519 {} someone@host", &base64[..68]));
        let (a, b, c) = (&hex[..8], &hex[8..12], &hex[12..24]);
        out.push(format!("request id {a}-{b}-4{}-a{}-{c}", &hex[24..27], &hex[27..30]));
        out.push(format!("toolu_{} call_{}", bodies.body(ALNUM, 24), bodies.body(ALNUM, 24)));
        out.push(format!("msg_{} chatcmpl-{}", bodies.body(ALNUM, 24), bodies.body(ALNUM, 29)));
        out.push(format!("next_page_token={}", bodies.body(URL64, 60)));
        out.push(format!("bundle.{}.js?v={}", &hex[..20], &hex[20..52]));
        out.push(format!("-----BEGIN CERTIFICATE-----\n{}\n", &base64[..64]));
    }
    out
}

/// Of a hundred secrets at least so many are found whole, and of a hundred findings at least so
/// many are secrets.
const RECALL: f64 = 0.99;
const PRECISION: f64 = 0.99;

#[test]
fn secrets_are_found_and_other_text_is_not() {
    let scanner = Scanner::builtin();
    let (positives, negatives) = (positives(), negatives());
    let (mut whole, mut of_kind, mut extra) = (0, 0, Vec::new());
    let mut missed = Vec::new();
    for (kind, secret, text) in &positives {
        let at = text.find(secret.as_str()).expect("the text has it");
        let range = at..at + secret.len();
        let found = scanner.find(text);
        let covers =
            |found: &std::ops::Range<usize>| found.start <= range.start && range.end <= found.end;
        match found.iter().find(|found| covers(&found.range)) {
            Some(found) => {
                whole += 1;
                of_kind += usize::from(found.kind == *kind);
            }
            None => missed.push((kind, text)),
        }
        let elsewhere = found.iter().filter(|f| f.range.end <= at || range.end <= f.range.start);
        extra.extend(elsewhere.map(|found| (found.kind, text)));
        // No more than the secret and what belongs to it is taken.
        for found in found.iter().filter(|found| covers(&found.range)) {
            assert!(found.range.len() <= secret.len() + 12, "{kind}: {text}");
        }
        let redacted = scanner.redact(text).map(|redacted| redacted.text).unwrap_or_default();
        assert!(!redacted.contains(secret.as_str()), "{kind} is left in {redacted}");
        assert_eq!(scanner.redact(&redacted), None, "a mark is no secret: {redacted}");
    }
    for text in &negatives {
        extra.extend(scanner.find(text).into_iter().map(|found| (found.kind, text)));
    }
    let recall = whole as f64 / positives.len() as f64;
    let precision = whole as f64 / (whole + extra.len()) as f64;
    println!(
        "{} texts with a secret: {whole} found whole (recall {recall:.4}), {of_kind} with the right \
         kind; {} texts without: {} findings that are no secret (precision {precision:.4})",
        positives.len(),
        negatives.len(),
        extra.len()
    );
    assert!(recall >= RECALL, "missed: {missed:#?}");
    assert!(precision >= PRECISION, "no secrets: {extra:#?}");
    assert!(of_kind as f64 / positives.len() as f64 >= 0.95, "{of_kind} of {}", positives.len());
}

#[test]
fn every_kind_has_a_text_in_the_corpus() {
    let positives = positives();
    for kind in SecretKind::ALL {
        assert_eq!(SecretKind::parse(kind.as_str()), Some(*kind));
        if *kind != SecretKind::Pattern {
            assert!(positives.iter().any(|(of, ..)| of == kind), "{kind}");
        }
    }
}
