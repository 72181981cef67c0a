//! Runs schedules of the simulation on the store in memory.
//!
//! `simulate FIRST LAST [VERB …]` prints the first seed of each kind of failure, `simulate CASE
//! [VERB …]` replays a case with all its store calls, and `simulate --shrink CASE [VERB …]` shrinks
//! it first. `simulate --trace CASE [VERB …]` prints what a case does, also where nothing is found.
//! Verbs are those that clients carry out; all when none is named.

use std::collections::BTreeMap;
use std::time::Instant;

use tract_testkit::simulation::{Case, Simulation, Verb};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let verbs = |from: usize| -> Result<Simulation, Box<dyn std::error::Error>> {
        let names = arguments.iter().skip(from);
        let verbs = names.map(|name| name.parse()).collect::<Result<Vec<Verb>, _>>()?;
        let simulation = Simulation::memory();
        Ok(if verbs.is_empty() { simulation } else { simulation.verbs(verbs) })
    };
    let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
    if argument(0) == "--trace" {
        verbs(2)?.trace(&argument(1).parse()?).iter().for_each(|line| println!("{line}"));
    } else if argument(0) == "--shrink" {
        let (simulation, case) = (verbs(2)?, argument(1).parse::<Case>()?);
        match simulation.run(&case) {
            Ok(_) => println!("nothing found"),
            Err(finding) => println!("{}", simulation.shrink(&case, finding)),
        }
    } else if let (Ok(first), Ok(last)) = (argument(0).parse(), argument(1).parse()) {
        report(&verbs(2)?, first, last);
    } else {
        match verbs(1)?.replay(&argument(0).parse()?) {
            Ok(run) => println!("nothing found in {} store calls", run.calls),
            Err(failure) => println!("{failure}"),
        }
    }
    Ok(())
}

fn report(simulation: &Simulation, first: u64, last: u64) {
    let begun = Instant::now();
    let mut found = BTreeMap::<String, (u64, usize)>::new();
    for seed in first..last {
        let Err(finding) = simulation.run(&Case::new(seed)) else { continue };
        // The first words are the kind; ids and numbers differ from seed to seed.
        let words = finding.text.split(' ').filter(|word| {
            word.len() < 20 && !word.contains(|letter: char| letter.is_ascii_digit())
        });
        let words = words.take(12).collect::<Vec<_>>().join(" ");
        let kind = format!("{:?}: {words}", finding.invariant);
        let entry = found.entry(kind.clone()).or_insert((seed, 0));
        entry.1 += 1;
        if entry.1 == 1 {
            println!("seed {seed}: {kind}");
        }
    }
    println!("{} schedules in {:.1} s", last - first, begun.elapsed().as_secs_f64());
    for (kind, (seed, times)) in found {
        println!("{times} times, first seed {seed}: {kind}");
    }
}
