//! Sections of prompts.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tract_core::{DynTool, JsonText, RenderedValue, ToolSpec};
use tract_schema::{Invalid, ToolView, ValidateOptions, Validator};

use super::bindings::Bindings;
use super::error::PromptFault;
use crate::hydrate::{Call, hydrate};
use crate::policy::Policy;
use crate::registry::{Registry, built_in};
use crate::strict;

/// The visible part of a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// All of it, with its tools and the sections below.
    #[default]
    Full,
    /// Only its summary, until it is opened.
    Summary,
}

/// An example of a call with its result, as shown in a prompt and replaced by overrides. Every
/// [`ToolExample`](crate::ToolExample) converts to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExampleText {
    /// Its purpose, in 1 to 200 characters.
    pub description: String,
    /// The arguments.
    pub input: JsonText,
    /// The result as shown to the model.
    pub output: String,
    /// The value of the result, for a tool that renders its value. This value, rather than the
    /// output, is checked against the tool's result schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<JsonText>,
}

impl ExampleText {
    /// Creates an example.
    ///
    /// # Errors
    /// If the input cannot be serialized as JSON.
    pub fn new(
        description: impl Into<String>,
        input: &impl Serialize,
        output: impl Into<String>,
    ) -> Result<Self, serde_json::Error> {
        let (description, output) = (description.into(), output.into());
        Ok(Self { description, input: JsonText::of(input)?, output, value: None })
    }
}

impl From<crate::Example> for ExampleText {
    fn from(example: crate::Example) -> Self {
        let RenderedValue { text: output, json, .. } = example.output;
        let (description, input) = (example.description, example.input);
        let is_json = RenderedValue::from_json(json.clone()).text == output;
        Self { description, input, output, value: (!is_json).then_some(json) }
    }
}

impl<P, O> From<crate::ToolExample<P, O>> for ExampleText {
    fn from(example: crate::ToolExample<P, O>) -> Self {
        example.erase().into()
    }
}

#[derive(Clone)]
pub(crate) struct SectionTool {
    pub(crate) tool: Arc<dyn DynTool>,
    pub(crate) examples: Vec<ExampleText>,
    pub(crate) accepts_overrides: bool,
}

impl SectionTool {
    /// Returns the violations of the strict profile by the tool and its examples.
    pub(crate) fn strict_faults(&self, path: &str) -> Vec<PromptFault> {
        let spec = self.tool.spec();
        let examples = self.examples.iter();
        let examples = examples.filter_map(|example| strict::description(&example.description));
        let faults = strict::faults(&spec).into_iter().chain(examples);
        let (path, tool) = (path.to_owned(), spec.name.clone());
        let fault = |why| PromptFault::Strict { path: path.clone(), tool: tool.clone(), why };
        faults.map(fault).collect()
    }

    /// Returns the errors of the tool and its examples.
    pub(crate) fn faults(&self, path: &str) -> Vec<PromptFault> {
        let spec = self.tool.spec();
        let name = &spec.name;
        let mut faults = Vec::new();
        if !tract_schema::accepts(tract_schema::Dialect::OpenAi, name) {
            faults.push(PromptFault::ToolName {
                path: path.to_owned(),
                suggestion: tract_schema::suggestion(name),
                name: name.clone(),
            });
        }
        if self.examples.is_empty() {
            return faults;
        }
        let judged = ExampleSchema::of(&spec.parameters);
        let results = ResultSchema::of(&*self.tool, &spec);
        for example in &self.examples {
            let mut bad = |why: String| {
                let (path, tool) = (path.to_owned(), name.clone());
                faults.push(PromptFault::BadExample { path, tool, why });
            };
            let length = example.description.trim().chars().count();
            if !(1..=200).contains(&length) {
                bad(format!("expected a description of 1 to 200 characters, found {length}"));
            }
            if let Err(error) = self.tool.check_arguments(example.input.as_str()) {
                bad(error.to_string());
            } else if let Some(why) = judged.misfit(example.input.as_str()) {
                bad(why);
            }
            if let Some(why) = results.misfit(example) {
                bad(format!("the output of {:?}: {why}", example.description.trim()));
            }
        }
        faults
    }
}

/// The schema that the inputs of examples are validated against. Tools with their own type check
/// them too; tools of servers have only the schema.
struct ExampleSchema(Option<Registry>);

/// The name of the single tool in the registry that validates examples.
const EXAMPLE: &str = "example";

impl ExampleSchema {
    fn of(parameters: &str) -> Self {
        let definition = ToolSpec::new(EXAMPLE, "", parameters).definition();
        // The registry that the tool is added to reports an invalid tool.
        let registry = Registry::builder().definition(&definition).build().ok();
        Self(registry.filter(|registry| registry.validator().is_some()))
    }

    /// Returns the reason why an input does not fit; `None` if it fits.
    fn misfit(&self, input: &str) -> Option<String> {
        let call = Call::new(EXAMPLE, EXAMPLE, input);
        let hydrated = hydrate(call, self.0.as_ref()?).into_iter().next()?;
        (!hydrated.success()).then(|| hydrated.error_text())
    }
}

/// The schema that the outputs of examples are validated against: that of the tool's result type,
/// or the one in its server's definition.
struct ResultSchema(Option<Arc<dyn Validator>>);

impl ResultSchema {
    fn of(tool: &dyn DynTool, spec: &ToolSpec) -> Self {
        let schema = tool.result_schema().or_else(|| listed_schema(spec));
        // Without a usable schema of the server, outputs are not checked.
        let validator = built_in().zip(schema).and_then(|(compiler, schema)| {
            compiler.compile(&schema, &ValidateOptions::default()).ok()
        });
        Self(validator)
    }

    /// Returns the reason why an output does not fit; `None` if it fits.
    fn misfit(&self, example: &ExampleText) -> Option<String> {
        let validator = self.0.as_ref()?;
        if let Some(value) = &example.value {
            let value = serde_json::from_str(value.as_str()).ok()?;
            return validator.validate(&value).err().map(|faults| listed(&faults));
        }
        // The output is the JSON of the value, or the string itself, or empty for null. All three
        // readings are tried.
        let text = &example.output;
        let parsed: Option<Value> = serde_json::from_str(text).ok();
        let null = text.is_empty().then_some(Value::Null);
        let is_json = parsed.is_some();
        let readings = parsed.into_iter().chain(null).chain([Value::String(text.clone())]);
        let mut first = None;
        for reading in readings {
            match validator.validate(&reading) {
                Ok(()) => return None,
                Err(faults) => first = first.or(Some(listed(&faults))),
            }
        }
        let way_out = if is_json {
            ""
        } else {
            " (where the tool shows its value in words, set ExampleText::value)"
        };
        first.map(|faults| format!("{faults}{way_out}"))
    }
}

fn listed(faults: &[Invalid]) -> String {
    faults.iter().map(|fault| format!("{}: {fault}", fault.path)).collect::<Vec<_>>().join("; ")
}

/// Returns the schema of the results in a server's definition of a tool, if any.
fn listed_schema(spec: &ToolSpec) -> Option<String> {
    let view = ToolView::parse(spec.origin.as_ref()?.definition.text()).ok()?;
    let member = |key: &str| view.other(key).filter(|raw| *raw != "null").map(str::to_owned);
    member("outputSchema").or_else(|| member("output_schema"))
}

/// The parameters of a section, whose fields replace placeholders in its text.
#[derive(Clone, Debug)]
pub(crate) struct ParamsType {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
    pub(crate) fields: BTreeSet<String>,
}

type Enabled = Arc<dyn Fn(&Bindings) -> bool + Send + Sync>;

/// A part of a prompt: a title, a text, tools, and sections below it.
///
/// In the text, `${name}` is replaced by a field of the section's parameters, and `$${` by `${`.
/// Common indentation and surrounding white space are removed.
#[must_use]
#[derive(Clone)]
pub struct Section {
    pub(crate) key: String,
    pub(crate) title: String,
    pub(crate) template: String,
    pub(crate) summary: Option<String>,
    pub(crate) visibility: Visibility,
    pub(crate) params: Option<ParamsType>,
    pub(crate) enabled: Option<Enabled>,
    pub(crate) tools: Vec<SectionTool>,
    pub(crate) policies: Vec<Arc<dyn Policy>>,
    pub(crate) children: Vec<Section>,
    pub(crate) accepts_overrides: bool,
    /// Number of examples that were added before any tool.
    pub(crate) stray_examples: usize,
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section")
            .field("key", &self.key)
            .field("title", &self.title)
            .field("tools", &self.tools.len())
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}

/// Returns whether a text is a valid key of a section: `^[a-z0-9][a-z0-9._-]{0,63}$`.
pub(crate) fn is_key(key: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut bytes = key.bytes();
    key.len() <= 64
        && bytes.next().is_some_and(plain)
        && bytes.all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
}

impl Section {
    /// Creates a section from Markdown.
    pub fn new(
        key: impl Into<String>,
        title: impl Into<String>,
        template: impl Into<String>,
    ) -> Self {
        Self {
            key: key.into(),
            title: title.into(),
            template: template.into(),
            summary: None,
            visibility: Visibility::Full,
            params: None,
            enabled: None,
            tools: Vec::new(),
            policies: Vec::new(),
            children: Vec::new(),
            accepts_overrides: true,
            stray_examples: 0,
        }
    }

    /// Sets the type of the parameters that the text uses.
    pub fn params<P: JsonSchema + 'static>(mut self) -> Self {
        let fields = match &*crate::typed::derived::<P>() {
            Ok(derived) => field_names(derived.text()),
            Err(_) => BTreeSet::new(),
        };
        let name = std::any::type_name::<P>();
        self.params = Some(ParamsType { id: TypeId::of::<P>(), name, fields });
        self
    }

    /// Sets the condition under which it is enabled; always by default. If it is disabled, so are
    /// its tools and the sections below.
    pub fn enabled_if(
        mut self,
        enabled: impl Fn(&Bindings) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.enabled = Some(Arc::new(enabled));
        self
    }

    /// Sets the summary that is shown until the section is opened.
    pub fn summary(mut self, text: impl Into<String>) -> Self {
        self.summary = Some(text.into());
        self.visibility = Visibility::Summary;
        self
    }

    /// Sets the part of it that is shown at first.
    pub fn visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = visibility;
        self
    }

    /// Adds a tool.
    pub fn tool(self, tool: impl DynTool) -> Self {
        self.dyn_tool(Arc::new(tool))
    }

    /// Adds a type-erased tool.
    pub fn dyn_tool(mut self, tool: Arc<dyn DynTool>) -> Self {
        self.tools.push(SectionTool { tool, examples: Vec::new(), accepts_overrides: true });
        self
    }

    /// Adds an example to the tool that was added last. If there is no tool yet, building the
    /// prompt fails.
    pub fn example(mut self, example: impl Into<ExampleText>) -> Self {
        match self.tools.last_mut() {
            Some(last) => last.examples.push(example.into()),
            None => self.stray_examples += 1,
        }
        self
    }

    /// Excludes the tool that was added last from overrides.
    pub fn tool_without_overrides(mut self) -> Self {
        if let Some(last) = self.tools.last_mut() {
            last.accepts_overrides = false;
        }
        self
    }

    /// Adds a policy that applies to calls while the section is shown.
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policies.push(Arc::new(policy));
        self
    }

    /// Adds a subsection.
    pub fn child(mut self, section: Section) -> Self {
        self.children.push(section);
        self
    }

    /// Excludes its text and its tools from overrides.
    pub fn without_overrides(mut self) -> Self {
        self.accepts_overrides = false;
        self
    }
}

fn field_names(schema: &str) -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
}
