use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    Answer, Bench, Server, anthropic_request, anthropic_stream, exchange, memory_repo,
};
use tract_record::{
    Error, Proxy, ProxyOptions, Reason, Recorder, RecorderOptions, Route, Upstream,
};

#[tokio::test(flavor = "multi_thread")]
async fn bytes_pass_unchanged_at_every_chunking() {
    let body = anthropic_request(&["Grüße, 世界", "One.", "second"]);
    let answer = anthropic_stream("Ünïcode 世界 🦀");
    for piece in [1, 2, 7, 1000, usize::MAX] {
        let reply = Answer::new("text/event-stream", answer.clone()).chunk(piece.min(1 << 20));
        let bench = Bench::new([reply]).await;
        let got = bench.send("/v1/messages?beta=true", &[], body.as_bytes(), piece).await;
        assert!(got.is_whole);
        assert_eq!(got.body, answer.as_bytes(), "pieces of {piece}");
        let sent = bench.server.got();
        assert_eq!(sent[0].start, "POST /v1/messages?beta=true HTTP/1.1");
        assert_eq!(sent[0].body, body.as_bytes(), "pieces of {piece}");
        let report = bench.settle().await;
        assert_eq!(report.recorded, 1, "pieces of {piece}: {report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_pass_both_ways_but_those_of_one_connection() {
    let answer = Answer::json("{}").header("request-id", "req_1").header("Set-Cookie", "a=b");
    let bench = Bench::new([answer.header("Keep-Alive", "timeout=5")]).await;
    let headers = [("X-Api-Key", "k"), ("Accept-Encoding", "gzip"), ("TE", "trailers")];
    let got = bench.send("/v1/messages", &headers, b"{}", usize::MAX).await;
    assert_eq!(got.header("request-id"), Some("req_1"));
    assert_eq!(got.header("set-cookie"), Some("a=b"));
    assert_eq!(got.header("keep-alive"), None);
    let sent = &bench.server.got()[0];
    assert_eq!(sent.header("x-api-key"), Some("k"));
    assert_eq!(sent.header("accept-encoding"), Some("gzip"));
    assert_eq!(sent.header("te"), Some("trailers"), "the proxy takes them too");
    let host = bench.server.address.to_string();
    assert_eq!(sent.header("host"), Some(host.as_str()));
    // As the client wrote them: some servers are particular.
    assert!(sent.headers.iter().any(|(name, _)| name == "X-Api-Key"), "{:?}", sent.headers);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_keep_their_order_both_ways() {
    let names = ["X-Zebra", "Accept", "X-Ant", "Connection", "User-Agent", "TE", "X-Bee", "Cookie"];
    let mut answer = Answer::json("{}");
    for name in ["Date", "X-Zebra", "Keep-Alive", "X-Ant", "Set-Cookie", "Server", "X-Bee"] {
        answer = answer.header(name, "1");
    }
    let bench = Bench::new([answer]).await;
    let headers = names.map(|name| (name, if name == "Connection" { "keep-alive" } else { "1" }));
    let got = bench.send("/v1/messages", &headers, b"{}", usize::MAX).await;
    let known = |headers: &[(String, String)], wanted: &[&str]| -> Vec<String> {
        let names = headers.iter().map(|(name, _)| name.clone());
        names.filter(|name| wanted.contains(&name.as_str())).collect()
    };
    let sent = &bench.server.got()[0];
    let expected = ["X-Zebra", "Accept", "X-Ant", "User-Agent", "X-Bee", "Cookie"];
    assert_eq!(known(&sent.headers, &names), expected);
    let expected = ["Date", "X-Zebra", "X-Ant", "Set-Cookie", "Server", "X-Bee"];
    assert_eq!(known(&got.headers, &expected), expected);
    assert_eq!(got.header("keep-alive"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_headers_pass_and_too_many_are_said() {
    for (count, passes) in [(150, true), (900, true), (1_100, false)] {
        let names: Vec<String> = (0..count).map(|n| format!("x-header-{n}")).collect();
        let answer = names.iter().fold(Answer::json("{}"), |answer, name| answer.header(name, "v"));
        let bench = Bench::new([answer]).await;
        let got = bench.post("/v1/messages", "{}").await;
        if passes {
            assert_eq!(got.start, "HTTP/1.1 200 OK", "{count}");
            assert!(names.iter().all(|name| got.header(name) == Some("v")), "{count}");
        } else {
            assert_eq!(got.start, "HTTP/1.1 502 Bad Gateway");
            let body = String::from_utf8(got.body).unwrap();
            assert!(body.contains("too large: over 1000 headers"), "{body}");
        }
        let bench = Bench::new([Answer::json("{}")]).await;
        let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        let got = bench.send("/v1/messages", &headers, b"{}", usize::MAX).await;
        let status = if passes { "200 OK" } else { "431 Request Header Fields Too Large" };
        assert_eq!(got.start, format!("HTTP/1.1 {status}"), "{count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_pass_to_a_client_that_takes_them() {
    for (takes, headers) in [(true, "TE: trailers\r\n"), (false, "")] {
        let answer = Answer::json("{}").header("Trailer", "X-Sum").trailer("X-Sum: 7");
        let bench = Bench::new([answer]).await;
        let mut stream = bench.connect().await;
        let head = format!(
            "POST {}/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n{headers}\
             Connection: close\r\n\r\n{{}}",
            bench.base
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        let got = String::from_utf8(got).unwrap().to_lowercase();
        let (head, rest) = got.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("trailer: x-sum"), "{head}");
        assert_eq!(rest.contains("x-sum: 7"), takes, "{rest}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_requests_pass_and_are_not_recorded() {
    let bench = Bench::new([Answer::json(r#"{"input_tokens":3}"#)]).await;
    let counted = anthropic_request(&["first"]);
    let got = bench.post("/v1/messages/count_tokens", &counted).await;
    assert_eq!(got.body, br#"{"input_tokens":3}"#);
    let got = exchange(bench.address, &bench.request("GET", "/v1/models", &[], b"")).await;
    assert_eq!(got.start, "HTTP/1.1 200 OK");
    let report = bench.settle().await;
    assert_eq!(report.not_recorded[&Reason::NotATurn], 2);
    assert_eq!(report.lost(), 0);
    assert!(bench.branches().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_socket_passes_and_is_reported() {
    let bench = Bench::new([]).await;
    let mut stream = bench.connect().await;
    let headers = [("Connection", "Upgrade"), ("Upgrade", "websocket")];
    stream.write_all(&bench.request("GET", "/v1/responses", &headers, b"")).await.unwrap();
    let mut head = vec![0; 1000];
    let count = stream.read(&mut head).await.unwrap();
    let head = String::from_utf8_lossy(&head[..count]).into_owned();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream.write_all(b"frames").await.unwrap();
    let mut echo = [0; 6];
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"semarf");
    let report = bench.settle().await;
    assert_eq!(report.not_recorded[&Reason::WebSocket], 1);
    assert_eq!(report.lost(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_secret_path_and_configured_upstreams_are_served() {
    let bench = Bench::new([Answer::json("{}")]).await;
    let other = Server::start([Answer::json("{}")]).await;
    let base = &bench.base;
    let wrong = base.replace(|c: char| c.is_ascii_hexdigit(), "0");
    let longer = format!("{base}0");
    for target in [
        "/v1/messages".to_owned(),
        format!("{wrong}/v1/messages"),
        format!("{longer}/v1/messages"),
        format!("http://{}/v1/messages", other.address),
        format!("http://{}{base}/v1/messages", other.address),
    ] {
        let request = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}");
        let got = exchange(bench.address, request.as_bytes()).await;
        assert_eq!(got.start, "HTTP/1.1 404 Not Found", "{target}");
    }
    assert!(bench.server.got().is_empty() && other.got().is_empty());
    assert!(base.len() > 32, "{base}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_the_network_is_refused_unless_allowed() {
    let recorder = Recorder::start(memory_repo(), &RecorderOptions::default()).unwrap();
    let upstream: Upstream = "http://127.0.0.1:9".parse().unwrap();
    let options = ProxyOptions { address: "0.0.0.0:0".parse().unwrap(), ..ProxyOptions::default() };
    let routes = || vec![Route::only(upstream.clone())];
    let refused = Proxy::bind(&options, routes(), recorder.handle()).await;
    assert!(matches!(refused, Err(Error::NotLoopback { .. })), "{refused:?}");
    let options = ProxyOptions { allow_remote: true, ..options };
    assert!(Proxy::bind(&options, routes(), recorder.handle()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_goes_to_its_own_upstream() {
    let first = Server::start([Answer::json("{}")]).await;
    let second = Server::start([Answer::json("{}")]).await;
    let route = |name: &str, server: &Server, path: &str| Route {
        name: name.to_owned(),
        upstream: format!("http://{}{path}", server.address).parse().unwrap(),
    };
    let routes = vec![route("anthropic", &first, ""), route("openai", &second, "/team/v1")];
    let recorder = Recorder::start(memory_repo(), &RecorderOptions::default()).unwrap();
    let proxy =
        Proxy::bind(&ProxyOptions::default(), routes.clone(), recorder.handle()).await.unwrap();
    let urls: Vec<String> = routes.iter().map(|route| proxy.base_url(route)).collect();
    let address = proxy.address();
    tokio::spawn(proxy.run(std::future::pending()));
    assert!(urls[1].ends_with("/openai/team/v1"), "{urls:?}");
    for (url, path) in [(&urls[0], "/v1/messages"), (&urls[1], "/chat/completions")] {
        let target = url.strip_prefix(&format!("http://{address}")).unwrap();
        let request =
            format!("POST {target}{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        exchange(address, request.as_bytes()).await;
    }
    assert_eq!(first.got()[0].start, "POST /v1/messages HTTP/1.1");
    assert_eq!(second.got()[0].start, "POST /team/v1/chat/completions HTTP/1.1");
}
