//! `tract conformance`

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use serde_json::json;
use tract::block_on;
use tract::store::{StoreError, StoreErrorKind, StoreOptions, StoreResult, WriteMode};
use tract_testkit::{Capability, ContractCase, Outcome as Kept, Suite, cases};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render::{self, count};
use crate::style::{BAD, DIM, GOOD, Styled};

/// Test a store's engine against the store contract.
///
/// Every case runs on a new, empty store of that engine: in a temporary folder next to the
/// file that the URL names, or in a new schema of the database. The store at the URL itself is
/// neither opened nor changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 1 when a promise is broken. Cases that need a capability which the store does not claim
are listed.
In a database each case uses a schema named tract_conformance_…; drop these when you are done.
Examples:
  tract --store sqlite:agent.db conformance
  tract --store redb:/mnt/disk/x.redb conformance --json
  tract --store sqlite:x.db conformance --only walk")]
pub(crate) struct Conformance {
    /// Run only the cases with this text in their names.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write through the store's own thread, as the library does by default.
    #[arg(long)]
    thread: bool,
}

pub(crate) async fn run(context: &mut Context<'_>, args: Conformance) -> Outcome<()> {
    let url = context.url_to_make();
    let mode = if args.thread { WriteMode::Thread } else { WriteMode::InPlace };
    let suite = suite(&url, mode)?;
    let wanted =
        |case: &&ContractCase| args.only.as_deref().is_none_or(|only| case.name.contains(only));
    let chosen: Vec<&ContractCase> = cases().iter().filter(wanted).collect();
    if chosen.is_empty() {
        let only = args.only.unwrap_or_default();
        return Err(Failure::usage(format!("no case has {only:?} in its name")));
    }
    // A broken promise is reported as a line of the answer, so the panic is not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let bar = render::progress("trying", "promises");
    bar.set_length(chosen.len() as u64);
    let (mut kept, mut broken, mut lacks) = (0, 0, Vec::new());
    for case in chosen {
        let outcome = case.run(&suite);
        bar.inc(1);
        let (word, detail) = match &outcome {
            Kept::Kept => ("kept", None),
            Kept::Broken(how) => ("broken", Some(how.clone())),
            Kept::Lacks(capability) => ("lacks", Some(capability.to_string())),
        };
        if context.out.is_json() {
            let (name, promise) = (case.name, case.promise);
            let mut json = json!({ "case": name, "promise": promise, "outcome": word });
            if let Some(detail) = detail {
                json["detail"] = detail.into();
            }
            context.out.json(&json)?;
        } else if let Kept::Broken(how) = &outcome {
            let how = escape::line(how);
            context.out.line(format_args!("{} {}", Styled(BAD, "broken"), case.name))?;
            context.out.line(format_args!("  {}", case.promise))?;
            context.out.line(format_args!("  {how}"))?;
        }
        match outcome {
            Kept::Kept => kept += 1,
            Kept::Broken(_) => broken += 1,
            Kept::Lacks(capability) => lacks.push((case.name, capability)),
        }
    }
    bar.finish_and_clear();
    let _ = std::panic::take_hook();
    if !context.out.is_json() {
        for (case, capability) in &lacks {
            let why = format!("not claimed: {capability}");
            context.out.line(format_args!("{} {case}", Styled(DIM, why)))?;
        }
        let result = match broken {
            0 => Styled(GOOD, "no promise broken"),
            _ => Styled(BAD, "promises broken"),
        };
        context.out.line(format_args!(
            "{result}: {} kept, {broken} broken, {} not claimed",
            count(kept, "promise"),
            lacks.len()
        ))?;
    }
    Failure::unless(broken == 0)
}

/// Makes the suite of a URL's engine, without the capabilities that the engine does not claim.
fn suite(url: &str, mode: WriteMode) -> Outcome<Suite> {
    let file = tract::store::file_of(url)?;
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme).to_owned();
    let near: Option<PathBuf> = file.as_ref().map(|file| match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    });
    let base = url.to_owned();
    let in_file = file.is_some();
    let open = move |folder: &Path| {
        let url = match in_file {
            true => format!("{scheme}:{}", folder.join("store").display()),
            false if base.starts_with("memory:") => base.clone(),
            false => in_schema(&base, folder)?,
        };
        let options = StoreOptions { create: true, write_mode: mode };
        block_on(tract::store::open_with(&url, &options)).map_err(of_store)
    };
    let mut suite = Suite::new(open);
    suite.within = near;
    let claims = suite.claims().map_err(tract::Error::from)?;
    let missing = Capability::ALL.into_iter().filter(|capability| !capability.is_claimed(claims));
    Ok(suite.lacks(missing))
}

/// In a database each case uses its own schema. The case's folder contains the name.
fn in_schema(url: &str, folder: &Path) -> StoreResult<String> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let file = folder.join("schema");
    let schema = match std::fs::read_to_string(&file) {
        Ok(schema) => schema,
        Err(_) => {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let schema = format!("tract_conformance_{}_{number}", std::process::id());
            std::fs::write(&file, &schema)?;
            schema
        }
    };
    let join = if url.contains('?') { '&' } else { '?' };
    Ok(format!("{url}{join}schema={schema}&partitions=2"))
}

fn of_store(error: tract::Error) -> StoreError {
    match error {
        tract::Error::Unavailable(error)
        | tract::Error::Damaged(error)
        | tract::Error::Store(error) => error,
        other => StoreError::new(StoreErrorKind::Invalid, "store", "open", other.to_string()),
    }
}
