//! The cost of telemetry per commit: a program without spans, with spans but no collector, and with a
//! collector. Each is a separate process, and they take turns.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use tract::block_on;
use tract::store::WriteMode;

use crate::messages;
use crate::table::{Figure, Table, median, micros, timed};

/// Names the binary that was built without spans; `cargo xtask bench otel` sets it.
const PLAIN: &str = "TRACT_BENCHES_WITHOUT_SPANS";
const ROUNDS: usize = 15;

pub(crate) fn run(table: &mut Table, quick: bool) {
    let Some(plain) = std::env::var_os(PLAIN).map(PathBuf::from) else {
        eprintln!("  left out: `cargo xtask bench otel` builds the binary to compare with");
        return;
    };
    let own = std::env::current_exe().unwrap();
    let collector = collector().unwrap();
    let commits = if quick { 200 } else { 2000 };
    let memory = Path::new("/dev/shm");
    let mut places = vec![("durable append", std::env::temp_dir())];
    if memory.is_dir() && !crate::flush::is_slowed() {
        places.push(("append where flushes are free", memory.to_owned()));
    }
    for (what, place) in places {
        let (mut without, mut off, mut on) = (vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            without.push(child(&plain, &place, commits, None));
            off.push(child(&own, &place, commits, None));
            on.push(child(&own, &place, commits, Some(&collector)));
        }
        let base = median(without);
        let durable = what == "durable append";
        for (how, times, wanted, most) in [
            ("spans and no collector", off, "≤ 2 % more", 1.02),
            ("spans and a collector", on, "≤ 10 % more", 1.10),
        ] {
            let ours = median(times);
            table.add(Figure {
                what: format!("{what}, {how}"),
                ours: format!("{ours:.1} µs a commit"),
                floor: format!("{base:.1} µs (without spans)"),
                ratio: Some(base / ours),
                wanted: if durable { wanted } else { "–" },
                met: durable.then_some(ours <= base * most),
            });
        }
    }
}

/// Lets a process commit, and returns its microseconds for one.
fn child(program: &Path, place: &Path, commits: u64, collector: Option<&str>) -> f64 {
    let folder = tempfile::tempdir_in(place).unwrap();
    let mut command = Command::new(program);
    command.arg("--commits").arg(folder.path()).arg(commits.to_string());
    command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
    if let Some(collector) = collector {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Commits in this process, and prints the microseconds for one.
pub(crate) fn commits(folder: &Path, count: u64) {
    #[cfg(feature = "otel")]
    let telemetry = observed();
    let tract = messages::open(folder, WriteMode::InPlace);
    messages::fill(&tract, 0, 100);
    let texts: Vec<String> = (100..100 + count).map(messages::text).collect();
    let (_, took) = timed(|| {
        for text in texts {
            block_on(tract.user(text)).unwrap();
        }
    });
    let each = micros(took) / count as f64;
    println!("{each}");
    #[cfg(feature = "otel")]
    if let Some(failure) = telemetry.and_then(tract_otel::Telemetry::finish) {
        panic!("{failure}");
    }
}

/// Starts telemetry where the environment names a collector.
#[cfg(feature = "otel")]
fn observed() -> Option<tract_otel::Telemetry> {
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    let options = tract_otel::TelemetryOptions::from_env().unwrap()?;
    let telemetry = tract_otel::Telemetry::start(&options).unwrap();
    tracing_subscriber::registry().with(telemetry.layer()).init();
    Some(telemetry)
}

/// Starts a server that takes everything in, and returns its URL.
fn collector() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || take_in(stream).ok());
        }
    });
    Ok(url)
}

fn take_in(mut stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        io::copy(&mut reader.by_ref().take(length.unwrap_or(0)), &mut io::sink())?;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}
