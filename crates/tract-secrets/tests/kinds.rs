//! Kinds of credentials in the texts in which agents meet them, at every level of nesting.
//!
//! Prefixes of keys are put together when the test runs, so that scanners of repositories find
//! nothing in this file.

use tract_secrets::Scanner;

/// The token of the texts.
const TOKEN: &str = "q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ";
/// The password of the texts.
const PASSWORD: &str = "h7Gk2pQz9v";

/// Texts with `§t` and `§p` in place of the credential.
const TEXTS: &[&str] = &[
    // Members of JSON.
    r#"{"token":"§t"}"#,
    r#"{"token": "§t", "expires_in": 3600}"#,
    r#"{"access_token":"§t","token_type":"Bearer"}"#,
    r#"{"accessToken":"§t"}"#,
    r#"{"access-token":"§t"}"#,
    r#"{"refresh_token":"§t"}"#,
    r#"{"refreshToken":"§t"}"#,
    r#"{"id_token":"§t"}"#,
    r#"{"idToken":"§t"}"#,
    r#"{"session_token":"§t"}"#,
    r#"{"session-token":"§t"}"#,
    r#"{"auth_token":"§t"}"#,
    r#"{"authToken":"§t"}"#,
    r#"{"bot_token":["§t"]}"#,
    r#"{"Credentials":{"SecretAccessKey":"§t","SessionToken":"§t"}}"#,
    r#"{"secret":"§t"}"#,
    r#"{"jwt":"§t"}"#,
    r#"{"token":"3f2b8c1e-9a4d-4c7b-8e21-5d6f7a8b9c0d"}"#,
    r#"{"password":"§p"}"#,
    r#"{"user":"ada","passphrase":"§p","x":1}"#,
    r#"{"db":{"passwd":"§p"}}"#,
    r#"{'token': '§t'}"#,
    r#"{"auths":{"r.test":{"auth":"YWRhOmg3R2sycFF6OXY="}}}"#,
    r#"{"openai_key":"§t"}"#,
    r#"{"azureKey": "§t"}"#,
    r#"{"aws_secret":"§t"}"#,
    r#"{"apiKeyString":"§t"}"#,
    r#"{"tokens":["§t"],"n":1}"#,
    r#"{"tokens": [ "§t", "§t§t" ]}"#,
    r#"{"api_keys":["§t","§t§t"]}"#,
    "api_keys = ['§t', '§t']",
    // Headers.
    r#"{"url":"https://h.test","headers":{"Accept":"*/*","X-Foo-Auth":"§p"}}"#,
    r#"{"headers":{"X-Foo-Token":"letmeinplease"}}"#,
    r#"{"headers":{"Foo-Secret":"letmeinplease","Accept":"text/html"}}"#,
    r#"{"headers":{"Foo-Key":"letmeinplease"}}"#,
    r#"{"headers":{"Cookie":"theme=dark; session=letmeinplease"}}"#,
    r#"{"headers":{"Authorization":"letmeinplease"}}"#,
    r#"{"headers":{"Authorization":"Bearer letmeinplease"}}"#,
    r#"{"headers":{"X-Foo-Auth":["letmeinplease"]}}"#,
    r#"{"request":{"headers":[{"name":"X-Foo-Auth","value":"letmeinplease"}]}}"#,
    "headers = {'X-Foo-Auth': 'letmeinplease'}",
    "headers: { 'X-Foo-Auth': `letmeinplease` }",
    "curl -H 'X-Foo-Auth: letmeinplease' https://h.test",
    "curl --header \"X-Foo-Secret: letmeinplease\" https://h.test",
    "X-Foo-Auth: §t\r\nAccept: */*",
    "> Authorization: Bearer §t\r\n",
    "Authorization: §t",
    "Authorization: ApiKey §t",
    "Proxy-Authorization: Basic YWRhOmg3R2sycFF6OXY=",
    "authorization=Basic YWRhOmg3R2sy",
    "sending request with bearer §t to the server",
    "Cookie: sid=§t; theme=dark",
    "cookie: a=1; theme=dark; session=§t; b=2",
    "curl -b 'lang=en; sid=§t' https://h.test",
    "Set-Cookie: session=§t; Path=/; HttpOnly",
    r#"{"cookies":{"sid":"§t"}}"#,
    r#"{"cookies":[{"name":"sid","value":"§t","domain":"h.test","httpOnly":true}]}"#,
    r#"{"domain":"h.test","httpOnly":true,"name":"sid","path":"/","value":"§t"}"#,
    ".h.test\tTRUE\t/\tTRUE\t1893456000\tsid\t§t",
    "PHPSESSID=§t",
    // Elements of XML.
    "<password>§p</password>",
    "<server><id>a</id><username>ada</username><password>letmein</password></server>",
    "<ns:Password>\n  §p\n</ns:Password>",
    "<apiKey>§t</apiKey>",
    "<clientSecret><![CDATA[§t]]></clientSecret>",
    "<access_token type=\"x\">§t</access_token>",
    "&lt;password&gt;letmein&lt;/password&gt;",
    "<add key=\"ApiKey\" value=\"§t\" />",
    "<property name=\"db.password\" value=\"§p\"/>",
    "<property name=\"hibernate.connection.password\">letmein</property>",
    "<key>Password</key>\n<string>letmein</string>",
    // Forms and URLs.
    "--x\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nletmein\r\n--x--",
    "--x\nContent-Disposition: form-data; name=\"api_key\"\nContent-Type: text/plain\n\n§t\n--x",
    "username=ada&password=letmein&remember=1",
    "grant_type=refresh_token&refresh_token=§t&client_id=x",
    "https://h.test/a?x=1&access_token=§t#frag",
    "https://ada:§p@h.test/a",
    "https://§t@h.test/a.git",
    "https://h.blob.test/c?sv=2024&sig=§t§t%3D",
    "https://h.blob.test/c?sv=2024&sig=q7Tk%2F§t%2B8x%3D&x=1",
    "https://b.test/a?X-Amz-Expires=60&X-Amz-Signature=5d6f7a8b9c0d3f2b8c1e9a4d4c7b8e215d6f7a8b9c0d3f2b8c1e9a4d4c7b8e21",
    "https://b.test/a?Expires=60&Signature=5d6f7a8b9c0d3f2b8c1e9a4d4c7b8e215d6f7a8b&Key-Pair-Id=K",
    // Connection strings.
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=§t§t+/==;EndpointSuffix=h.test",
    "Endpoint=sb://h.test/;SharedAccessKeyName=Root;SharedAccessKey=§t§t=",
    "Server=h.test;Database=d;User Id=sa;Password=letmein;",
    "Server=h.test;Uid=sa;Pwd=letmein",
    "Data Source=h;Password=P@ss;User ID=sa",
    "host=h.test user=ada password=letmein dbname=d",
    "jdbc:postgresql://h.test/d?user=ada&password=letmein",
    "postgres://ada:§p@h.test/d",
    "mongodb+srv://ada:§p@h.test/d",
    // Files.
    "//registry.npmjs.org/:_authToken=3f2b8c1e-9a4d-4c7b-8e21-5d6f7a8b9c0d",
    "//r.test/:_authToken=§t",
    "_auth=YWRhOmg3R2sycFF6OXY=",
    "//r.test/:_password=§t§t==",
    "[pypi]\nusername = ada\npassword = §p\n",
    "machine h.test login ada password §p",
    "machine h.test\n\tlogin ada\n\tpassword §p\n",
    "default login ada password §p",
    "machine h.test login ada account x password §p",
    "h.test:5432:db:ada:§p",
    "*:*:*:ada:letmein",
    "users:\n- name: a\n  user:\n    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQp§t\n",
    "users:\n- name: a\n  user:\n    token: §t\n",
    "users:\n- name: a\n  user:\n    password: §p\n",
    "apiVersion: v1\nkind: Secret\ndata:\n  password: UEFTU1dPUkQtaDdHazJwUXo5dg==\n",
    "- name: DB_PASSWORD\n  value: §p\n",
    "[default]\naws_session_token = §t§t==\n",
    "DB_PASSWORD=§p",
    "export DB_PASSWORD='§p'",
    "REDIS_PASS=§p\nPORT=1\n",
    "JWT_SECRET=§t",
    "SECRET_KEY_BASE=§t",
    "GITHUB_PAT=§t",
    "MY_TOKEN=§t",
    "APP_KEY_2=x API_KEY_2=§t",
    "NPM_TOKEN: §t",
    "ADMIN_PASSWORD=Summer24!",
    "ADMIN_PASSWORD=\"a&b;c,§p\"",
    "spring.datasource.password=§p",
    "requirepass §p",
    // Commands and code.
    "login --password §p --quiet",
    "login --password=§p",
    "login --token §t",
    "login --token=§t",
    "login --password kitten2019 --quiet",
    "login --password=kitten2019",
    "mongodump -u ada -p §p",
    "curl -su ada:§p https://h.test",
    "API key: §t",
    "Use this api key: `§t` for now.",
    "- **API key**: §t",
    "- **API key:** `§t`",
    "OpenAI key: §t",
    "deploy --api-key '§t'",
    "sshpass -p §p ssh h.test",
    "curl -u ada:§p https://h.test",
    "curl -b 'sid=§t' https://h.test",
    "os.environ[\"API_KEY\"] = \"§t\"",
    "const API_TOKEN: &str = \"§t\";",
    "password: str = \"§p\"",
    "client.set(\"api_key\", \"§t\")",
    "The password is §p, and the token is §t.",
    "state=%7B%22token%22%3A%22§t%22%7D",
    "&quot;password&quot;:&quot;§p&quot;",
    // Keys in files.
    "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..§t.§t§t.§t",
    "AGE-SECRET-KEY-1QQ7TK9ZPL2VXW8RMN4CB16DYHS6DFJ3X5PQ7TK9ZPL2VXW8RMN4CB1",
    "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n§t§t\nPrivate-MAC: x",
];

/// Prefixes of tokens, in two pieces, with the number of characters that follow at least.
const PREFIXES: &[(&str, &str)] = &[
    ("gs", "k_"),
    ("xa", "i-"),
    ("ppl", "x-"),
    ("r", "8_"),
    ("dap", "i"),
    ("lin_", "api_"),
    ("nt", "n_"),
    ("fig", "d_"),
    ("dop_", "v1_"),
    ("shp", "at_"),
    ("hv", "s."),
    ("dckr_", "pat_"),
    ("ATAT", "T3x"),
    ("NRA", "K-"),
    ("gls", "a_"),
    ("sntry", "u_"),
    ("rubygems", "_"),
    ("PMA", "K-"),
    ("pscale_", "tkn_"),
    ("sb", "p_"),
    ("tskey-", "auth-"),
    ("nf", "p_"),
    ("lsv2_", "pt_"),
    ("pcs", "k_"),
    ("tvl", "y-"),
    ("cf", "ut_"),
    ("sk-lf-", ""),
    ("sk_", ""),
];

fn filled(text: &str) -> (String, Vec<String>) {
    let text = text.replace("§t", TOKEN).replace("§p", PASSWORD);
    let mut secrets = vec![TOKEN.to_owned(), PASSWORD.to_owned()];
    for more in [
        "letmein",
        "DYHS6DFJ3X5PQ7TK9",
        "5d6f7a8b9c0d",
        "P@ss",
        "kitten2019",
        "Summer24!",
        "YWRhOmg3R2s",
        "UEFTU1dPUkQt",
        "aDdHazJwUXo5dg",
    ] {
        secrets.push(more.to_owned());
    }
    (text, secrets)
}

fn check(text: &str) -> Result<(), String> {
    let (text, secrets) = filled(text);
    let mut nested = text.clone();
    for level in 0..4 {
        let redacted = Scanner::builtin().redact_json(&nested).map(|redacted| redacted.text);
        let redacted = redacted.unwrap_or_else(|| nested.clone());
        if secrets.iter().any(|secret| redacted.contains(secret.as_str())) {
            return Err(format!("level {level}: {redacted}"));
        }
        if level > 0 {
            serde_json::from_str::<serde_json::Value>(&redacted).map_err(|_| redacted)?;
        }
        nested = serde_json::json!({ "output": nested }).to_string();
    }
    Ok(())
}

#[test]
fn credentials_of_every_kind_are_found_at_every_level_of_nesting() {
    let failed: Vec<String> = TEXTS.iter().filter_map(|text| check(text).err()).collect();
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), TEXTS.len());
}

#[test]
fn tokens_of_services_are_found_by_their_prefix() {
    let tokens = PREFIXES.iter().map(|(a, b)| format!("see {a}{b}§t§t in the log"));
    let failed: Vec<String> = tokens.filter_map(|text| check(&text).err()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn values_that_are_no_credentials_are_kept() {
    for text in [
        r#"{"tokens":1200,"max_tokens":4096,"total_tokens":5,"token_count":17,"token":20240101123456}"#,
        r#"{"token":"Hello","logprob":-0.2}"#,
        r#"{"token":" v2.0","top_logprobs":[{"token":"COVID-19"}]}"#,
        r#"{"next_page_token":"q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ","nextPageToken":"q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ"}"#,
        r#"{"token":{"type":"string","description":"The token of the server, from 2024 on"}}"#,
        r#"{"password":"Enter your password","label":"Password1 is required"}"#,
        r#"{"pwd":"/home/ada/work2/tract"}"#,
        r#"{"headers":{"Content-Type":"application/json","Idempotency-Key":"3f2b8c1e-9a4d-4c7b-8e21-5d6f7a8b9c0d"}}"#,
        r#"{"headers":{"x-ratelimit-remaining-tokens":"39999","X-Author":"Ada Lovelace"}}"#,
        r#"{"headers":{"Authorization":"Bearer ${TOKEN_2}","X-Foo-Auth":"<your key>"}}"#,
        r#"{"name":"read_file","value":"src/secret_key_2/main.rs"}"#,
        r#"{"key":"user_4f3d2a1b9c8e7f6a5b4c","value":"q7Tk9ZpL2vXw"}"#,
        "<token>identifier</token><key>name2</key><value>q7Tk9ZpL2vXw</value>",
        "<password>${env.PASSWORD}</password>",
        "if (token == TokenKind2::Ident) { pass = compute_pass2(x); }",
        "let token = parse_token_v2(stream1)?;",
        "const pass = form.password2.value;",
        "password = read_password_2()",
        "DB_PASSWORD=${DB_PASSWORD_2}",
        "PASSWORD_MIN_LENGTH=12 PASSWORD_HASH=argon2id",
        "src/main.rs:120:5:error:E0433",
        "SECRET_KEY=secret123 PASSWORD=test1234",
        "the token is 2048 characters long, and the key is on page 12",
        "--password-file /run/secrets/db_password_1",
        "PWD=/srv/agents/main2",
        r#"{"primary_key":"q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ","public_key":"q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ"}"#,
        r#"{"foreign_key":"q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ","keys":["q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ"]}"#,
        r#"{"tokens":["Hello"," world","COVID-19"],"stop_tokens":["<|end2of3text|>"],"api_keys":2}"#,
        "Primary key: q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ",
        "- **Key**: q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ",
        "**API key**: see the settings of your account, version 2",
        "signature: q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ",
        "login --password PASSWORD2 --password <password1> --password ${PASS_2}",
        "sort -nu a:h7Gk2pQz9v",
        "name=\"password\" type=\"password\" autocomplete=\"current-password\"",
    ] {
        assert_eq!(Scanner::builtin().redact_json(text).map(|r| r.text), None, "{text}");
    }
}
