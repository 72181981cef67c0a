//! `tract verify`

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use tract::Tract;
use tract::core::store::Damage;
use tract::engine::{BundleError, Error, VerifyOptions, VerifyReport};

use super::remote::is_bundle;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::out::Output;
use crate::render::{self, count};
use crate::ssh::{self, SignatureCheck};
use crate::style::{BAD, GOOD, REF, Styled, WARN};

/// Check every object's hash and every link.
#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 1 when something is damaged, and prints one line per damage; with --signatures also when
a signature is bad, or not of a signer in the file.
Examples:
  tract verify
  tract verify --signatures --allowed-signers signers
  tract verify --repair                      rebuilds derived data; objects are never touched
  tract verify --repair --from sqlite:backup.db
                                             replaces damaged and missing objects as well")]
pub(crate) struct Verify {
    /// Rebuild damaged derived data.
    #[arg(long)]
    pub(crate) repair: bool,
    /// Replace damaged and missing objects by those of this store or bundle.
    #[arg(long, value_name = "STORE|BUNDLE", requires = "repair")]
    from: Option<String>,
    /// Check the signatures of tags as well, with ssh-keygen.
    #[arg(long)]
    signatures: bool,
    /// The signers whose signatures count, in the format of ssh-keygen [default:
    /// TRACT_ALLOWED_SIGNERS]
    #[arg(long, value_name = "FILE", requires = "signatures")]
    allowed_signers: Option<PathBuf>,
}

/// The state of the signature of a tag.
#[derive(Serialize)]
struct SignatureLine {
    tag: String,
    /// `good`, `unknown_signer`, `bad` or `unsigned`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl SignatureLine {
    fn new(tag: &str, checked: Option<SignatureCheck>) -> Self {
        let (status, signer, why) = match checked {
            None => ("unsigned", None, None),
            Some(SignatureCheck::Good(signer)) => ("good", Some(signer), None),
            Some(SignatureCheck::Unknown) => ("unknown_signer", None, None),
            Some(SignatureCheck::Bad(why)) => ("bad", None, Some(why)),
        };
        Self { tag: tag.to_owned(), status, signer, why }
    }

    fn is_refused(&self) -> bool {
        matches!(self.status, "unknown_signer" | "bad")
    }
}

pub(crate) async fn run(context: &mut Context<'_>, verify: Verify) -> Outcome<()> {
    let verified = verified(context, verify).await;
    let restore = "the cause cannot be narrowed down: `tract copy` brings a copy, and `tract apply` an \
                   export, to a new store";
    verified.map_err(|failure| failure.advise_other_than("tract verify", restore))
}

async fn verified(context: &mut Context<'_>, verify: Verify) -> Outcome<()> {
    let allowed = || ssh::allowed_signers(verify.allowed_signers.as_deref());
    let allowed = verify.signatures.then(allowed).transpose()?;
    let tract = context.open().await?;
    let options = VerifyOptions { repair: verify.repair, ..VerifyOptions::default() };
    let report = match &verify.from {
        Some(from) => verify_from(context, &tract, options, from).await?,
        None => render::verify(&tract, options).await?,
    };
    let signatures = match &allowed {
        Some(allowed) => Some(signatures(&tract, allowed).await?),
        None => None,
    };
    let is_refused = signatures.iter().flatten().any(SignatureLine::is_refused);
    if context.out.is_json() {
        context.out.json(&document(&report, signatures))?
    } else {
        print(context.out, &report, verify.from.as_deref())?;
        signatures.iter().flatten().try_for_each(|line| print_signature(context.out, line))?;
    }
    Failure::unless(report.clean && !is_refused)
}

/// Verifies, and replaces damaged objects by copies from a store or a bundle.
async fn verify_from(
    context: &mut Context<'_>,
    tract: &Tract,
    options: VerifyOptions,
    from: &str,
) -> Outcome<VerifyReport> {
    let path = Path::new(from.strip_prefix("bundle:").unwrap_or(from));
    if is_bundle(path) {
        let file = File::open(path).map_err(BundleError::Read).map_err(Error::Bundle)?;
        let repair = async |tract: &Tract, options| {
            tract::engine::verify_from_bundle(tract.repo(), file, &options).await
        };
        return Ok(render::verify_with(tract, options, repair).await?);
    }
    let store = context.open_store(from, false).await?;
    let source = context.open_repo(store, false).await?;
    let repair = async |tract: &Tract, options| {
        tract::engine::verify_from(tract.repo(), source.repo(), &options).await
    };
    Ok(render::verify_with(tract, options, repair).await?)
}

async fn signatures(tract: &Tract, allowed: &Path) -> Outcome<Vec<SignatureLine>> {
    let mut lines = Vec::new();
    for tag in tract.repo().signed_tags().await? {
        let signature = tag.signature.as_deref();
        let checked =
            signature.map(|signature| ssh::check(&tag, signature, allowed)).transpose()?;
        lines.push(SignatureLine::new(&tag.tag, checked));
    }
    Ok(lines)
}

fn print_signature(out: &mut Output, line: &SignatureLine) -> Outcome<()> {
    let tag = Styled(REF, escape::line(&line.tag));
    let (style, word) = match line.status {
        "good" => (GOOD, "signed"),
        "unsigned" => (WARN, "not signed"),
        "unknown_signer" => (BAD, "signed, but not by a signer in the file"),
        _ => (BAD, "bad signature"),
    };
    let signer = line.signer.as_deref().map(|signer| format!(" by {}", escape::line(signer)));
    let why = line.why.as_deref().map(|why| format!(": {}", escape::line(why)));
    let more = signer.or(why).unwrap_or_default();
    out.line(format_args!("tag {tag}: {}{more}", Styled(style, word)))
}

fn document(report: &VerifyReport, signatures: Option<Vec<SignatureLine>>) -> Value {
    let damage = report.damage.iter().map(|Damage { object, what, derived }| {
        let object = object.map(|object| object.to_string());
        json!({ "object": object, "what": what, "derived": derived })
    });
    let mut json = json!({
        "clean": report.clean,
        "objects": report.commits + report.blobs + report.toolsets,
        "commits": report.commits,
        "blobs": report.blobs,
        "tools": report.tools,
        "toolsets": report.toolsets,
        "ref_moves": report.ref_moves,
        "erased": report.erased,
        "damage": damage.collect::<Vec<_>>(),
    });
    if report.restored > 0 {
        json["restored"] = json!(report.restored);
    }
    if let Some(signatures) = signatures {
        json["signatures"] = json!(signatures);
    }
    json
}

/// Prints a report. `from` is the source of a repair.
fn print(out: &mut Output, report: &VerifyReport, from: Option<&str>) -> Outcome<()> {
    for damage in &report.damage {
        let object = damage.object.map(|object| object.to_string()).unwrap_or_default();
        let sort = if damage.derived { Styled(WARN, "derived") } else { Styled(BAD, "damaged") };
        out.line(format_args!("{sort}  {object}  {}", escape::line(&damage.what)))?;
    }
    if !report.repaired.is_empty() {
        let damage = count(report.repaired.len(), "damage");
        out.line(format_args!("{}: {damage}", Styled(GOOD, "repaired")))?;
    }
    render::restored(out, report.restored)?;
    let checked = [
        count(report.commits, "commit"),
        count(report.blobs, "blob"),
        count(report.tools, "tool"),
        count(report.toolsets, "toolset"),
        count(report.ref_moves, "ref move"),
    ]
    .join(", ");
    if report.clean {
        let clean = Styled(GOOD, "clean");
        out.line(format_args!("{clean}: {checked}, re-hashed and replayed"))?;
        if !report.erased.is_empty() {
            let erased = count(report.erased.len(), "blob");
            out.line(format_args!("erased: {erased}; `tract erase --list` says why"))?;
        }
        return Ok(());
    }
    let damage = count(report.damage.len(), "damage");
    out.line(format_args!("{}: {damage} in {checked}", Styled(BAD, "not clean")))?;
    let lasting = report.damage.iter().filter(|damage| !damage.derived);
    let (objects, others): (Vec<_>, Vec<_>) = lasting.partition(|damage| damage.object.is_some());
    if objects.is_empty() && others.is_empty() {
        out.say("  note: only derived data; tract verify --repair rebuilds it");
    }
    match from {
        _ if objects.is_empty() => {}
        Some(from) => out.say(format_args!(
            "  note: {} does not have these objects intact; try another copy, bundle or export",
            escape::line(from)
        )),
        None => out.say(
            "  note: tract verify --repair --from STORE replaces damaged objects from a copy or a \
             bundle; so does tract apply of an export",
        ),
    }
    if !others.is_empty() {
        out.say(
            "  note: damage without an id, such as that of the ref log, is not repaired in place; tract \
             copy --to NEW-STORE writes all that can be read to a new store",
        );
    }
    Ok(())
}
