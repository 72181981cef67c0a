//! What may run without being asked about: rules that hold for every registry.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tract_core::{ToolSpec, ToolTraits, block_on};
use tract_schema::{
    Invalid, SchemaCompiler, SchemaError, ValidateOptions, Validator as SchemaValidator,
};
use tract_tools::policy::ApprovalRequired;
use tract_tools::select::CatalogEntry;
use tract_tools::typed::ClosureTool;
use tract_tools::{
    Call, Decision, HydrateOptions, Hydrated, NoSchema, PolicyRequest, Registry, Stage, hydrate,
    hydrate_repairing, hydrate_with, tool,
};

use crate::support::{Mend, idle, reply_with_call};

const PAY: &str = r#"{"name":"pay","parameters":{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}}"#;

#[test]
fn a_policy_that_allows_a_call_does_not_vouch_for_a_repair() {
    let unrelated = |_: &PolicyRequest<'_>| Decision::Allow;
    let registry = Registry::builder().definition(PAY).policy(unrelated).build().unwrap();
    let call = Call::new("c1", "pay", r#"{"sum":"1"}"#);
    let options = HydrateOptions::default();
    let mend = Mend::new(r#"{"sum":1000}"#);
    let repaired = block_on(hydrate_repairing(call, &registry, &options, &mend)).remove(0);
    assert!(repaired.provenance.repaired);
    assert_eq!(repaired.decision, Decision::NeedsApproval);
}

fn wipe(traits: ToolTraits) -> ClosureTool {
    idle(ToolSpec { traits, ..ToolSpec::new("wipe", "Wipes a disk.", r#"{"type":"object"}"#) })
}

#[test]
fn a_definition_that_hints_at_destruction_is_asked_about_in_any_case() {
    let hints =
        r#"{"name":"wipe","annotations":{"destructiveHint":true},"inputSchema":{"type":"object"}}"#;
    for traits in [ToolTraits::default(), ToolTraits::READ_ONLY] {
        let registry = Registry::builder()
            .definition_with(hints, Arc::new(wipe(traits)))
            .policy(ApprovalRequired::of_destructive())
            .build()
            .unwrap();
        let one = hydrate(Call::new("c1", "wipe", "{}"), &registry).remove(0);
        assert_eq!(one.decision, Decision::NeedsApproval, "{traits:?}");
        assert!(!registry.iter().next().unwrap().traits().read_only);
    }
}

#[test]
fn a_destructive_tool_is_not_selected_without_leave() {
    assert!(
        !CatalogEntry::of(&wipe(ToolTraits { destructive: true, ..ToolTraits::default() }))
            .unwrap()
            .is_safe()
    );
    assert!(CatalogEntry::of(&wipe(ToolTraits::default())).unwrap().is_safe());
}

fn tolerantly(arguments: &str) -> Hydrated {
    let any = r#"{"name":"f","parameters":{"type":"object"}}"#;
    let registry = Registry::builder().definition(any).build().unwrap();
    let options = HydrateOptions { tolerant: true, ..HydrateOptions::default() };
    hydrate_with(Call::new("c", "f", arguments), &registry, &options).remove(0)
}

#[test]
fn a_value_that_was_cut_off_is_refused_and_not_closed() {
    for cut in [
        r#"{"cmd":"rm -rf /tmp/x"#,
        r#"{'cmd':'rm -rf /tmp/x"#,
        r#"{"n":10"#,
        r#"{"n":[1,-2.5e3"#,
        r#"{"cmd":"rm -rf /tmp\"#,
    ] {
        let one = tolerantly(cut);
        assert!(!one.success(), "{cut}: {:?}", one.arguments);
        assert_eq!(one.errors[0].stage, Stage::Parse);
    }
    // What is whole is closed: the profile is for that.
    assert!(tolerantly(r#"{"n":[10,20]"#).success());
    assert!(tolerantly(r#"{"n":"ten""#).success());
}

#[test]
fn a_property_that_is_given_twice_is_refused() {
    let registry = Registry::builder().definition(PAY).build().unwrap();
    let twice = r#"{"sum":"all of it","sum":1}"#;
    let one = hydrate(Call::new("c", "pay", twice), &registry).remove(0);
    assert_eq!(one.errors[0].code, "duplicate_property", "{:?}", one.arguments);
    assert!(one.error_text().contains(r#""sum""#), "{}", one.error_text());
    // At every depth, under another spelling of the name, in what is mended too.
    for twice in [r#"{"a":[{"b":1,"\u0062":2}]}"#, "{'a': 1, a: 2}", r#""{\"a\":1,\"a\":2}""#] {
        assert!(!tolerantly(twice).success(), "{twice}");
    }
    assert!(tolerantly(r#"{"a":[{"b":1},{"b":2}]}"#).success());
}

/// A number that is even: no schema of its own says so.
struct Even;

impl<'de> Deserialize<'de> for Even {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? % 2 {
            0 => Ok(Self),
            _ => Err(serde::de::Error::custom("expected an even number")),
        }
    }
}

impl JsonSchema for Even {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Even".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        u32::json_schema(generator)
    }
}

/// Halves a number.
#[tool]
struct Halve {
    /// The number.
    #[allow(dead_code)]
    number: Even,
}

impl Halve {
    async fn run(self) -> &'static str {
        "half"
    }
}

#[test]
fn arguments_that_the_type_of_a_struct_tool_refuses_are_not_trusted() {
    let registry = Registry::builder().tool(Halve::tool()).build().unwrap();
    let one = |arguments: &str| hydrate(Call::new("c", "halve", arguments), &registry).remove(0);
    let odd = one(r#"{"number":3}"#);
    assert!(!odd.success() && !odd.is_trusted() && odd.bound.is_none());
    assert_eq!(odd.errors[0].stage, Stage::Instantiate);
    assert!(odd.error_text().contains("even"), "{}", odd.error_text());
    assert!(one(r#"{"number":4}"#).is_trusted());
}

/// A validator that refuses all, and says whether it checks formats; `None` says nothing.
struct Mine(Option<bool>);

impl SchemaCompiler for Mine {
    fn name(&self) -> &str {
        "mine"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn compile(
        &self,
        _: &str,
        options: &ValidateOptions,
    ) -> Result<Arc<dyn SchemaValidator>, SchemaError> {
        Ok(Arc::new(Self(self.0.map(|_| options.formats))))
    }
}

impl SchemaValidator for Mine {
    fn validate(&self, _: &Value) -> Result<(), Vec<Invalid>> {
        let say = |formats| Invalid::new("mine", "/", format!("formats {formats}"), "nothing");
        Err(self.0.map(say).into_iter().collect())
    }
}

#[test]
fn a_validator_that_refuses_without_a_reason_has_refused() {
    let registry = Registry::builder().definition(PAY).compiler(Arc::new(Mine(None)));
    let call = Call::new("c", "pay", r#"{"sum":1}"#);
    let one = hydrate(call, &registry.build().unwrap()).remove(0);
    assert!(!one.success() && one.bound.is_none() && one.arguments.is_none());
    assert_eq!((one.errors[0].stage, one.errors[0].code.as_str()), (Stage::Validate, "schema"));
    assert!(one.error_text().contains("do not fit the schema"), "{}", one.error_text());
}

#[test]
fn a_registry_within_another_keeps_its_validator_its_options_and_its_names() {
    let inner = Registry::builder()
        .definition(PAY)
        .import(Some("second".to_owned()), tract_schema::Definition::parse(PAY).unwrap(), None)
        .shared_names()
        .strict()
        .compiler(Arc::new(Mine(Some(false))))
        .options(ValidateOptions { formats: true, ..ValidateOptions::default() })
        .build()
        .unwrap();
    let outer = Registry::builder().registry(&inner).build().unwrap();
    let call = Call { tool_id: Some("second".to_owned()), ..Call::new("c", "pay", r#"{"sum":1}"#) };
    let one = hydrate(call, &outer).remove(0);
    assert_eq!(one.error_text(), "expected formats true, found nothing");
    assert_eq!(outer.validator(), Some(("mine", "1")));
    let quiet = wipe(ToolTraits::default());
    assert!(Registry::builder().registry(&inner).tool(quiet).build().is_ok());
    let loud = idle(ToolSpec::new("LOUD", "Shouts.", r#"{"type":"object"}"#));
    assert!(Registry::builder().registry(&inner).tool(loud).build().is_err(), "names are strict");
    let none = Registry::builder().definition(PAY).without_compiler().build().unwrap();
    assert_eq!(Registry::builder().registry(&none).build().unwrap().validator(), None);
}

#[test]
fn every_tool_of_merged_registries_keeps_the_validation_that_it_had() {
    let other = PAY.replace("pay", "refund");
    let named = |name: &str| PAY.replace("pay", name);
    let strict = Registry::builder()
        .definition(PAY)
        .compiler(Arc::new(Mine(Some(false))))
        .options(ValidateOptions { formats: true, ..ValidateOptions::default() })
        .build()
        .unwrap();
    let plain = Registry::builder().definition(&other).build().unwrap();
    let closed = Registry::builder().definition(&named("burn")).without_compiler().build().unwrap();
    let of = |parts: &[&Registry]| {
        let merged = parts.iter().fold(Registry::builder(), |merged, part| merged.registry(part));
        merged.definition(&named("own")).build().unwrap()
    };
    let validated = |registry: &Registry, name: &str| {
        let one = hydrate(Call::new("c", name, r#"{"sum":1}"#), registry).remove(0);
        (one.success(), one.error_text())
    };
    for (parts, own) in [
        ([&strict, &plain, &closed], false),
        ([&plain, &closed, &strict], true),
        ([&closed, &strict, &plain], false),
    ] {
        // Merged twice, as an agent does with its prompt's tools.
        let merged = Registry::builder().registry(&of(&parts)).build().unwrap();
        let (ran, why) = validated(&merged, "pay");
        assert!(!ran && why == "expected formats true, found nothing", "{why}");
        assert!(validated(&merged, "refund").0, "its own validator accepts it");
        assert!(!validated(&merged, "burn").0, "it had no validator");
        assert_eq!(validated(&merged, "own").0, own, "the first registry's validation");
    }
    // What is set on the builder is for the tools added to it, in any order.
    let mine = Registry::builder().compiler(Arc::new(Mine(Some(false)))).registry(&plain);
    let mine = mine.definition(&named("own")).build().unwrap();
    assert_eq!(
        validated(&mine, "own"),
        (false, "expected formats false, found nothing".to_owned())
    );
    assert!(validated(&mine, "refund").0);
}

#[test]
fn a_tool_without_a_schema_is_as_closed_in_a_merged_registry_as_before() {
    let open = r#"{"name":"f","annotations":{"readOnlyHint":true},"allowNoSchema":true,"noSchemaMode":"full"}"#;
    let refuses = Registry::builder().definition(open).build().unwrap();
    let allows = Registry::builder()
        .definition(&open.replace(r#""f""#, r#""g""#))
        .definitions_without_schema(NoSchema::Full)
        .build()
        .unwrap();
    for parts in [[&refuses, &allows], [&allows, &refuses]] {
        let merged = Registry::builder().registry(parts[0]).registry(parts[1]);
        let merged = merged.definitions_without_schema(NoSchema::Full).build().unwrap();
        let mode = |name: &str| merged.iter().find(|tool| tool.name() == name).unwrap().no_schema();
        assert_eq!((mode("f"), mode("g")), (NoSchema::Refuse, NoSchema::Full));
    }
}

/// A compiler that counts how often it is asked.
#[derive(Default)]
struct Counted(std::sync::atomic::AtomicUsize);

impl SchemaCompiler for Counted {
    fn name(&self) -> &str {
        "counted"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn compile(
        &self,
        schema: &str,
        options: &ValidateOptions,
    ) -> Result<Arc<dyn SchemaValidator>, SchemaError> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        tract_schema::JsonSchema.compile(schema, options)
    }
}

#[test]
fn a_validator_is_made_once_at_the_first_call_or_by_compile_all() {
    for eager in [false, true] {
        let counted = Arc::new(Counted::default());
        let made = || counted.0.load(std::sync::atomic::Ordering::Relaxed);
        let registry = Registry::builder()
            .definition(PAY)
            .definition(&PAY.replace("pay", "refund"))
            .compiler(Arc::clone(&counted) as Arc<dyn SchemaCompiler>)
            .build()
            .unwrap();
        assert_eq!(made(), 0, "building a registry makes none");
        if eager {
            registry.compile_all().unwrap();
            assert_eq!(made(), 1, "one for both tools, whose schema is the same");
        }
        for name in ["pay", "refund", "pay"] {
            let one = hydrate(Call::new("c", name, r#"{"sum":1}"#), &registry).remove(0);
            assert!(one.success());
            let used = one.provenance.validator.as_ref().unwrap();
            assert_eq!((&*used.name, used.eager), ("counted", eager));
        }
        registry.compile_all().unwrap();
        assert_eq!(made(), 1);
    }
}

#[test]
fn a_tool_of_this_program_without_a_schema_is_refused_with_the_way_out() {
    let bare = r#"{"name":"f"}"#;
    let callable = || Arc::new(idle(ToolSpec::new("f", "Idles.", r#"{"type":"object"}"#)));
    let refused = Registry::builder().definition_with(bare, callable()).build().unwrap_err();
    assert_eq!(refused.0[0].code(), "no_schema");
    assert!(matches!(&refused.0[0], tract_tools::RegisterError::NoSchema { name } if name == "f"));
    assert!(refused.notes()[0].contains(".no_schema(mode)"), "{:?}", refused.notes());
    // A mode says that it is intended, and a definition that runs nowhere needs none.
    let mode = Registry::builder().definition_with(bare, callable()).no_schema(NoSchema::Full);
    assert!(mode.build().is_ok());
    assert!(Registry::builder().definition(bare).build().is_ok());
}

#[test]
fn a_policy_that_panics_refuses_its_call_and_no_other() {
    let panics = |call: &PolicyRequest<'_>| match call.call_id {
        "c2" => panic!("no such thing"),
        _ => Decision::Allow,
    };
    let registry = Registry::builder().definition(PAY).policy(panics).build().unwrap();
    let calls = ["c1", "c2", "c3"].map(|id| Call::new(id, "pay", r#"{"sum":1}"#));
    let hydrated = hydrate(&calls[..], &registry);
    let went: Vec<bool> = hydrated.iter().map(Hydrated::success).collect();
    assert_eq!(went, [true, false, true]);
    assert_eq!(hydrated[1].errors[0].stage, Stage::Policy);
    assert!(hydrated[1].bound.is_none());
    assert!(!hydrated[1].error_text().contains("no such thing"), "{}", hydrated[1].error_text());
}

#[test]
fn coercion_repeats_until_nothing_is_wrong_and_rewrites_nothing_else() {
    let tool = r#"{"name":"f","parameters":{"type":"object","properties":{
        "xs":{"type":"array","items":{"type":"integer"}},"price":{"type":"number"},
        "ys":{"type":"array","items":{"type":"boolean"}},"label":{"type":"string"}}}}"#;
    let registry = Registry::builder().definition(tool).build().unwrap();
    let options = HydrateOptions { coercion: true, ..HydrateOptions::default() };
    let one = |text: &str| hydrate_with(Call::new("c", "f", text), &registry, &options).remove(0);
    let nested = one(r#"{"xs":"5","price":1.50,"label":2.50}"#);
    assert!(nested.success(), "{:?}", nested.errors);
    let arguments = nested.arguments.as_ref().unwrap().as_str();
    assert_eq!(arguments, r#"{"xs":[5],"price":1.50,"label":"2.50"}"#);
    let edits: Vec<_> =
        nested.provenance.edits.iter().map(|e| e.path.as_deref().unwrap()).collect();
    assert_eq!(edits, ["/xs", "/label", "/xs/0"]);
    // More of them than are reported at once.
    let many = format!(r#"{{"ys":[{}"true"]}}"#, r#""true","#.repeat(99));
    let many = one(&many);
    assert!(many.success(), "{:?}", many.errors);
    assert_eq!(many.provenance.edits.len(), 100);
}

/// A tree, with a tag at every level.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Tree {
    Leaf {
        #[allow(dead_code)]
        value: u8,
    },
    Branch {
        #[allow(dead_code)]
        below: Box<Tree>,
    },
}

#[derive(Deserialize, JsonSchema)]
struct Plant {
    #[allow(dead_code)]
    tree: Tree,
}

#[test]
fn alternatives_within_alternatives_are_judged_once_each() {
    let arguments = |leaf: &str| {
        let (open, close) = (r#"{"kind":"branch","below":"#.repeat(60), "}".repeat(60));
        format!(r#"{{"tree":{open}{{"kind":"leaf","value":{leaf}}}{close}}}"#)
    };
    let error = tract_tools::typed::parse::<Plant>(&arguments("300")).err().unwrap();
    assert!(error.model_text().contains("at most 255, found 300"), "{}", error.model_text());
    assert!(tract_tools::typed::parse::<Plant>(&arguments("3.0")).is_ok());
}

#[test]
fn a_definition_that_allows_no_schema_is_heeded_up_to_the_registries_mode() {
    let tool =
        |members: &str| format!(r#"{{"name":"f","annotations":{{"readOnlyHint":true}}{members}}}"#);
    let mode = |members: &str, most: Option<NoSchema>| {
        let mut builder = Registry::builder().definition(&tool(members));
        if let Some(most) = most {
            builder = builder.definitions_without_schema(most);
        }
        builder.build().unwrap().iter().next().unwrap().no_schema()
    };
    let full = r#","allowNoSchema":true,"noSchemaMode":"full""#;
    assert_eq!(mode(full, None), NoSchema::Refuse, "a definition alone opens nothing");
    assert_eq!(mode(full, Some(NoSchema::Full)), NoSchema::Full);
    assert_eq!(mode(full, Some(NoSchema::HumanApproval)), NoSchema::HumanApproval);
    let asks = r#","allowNoSchema":true"#;
    assert_eq!(mode(asks, Some(NoSchema::Full)), NoSchema::HumanApproval);
    let reads = r#","allowNoSchema":true,"noSchemaMode":"read_only""#;
    assert_eq!(mode(reads, Some(NoSchema::Full)), NoSchema::ReadOnly);
    for closed in [
        "",
        r#","allowNoSchema":false,"noSchemaMode":"full""#,
        r#","allowNoSchema":true,"noSchemaMode":"wide""#,
    ] {
        assert_eq!(mode(closed, Some(NoSchema::Full)), NoSchema::Refuse, "{closed}");
    }
    let registry =
        Registry::builder().definition(&tool(asks)).definitions_without_schema(NoSchema::Full);
    let one = hydrate(Call::new("c", "f", "{}"), &registry.build().unwrap()).remove(0);
    assert_eq!(
        (one.success(), one.is_trusted(), one.decision),
        (true, false, Decision::NeedsApproval)
    );
}

#[test]
fn a_hydrated_call_says_which_reply_it_came_in() {
    let registry = Registry::builder().definition(PAY).build().unwrap();
    let mut reply = reply_with_call("pay", r#"{"sum":1}"#);
    reply.id = Some("r-7".to_owned());
    reply.model = Some("model-1".to_owned());
    reply.form = Some("anthropic-1".to_owned());
    let one = hydrate(&reply, &registry).remove(0);
    let source = one.provenance.source.as_ref().unwrap();
    let found = (source.reply.as_deref(), source.model.as_deref(), source.form.as_deref());
    assert_eq!(found, (Some("r-7"), Some("model-1"), Some("anthropic-1")));
    let written: Value = serde_json::from_str(one.provenance.to_json().unwrap().as_str()).unwrap();
    assert_eq!(written["source"]["reply"], "r-7");
}

#[test]
fn nothing_that_is_done_with_a_definition_changes_it() {
    use tract_schema::Dialect;
    let text = r#"{"name":"f", "parameters":{"type":"object","properties":{"n":{"type":"integer","default":1.0}}}}"#;
    let registry = Registry::builder().definition(text).build().unwrap();
    let tool = registry.iter().next().unwrap();
    let (id, shared) = (tool.definition().id(), tool.definition().clone());
    registry.compile_all().unwrap();
    for provider in Dialect::ALL {
        assert_ne!(tool.sent_to(provider).text.as_deref(), Some(text), "a copy is sent");
        let strict = tract_schema::Target::Provider(provider);
        assert!(tract_schema::translate(tool.definition().schema().text(), strict, true).is_ok());
    }
    let mut call = Call::new("c", "f", r#"{"n":null}"#);
    call.null_for_absent = true;
    assert!(hydrate(call, &registry).remove(0).success());
    assert_eq!((tool.definition().schema().text(), tool.definition().id()), (text, id));
    assert_eq!(shared.schema().text(), text);
}
