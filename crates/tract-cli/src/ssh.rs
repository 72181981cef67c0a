//! Signatures in the format of OpenSSH, made and verified by `ssh-keygen`.

use std::env;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tract::engine::{SIGNATURE_NAMESPACE, SignedTag};

use crate::escape;
use crate::failure::{Failure, Outcome};

/// The environment variable with the signing key.
const KEY: &str = "TRACT_SIGNING_KEY";
/// The environment variable with the file of allowed signers.
const ALLOWED: &str = "TRACT_ALLOWED_SIGNERS";
/// Default keys in the `.ssh` folder, in order.
const DEFAULT_KEYS: [&str; 2] = ["id_ed25519", "id_ed25519.pub"];

/// The result of verifying a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignatureCheck {
    /// The signature is valid, and of this signer.
    Good(String),
    /// The signature is valid, but its signer is not in the file.
    Unknown,
    /// The signature is invalid.
    Bad(String),
}

/// Signs a tag with a key: the given one, else that of the variable, else a default one.
pub(crate) fn sign(tag: &SignedTag, key: Option<&Path>) -> Outcome<String> {
    let key = match key.map(Path::to_owned).or_else(|| env::var_os(KEY).map(PathBuf::from)) {
        Some(key) => key,
        None => default_key()?,
    };
    let mut command = Command::new("ssh-keygen");
    command.args(["-Y", "sign", "-n", SIGNATURE_NAMESPACE, "-f"]).arg(&key);
    let output = run(&mut command, &tag.text())?;
    if !output.status.success() {
        let key = key.display();
        let message = format!("ssh-keygen does not sign with {key}: {}", stderr_text(&output));
        return Err(Failure::no("signing_failed", message)
            .note(format!("--key or {KEY} names another key; ssh-keygen -t ed25519 makes one")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn default_key() -> Outcome<PathBuf> {
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".ssh"));
    let mut keys = DEFAULT_KEYS.iter().filter_map(|name| Some(home.as_ref()?.join(name)));
    keys.find(|key| key.exists()).ok_or_else(|| {
        Failure::no("no_signing_key", "there is no key to sign with in ~/.ssh")
            .note(format!("--key or {KEY} names one; ssh-keygen -t ed25519 makes one"))
    })
}

/// Returns the file of allowed signers: the given one, else that of the variable.
pub(crate) fn allowed_signers(file: Option<&Path>) -> Outcome<PathBuf> {
    let file = file.map(Path::to_owned).or_else(|| env::var_os(ALLOWED).map(PathBuf::from));
    let file = file.ok_or_else(|| {
        Failure::usage(format!(
            "--signatures needs the signers that you trust: --allowed-signers FILE or {ALLOWED}"
        ))
        .note("a line of the file is a name and a public key, as in `alice@example.org ssh-ed25519 AAAA…`")
    })?;
    std::fs::File::open(&file).map_err(|error| Failure::file(&file, &error))?;
    Ok(file)
}

/// Verifies the signature of a tag.
pub(crate) fn check(tag: &SignedTag, signature: &str, allowed: &Path) -> Outcome<SignatureCheck> {
    let no_file = |error: io::Error| Failure::no("signing_failed", error.to_string());
    let mut file = tempfile::NamedTempFile::new().map_err(no_file)?;
    file.write_all(signature.as_bytes()).map_err(no_file)?;
    let text = tag.text();
    let mut find = Command::new("ssh-keygen");
    find.args(["-Y", "find-principals", "-f"]).arg(allowed).arg("-s").arg(file.path());
    let found = run(&mut find, "")?;
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    let Some(signer) = found.lines().next().filter(|_| !found.is_empty()) else {
        let mut fits = Command::new("ssh-keygen");
        fits.args(["-Y", "check-novalidate", "-n", SIGNATURE_NAMESPACE, "-s"]).arg(file.path());
        let fits = run(&mut fits, &text)?;
        return Ok(match fits.status.success() {
            true => SignatureCheck::Unknown,
            false => SignatureCheck::Bad(stderr_text(&fits)),
        });
    };
    let mut verify = Command::new("ssh-keygen");
    verify.args(["-Y", "verify", "-n", SIGNATURE_NAMESPACE, "-I", signer, "-f"]).arg(allowed);
    verify.arg("-s").arg(file.path());
    let verified = run(&mut verify, &text)?;
    Ok(match verified.status.success() {
        true => SignatureCheck::Good(signer.to_owned()),
        false => SignatureCheck::Bad(stderr_text(&verified)),
    })
}

fn stderr_text(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    escape::line(line).to_string()
}

/// Runs a program with a text as its input.
fn run(command: &mut Command, input: &str) -> Outcome<Output> {
    let failed = |error: io::Error| {
        let failure = Failure::no("no_ssh_keygen", format!("ssh-keygen does not start: {error}"));
        failure.note("signatures need ssh-keygen of OpenSSH 8.2 or later")
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may end before it has read everything; then its output has the reason.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output().map_err(failed)
}
