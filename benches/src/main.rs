//! `cargo xtask bench`: the measurements of `docs/performance.md`, each against a floor that is
//! measured in the same run. Figures are medians; ratios are floor time over our time, so 1.0 means
//! as fast as raw SQLite writing the same bytes.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a measurement may end at the first surprise")]

mod append;
mod cold;
mod dispatch;
mod flush;
mod hooks;
mod hydrate;
mod json;
mod large;
mod messages;
mod otel;
#[cfg(feature = "postgres")]
mod postgres;
mod push;
mod record;
mod relevance;
mod revert;
mod search;
mod select;
mod sessions;
mod size;
mod space;
mod stores;
mod table;
mod upkeep;
mod warm;
mod writers;

use table::Table;

/// Measures, and adds figures to the table; quick when asked to be.
type Section = fn(&mut Table, bool);

const SECTIONS: &[(&str, Section)] = &[
    ("append", append::run),
    ("warm", warm::run),
    ("cold", cold::run),
    ("history", cold::history),
    ("hooks", hooks::run),
    ("fork", size::fork),
    ("size", size::bytes),
    ("memory", size::memory),
    #[cfg(feature = "postgres")]
    ("postgres", postgres::run),
    ("hydrate", hydrate::run),
    ("dispatch", dispatch::run),
    ("large", large::run),
    ("json", json::run),
    ("revert", revert::run),
    ("select", select::run),
    ("sessions", sessions::run),
    ("writers", writers::run),
];

/// Those that run only when they are named.
const ASKED: &[(&str, Section)] = &[
    ("redb", append::redb),
    ("group", stores::group),
    ("walk", stores::walk),
    ("million", stores::million),
    ("long", stores::long),
    ("search", search::run),
    ("relevance", relevance::run),
    ("space", space::run),
    ("push", push::run),
    ("record", record::run),
    ("upkeep", upkeep::run),
    ("otel", otel::run),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Children, whose peak of memory is their own.
    if let [only, url] = arguments.as_slice() {
        match only.as_str() {
            "--peak-of-compile" => return size::peak_of_compile(url),
            "--peak-of-large-in" => return large::taken_in(url),
            "--peak-of-verify" => return upkeep::peak_of_verify(url),
            "--peak-of-gc" => return upkeep::peak_of_gc(url),
            "--peak-of-large-out" => return large::given_out(url),
            _ => {}
        }
    }
    if let [only, folder, count] = arguments.as_slice()
        && only == "--commits"
    {
        return otel::commits(std::path::Path::new(folder), count.parse().unwrap());
    }
    if arguments.first().is_some_and(|first| first == "engine") {
        return engine(&arguments[1..]);
    }
    if let Some(at) = arguments.iter().position(|argument| argument == "--slow-flush") {
        let (before, after) = arguments.split_at(at);
        let micros = after.get(1).map_or("nothing", String::as_str);
        let others: Vec<&String> = before.iter().chain(after.iter().skip(2)).collect();
        flush::slowly(micros, &others);
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let wanted: Vec<&String> = arguments.iter().filter(|argument| *argument != "--quick").collect();
    let names: Vec<&str> = SECTIONS.iter().chain(ASKED).map(|(name, _)| *name).collect();
    if let Some(unknown) = wanted.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        eprintln!(
            "unknown section {unknown:?}; there are {}, --quick, --slow-flush MICROSECONDS",
            names.join(", ")
        );
        std::process::exit(2);
    }
    let mut table = Table::default();
    flush::measure(&mut table);
    for (n, (name, run)) in SECTIONS.iter().chain(ASKED).enumerate() {
        let by_default = wanted.is_empty() && n < SECTIONS.len();
        if by_default || wanted.iter().any(|wanted| wanted == name) {
            eprintln!("{name}");
            run(&mut table, quick);
        }
    }
    table.print();
}

/// `engine URL [--messages N] [--json]`: one engine on this machine, next to its baseline.
fn engine(arguments: &[String]) {
    let mut arguments = arguments.iter();
    let (mut url, mut messages, mut json) = (None, 1000, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--messages" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                messages = number.filter(|n| (20..=10_000_000).contains(n)).unwrap_or_else(|| {
                    eprintln!("--messages takes a number from 20 to 10000000");
                    std::process::exit(2)
                });
            }
            _ => url = Some(argument),
        }
    }
    let Some(url) = url else {
        eprintln!("usage: cargo xtask bench engine URL [--messages N] [--json]");
        std::process::exit(2)
    };
    match tract::block_on(tract_benches::engine::measure(url, messages)) {
        Ok(report) if json => println!("{}", serde_json::to_string(&report).unwrap()),
        Ok(report) => print!("{report}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1)
        }
    }
}
