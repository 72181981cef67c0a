//! Figures, and the table that they are printed in.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
pub(crate) use tract_benches::engine::{median, micros};

/// One line of the table.
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) ours: String,
    pub(crate) floor: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) wanted: &'static str,
    pub(crate) met: Option<bool>,
}

#[derive(Default)]
pub(crate) struct Table(Vec<Figure>);

impl Table {
    pub(crate) fn add(&mut self, figure: Figure) {
        eprintln!("  {}: {} (floor {})", figure.what, figure.ours, figure.floor);
        self.0.push(figure);
    }

    /// Adds a figure without a floor; its target, if it has one, is a plain limit.
    pub(crate) fn limit(
        &mut self,
        what: impl Into<String>,
        ours: String,
        wanted: &'static str,
        met: impl Into<Option<bool>>,
    ) {
        self.add(Figure {
            what: what.into(),
            ours,
            floor: "–".to_owned(),
            ratio: None,
            wanted,
            met: met.into(),
        });
    }

    /// Adds a median and the median of its floor, which the note describes: times in `ms` or `µs`, or
    /// rates.
    pub(crate) fn compare(
        &mut self,
        what: impl Into<String>,
        unit: &str,
        [ours, floor]: [f64; 2],
        note: &str,
        wanted: &'static str,
        met: impl Into<Option<bool>>,
    ) {
        let (ratio, digits) = match unit {
            "ms" => (floor / ours, 1),
            "µs" => (floor / ours, 0),
            _ => (ours / floor, 0),
        };
        self.add(Figure {
            what: what.into(),
            ours: format!("{ours:.digits$} {unit}"),
            floor: format!("{floor:.digits$} {unit} ({note})"),
            ratio: Some(ratio),
            wanted,
            met: met.into(),
        });
    }

    pub(crate) fn print(&self) {
        println!("| figure | measured | floor of the same run | ratio | wanted | met |");
        println!("| --- | --- | --- | --- | --- | --- |");
        for Figure { what, ours, floor, ratio, wanted, met } in &self.0 {
            let ratio = ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
            let met = met.map_or("–", |met| if met { "yes" } else { "no" });
            println!("| {what} | {ours} | {floor} | {ratio} | {wanted} | {met} |");
        }
    }
}

pub(crate) fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = run();
    (value, start.elapsed())
}

/// Runs tasks concurrently; returns their results and the time until the last one ended.
pub(crate) fn at_once<F>(
    runtime: &Runtime,
    tasks: impl Iterator<Item = F>,
) -> (Vec<F::Output>, Duration)
where
    F: Future<Output: Send> + Send + 'static,
{
    timed(|| runtime.block_on(async { tasks.collect::<JoinSet<_>>().join_all().await }))
}
