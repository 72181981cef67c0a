//! Translates a definition to another shape and reports the losses.

use tract_core::json::{self, JsonError};

use crate::allowance::StrictAllowance;
use crate::dialect::{Dialect, StrictMode};
use crate::loss::{Loss, LossKind};
use crate::lower::{Lowered, NO_PARAMETERS, Object, lower_as};
use crate::name;
use crate::shape::{Shape, ToolView, find};
use crate::strict::{Strict, to_strict, violations};
use crate::tree::Node;

/// The target of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A provider's requests.
    Provider(Dialect),
    /// The tool list of an MCP server.
    Mcp,
}

impl Target {
    /// Returns the target with this name: a provider's, or `mcp`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "mcp" => Some(Self::Mcp),
            word => word.parse().ok().map(Self::Provider),
        }
    }
}

/// A definition in another shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The text to send; `None` if the target cannot support the tool.
    pub text: Option<String>,
    /// The original name.
    pub name: String,
    /// The name that is sent.
    pub sent_name: String,
    /// Whether the provider is asked to enforce the schema.
    pub strict: bool,
    /// Whether optional properties are sent as nullable ones. If so, convert arguments back with
    /// [`raise`](crate::raise).
    pub null_for_absent: bool,
    /// Differences from the original.
    pub losses: Vec<Loss>,
}

impl Translation {
    fn new(text: Option<String>, name: String, losses: Vec<Loss>) -> Self {
        let sent_name = name.clone();
        Self { text, name, sent_name, strict: false, null_for_absent: false, losses }
    }
}

/// Translates a definition in any shape. The given text is not changed.
///
/// With `strict`, a definition for OpenAI or Anthropic is converted to strict mode if possible, and
/// sent with `strict: false` otherwise. In both cases `strict` is written.
///
/// ```
/// use tract_schema::{Dialect, Target, translate};
/// let given = r#"{"name":"fs.read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
/// let translation = translate(given, Target::Provider(Dialect::Anthropic), false)?;
/// assert_eq!(
///     translation.text.as_deref(),
///     Some(r#"{"name":"fs_read_8a61f454","input_schema":{"type":"object","properties":{}}}"#),
/// );
/// let losses: Vec<&str> = translation.losses.iter().map(|loss| loss.path.as_str()).collect();
/// assert_eq!(losses, ["annotations", "parameters", "name"]);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError`] if the text is not a JSON object.
pub fn translate(text: &str, to: Target, strict: bool) -> Result<Translation, JsonError> {
    let view = ToolView::parse(text)?;
    match to {
        Target::Mcp => {
            let mut translation = mcp(text, &view);
            compare(text, &view, Vec::new(), &mut translation)?;
            Ok(translation)
        }
        Target::Provider(dialect) => {
            let sent = name::alias(dialect, &view.name).into_owned();
            translate_as(text, dialect, strict, &sent)
        }
    }
}

/// Translates a definition for a dialect, under the name chosen for the request.
///
/// # Errors
/// As [`translate`].
pub fn translate_as(
    text: &str,
    dialect: Dialect,
    strict: bool,
    sent_name: &str,
) -> Result<Translation, JsonError> {
    translated(text, dialect, sent_name, strict.then(|| StrictAllowance::new(dialect)).as_mut())
}

/// Translates a definition for strict mode as one of the tools of a request. If it would exceed the
/// provider's limits per request, it is sent with `strict: false`, and the loss is reported.
///
/// ```
/// use tract_schema::{Dialect, StrictAllowance, translate_within};
/// let given = r#"{"name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}"#;
/// let mut allowance = StrictAllowance::new(Dialect::Anthropic);
/// // A request may have 20 strict tools, and among all of them 24 arguments that may be absent.
/// let strict = (0..30)
///     .map(|_| translate_within(given, Dialect::Anthropic, "f", &mut allowance))
///     .map(|made| made.map(|made| made.strict))
///     .collect::<Result<Vec<bool>, _>>()?;
/// assert_eq!(strict.iter().filter(|strict| **strict).count(), 20);
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// As [`translate`].
pub fn translate_within(
    text: &str,
    dialect: Dialect,
    sent_name: &str,
    allowance: &mut StrictAllowance,
) -> Result<Translation, JsonError> {
    translated(text, dialect, sent_name, Some(allowance))
}

fn translated(
    text: &str,
    dialect: Dialect,
    sent_name: &str,
    strict: Option<&mut StrictAllowance>,
) -> Result<Translation, JsonError> {
    let view = ToolView::parse(text)?;
    let (mut translation, changes) = match lower_as(text, dialect, sent_name)? {
        Lowered::Tool { text, name, strict, losses, .. } => {
            let translation = Translation::new(Some(text), view.name.clone(), Vec::new());
            (Translation { sent_name: name, strict, ..translation }, losses)
        }
        Lowered::LeftOut { name, reason } => {
            let why = Loss::new(LossKind::NotExpressible, "type", reason);
            (Translation::new(None, name, vec![why]), Vec::new())
        }
    };
    compare(text, &view, changes, &mut translation)?;
    let Some(sent) = translation.text.clone() else { return Ok(translation) };
    if let Some(allowance) = strict
        && !matches!(view.shape, Shape::Server(_))
    {
        make_strict(&mut translation, &sent, dialect, allowance)?;
    }
    Ok(translation)
}

/// Returns the reason why a provider would reject a tool that asks for strict mode; `None` if it
/// accepts the tool.
///
/// ```
/// use tract_schema::{Dialect, strict_violation};
/// let tool = r#"{"name":"a","strict":true,"parameters":{"type":"object","properties":{}}}"#;
/// let why = strict_violation(tool, Dialect::OpenAi)?;
/// assert!(why.is_some_and(|why| why.contains("additionalProperties")));
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError`] if the text is not a JSON object.
pub fn strict_violation(text: &str, dialect: Dialect) -> Result<Option<String>, JsonError> {
    let view = ToolView::parse(text)?;
    if matches!(view.shape, Shape::Server(_)) || view.other("strict") != Some("true") {
        return Ok(None);
    }
    let parameters = Node::parse(view.parameters.unwrap_or(NO_PARAMETERS))?;
    let first = violations(&parameters, dialect).into_iter().next();
    Ok(first.map(|(path, why)| format!("{path}: {why}")))
}

/// Members with the same meaning under another name.
const SAME: &[(&str, &str)] =
    &[("outputSchema", "output_schema"), ("output_schema", "outputSchema")];

/// Reports the differences between the sent and the given definition, in addition to the `changes` of
/// its parameters.
fn compare(
    text: &str,
    given: &ToolView<'_>,
    changes: Vec<Loss>,
    translation: &mut Translation,
) -> Result<(), JsonError> {
    let Some(sent_text) = translation.text.as_deref() else { return Ok(()) };
    let (sent, losses) = (ToolView::parse(sent_text)?, &mut translation.losses);
    let none = |raw: Option<&str>| raw.is_none_or(|raw| raw == "null");
    let carried = |key: &str, raw: &str| {
        let same = SAME.iter().find(|(name, _)| *name == key).map(|(_, other)| *other);
        let found = sent.other(key).or_else(|| same.and_then(|key| sent.other(key)));
        found.is_some_and(|found| json::equal(found, raw).unwrap_or(false))
    };
    for (key, raw) in &given.others {
        if *raw != "null" && !carried(key, raw) {
            losses.push(Loss::new(LossKind::LeftOut, key, "the target has no place for it"));
        }
    }
    // Members next to `function`, which only OpenAI's shape supports.
    if given.shape == Shape::Nested && text != sent_text {
        let kept = json::split_object(sent_text)?;
        for (key, raw) in json::split_object(text)? {
            let wrapper = key == "function" || key == "type";
            if !wrapper && raw != "null" && find(&kept, &key) != Some(raw) {
                losses.push(Loss::new(LossKind::LeftOut, key, "the target has no place for it"));
            }
        }
    }
    if !changes.is_empty() {
        losses.extend(changes);
    } else if none(given.parameters) && !none(sent.parameters) {
        losses.push(Loss::new(LossKind::Added, "parameters", "the target wants a schema"));
    }
    if none(given.other("strict")) && !none(sent.other("strict")) {
        let why = "providers do not agree on what an absent strict means";
        losses.push(Loss::new(LossKind::Added, "strict", why));
    }
    if given.name != sent.name {
        let why = format!("sent as {:?}", sent.name);
        losses.push(Loss::new(LossKind::Changed, "name", why));
    }
    Ok(())
}

/// Converts a definition to MCP's shape, which accepts any name and other members.
fn mcp<'a>(text: &str, view: &ToolView<'a>) -> Translation {
    let done = |text, losses| Translation::new(text, view.name.clone(), losses);
    if view.shape == Shape::Mcp {
        return done(Some(text.to_owned()), Vec::new());
    }
    if let Shape::Server(owner) = view.shape {
        let why = format!("only {owner} knows this tool");
        return done(None, vec![Loss::new(LossKind::NotExpressible, "type", why)]);
    }
    let some = |raw: Option<&'a str>| raw.filter(|raw| *raw != "null");
    let mut out = Object::default();
    out.text("name", &view.name);
    if let Some(raw) = some(view.description) {
        out.raw("description", raw);
    }
    out.raw("inputSchema", some(view.parameters).unwrap_or(NO_PARAMETERS));
    let output = some(view.other("outputSchema")).or_else(|| some(view.other("output_schema")));
    if let Some(raw) = output {
        out.raw("outputSchema", raw);
    }
    for key in ["title", "annotations", "execution", "icons", "_meta"] {
        if let Some(raw) = view.other(key) {
            out.raw(key, raw);
        }
    }
    done(Some(out.end()), Vec::new())
}

fn make_strict(
    translation: &mut Translation,
    sent: &str,
    dialect: Dialect,
    allowance: &mut StrictAllowance,
) -> Result<(), JsonError> {
    let rules = dialect.tools();
    let (inner, key) = (rules.wrapper, rules.parameters);
    let Some(mode) = rules.strict else { return Ok(()) };
    let mut tool = Node::parse(sent)?;
    let mut function = match inner {
        Some(key) => tool.get(key).cloned().unwrap_or_else(|| Node::Object(Vec::new())),
        None => tool.clone(),
    };
    translation.strict = false;
    let parameters = function.get(key).map_or(NO_PARAMETERS.to_owned(), Node::write);
    match to_strict(&parameters, dialect)? {
        Strict::Schema { parameters, losses, cost } => match allowance.take(cost) {
            Ok(()) => {
                function.set(key, Node::parse(&parameters)?);
                translation.losses.extend(losses);
                translation.strict = true;
                translation.null_for_absent = mode == StrictMode::OpenAi;
            }
            Err(reason) => translation.losses.push(reason),
        },
        Strict::NotExpressible { reasons } => translation.losses.extend(reasons),
    }
    let is_strict = translation.strict;
    function.set("strict", Node::Scalar(is_strict.to_string()));
    match inner {
        Some(key) => tool.set(key, function),
        None => tool = function,
    }
    translation.text = Some(tool.write());
    Ok(())
}
