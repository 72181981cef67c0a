use proptest::prelude::*;
use tract_core::{RenderedValue, ToolContext, ToolResult, block_on};

use super::Strategy;
use super::*;
use crate::session::Session;

struct Fixture {
    session: Session,
    planning: Planning,
    context: ToolContext,
}

impl Fixture {
    fn new() -> Self {
        let session = Session::new();
        let planning = Planning::new(&session).unwrap();
        let context = ToolContext::new("c1").with_resource(session.clone());
        Self { session, planning, context }
    }

    fn run(&self, tool: usize, arguments: &str) -> ToolResult<RenderedValue> {
        block_on(self.planning.tools()[tool].run(arguments, &self.context)).unwrap()
    }

    fn refused(&self, tool: usize, arguments: &str) -> String {
        let before = self.session.latest::<Plan>();
        let result = self.run(tool, arguments);
        assert!(!result.success && result.value.is_none(), "{result:?}");
        assert_eq!(self.session.latest::<Plan>(), before, "a refusal changes nothing");
        result.message
    }
}

#[test]
fn names_and_descriptions_keep_the_strict_rules() {
    let names: Vec<String> =
        Fixture::new().planning.tools().iter().map(|tool| tool.spec().name).collect();
    assert_eq!(
        names,
        ["planning_setup_plan", "planning_add_step", "planning_update_step", "planning_read_plan"]
    );
    for tool in Fixture::new().planning.tools() {
        let description = tool.spec().description;
        assert!(description.is_ascii() && description.len() <= 200, "{description}");
    }
}

#[test]
fn the_whole_life_of_a_plan() {
    let desk = Fixture::new();
    assert!(desk.refused(3, "{}").contains("there is no plan"));
    assert!(desk.refused(1, r#"{"steps":[]}"#).contains("there is no plan"), "before no steps");
    let made = desk.run(0, r#"{"objective":"  ship ","initial_steps":[" test "]}"#);
    assert_eq!(
        made.model_text(),
        "The plan is set up with 1 step.\n\nObjective: ship\nStatus: active\n1 [pending] test"
    );
    desk.run(1, r#"{"steps":["tag","tell"]}"#);
    let noted = desk.run(2, r#"{"step_id":1,"status":"in_progress","note":"two fail"}"#);
    assert!(noted.model_text().contains("1 [in_progress] test\n  - two fail\n2 [pending] tag"));
    for step in 1..=3 {
        desk.run(2, &format!(r#"{{"step_id":{step},"status":"done"}}"#));
    }
    let plan = desk.session.latest::<Plan>().unwrap();
    assert_eq!(plan.status, PlanStatus::Completed);
    assert_eq!(desk.run(3, "").value.unwrap().text, plan.to_string());
    assert!(desk.refused(1, r#"{"steps":["more"]}"#).contains("completed"));
    assert!(desk.refused(2, r#"{"step_id":1,"status":"pending"}"#).contains("completed"));
    desk.run(0, r#"{"objective":"again"}"#);
    let plan = desk.session.latest::<Plan>().unwrap();
    assert_eq!((plan.status, plan.steps.len()), (PlanStatus::Active, 0), "an empty one is active");
}

#[test]
fn refusals_come_in_their_order() {
    let desk = Fixture::new();
    let long = "é".repeat(501);
    assert!(desk.refused(2, r#"{"step_id":9,"title":" "}"#).contains("there is no plan"));
    desk.run(0, r#"{"objective":"o","initial_steps":["a"]}"#);
    assert!(desk.refused(2, r#"{"step_id":9,"title":" "}"#).contains("found none"));
    let text = desk.refused(2, &format!(r#"{{"step_id":9,"note":"{long}"}}"#));
    assert!(text.contains("found 501"), "{text}");
    assert!(desk.refused(2, r#"{"step_id":9,"title":"","note":""}"#).contains("nothing to update"));
    let text = desk.refused(2, r#"{"step_id":9,"status":"done"}"#);
    assert_eq!(text, "expected the number of a step, found 9: the plan has step 1");
    // The limit is in characters, not in bytes.
    assert!(desk.run(0, &format!(r#"{{"objective":"{}"}}"#, "é".repeat(500))).success);
    let text = desk.refused(1, &format!(r#"{{"steps":["fine","{long}"]}}"#));
    assert!(text.contains("the title of a step"), "all or nothing: {text}");
}

#[test]
fn the_plan_of_another_session_is_out_of_reach() {
    let desk = Fixture::new();
    let other = ToolContext::new("c1").with_resource(Session::new());
    for context in [other, ToolContext::new("c1")] {
        for tool in desk.planning.tools() {
            let arguments = match tool.spec().name.as_str() {
                "planning_setup_plan" => r#"{"objective":"o"}"#,
                "planning_add_step" => r#"{"steps":["s"]}"#,
                "planning_update_step" => r#"{"step_id":1,"status":"done"}"#,
                _ => "{}",
            };
            let error = block_on(tool.run(arguments, &context)).unwrap_err();
            assert!(error.to_string().contains("another conversation"), "{error}");
        }
    }
    assert_eq!(desk.session.latest::<Plan>(), None);
}

#[test]
fn each_strategy_tells_what_it_is() {
    let table: [(Strategy, &[&str]); 3] = [
        (Strategy::React, &["reasoning, tool calls", "observe as a note of the step"]),
        (
            Strategy::PlanActReflect,
            &["whole plan before you act", "reflect after each", "reflection as a note"],
        ),
        (
            Strategy::GoalDecomposeRouteSynthesize,
            &["goal in your own words", "before you route", "synthesize the results"],
        ),
    ];
    for (strategy, words) in table {
        for words in words {
            assert!(strategy.mindset().contains(words), "{strategy:?}: {words}");
        }
    }
    assert_eq!(Strategy::default(), Strategy::React);
}

#[test]
fn prompts_differ_in_the_mindset_alone() {
    let rendered = Strategy::ALL.map(|strategy| {
        let section = Fixture::new().planning.section(strategy);
        let prompt = crate::prompt::Prompt::builder("tests", "plan").section(section);
        let rendered = prompt.build().unwrap().render(&Default::default()).unwrap();
        let names: Vec<String> =
            rendered.tools().iter().map(|tool| tool.spec().definition()).collect();
        assert!(rendered.text().contains(strategy.mindset()));
        (rendered.text().replacen(strategy.mindset(), "", 1), names)
    });
    assert_eq!(rendered[0], rendered[1]);
    assert_eq!(rendered[1], rendered[2]);
    let words: std::collections::BTreeSet<&str> =
        Strategy::ALL.iter().map(|strategy| strategy.mindset()).collect();
    assert_eq!(words.len(), 3);
    assert!(Strategy::ALL.iter().all(|one| Strategy::parse(one.as_str()) == Some(*one)));
}

#[derive(Clone, Debug)]
enum Move {
    Setup(SetupPlan),
    Add(AddStep),
    Update(UpdateStep),
    Read,
}

fn texts() -> impl Strategy_<Value = String> {
    prop_oneof![
        4 => "[a-zé]{1,6}",
        1 => " [a-z]{1,3} ",
        1 => Just(String::new()),
        1 => Just("  ".to_owned()),
        1 => Just("ü".repeat(500)),
        1 => Just("ü".repeat(501)),
    ]
}

use proptest::strategy::Strategy as Strategy_;

fn moves() -> impl Strategy_<Value = Move> {
    let titles = || proptest::collection::vec(texts(), 0..4);
    let status = prop_oneof![
        Just(StepStatus::Pending),
        Just(StepStatus::InProgress),
        Just(StepStatus::Done),
        Just(StepStatus::Done),
    ];
    prop_oneof![
        1 => (texts(), titles())
            .prop_map(|(objective, initial_steps)| Move::Setup(SetupPlan { objective, initial_steps })),
        2 => titles().prop_map(|steps| Move::Add(AddStep { steps })),
        6 => (0..6u32, proptest::option::of(texts()), proptest::option::of(status), proptest::option::of(texts()))
            .prop_map(|(step_id, title, status, note)| Move::Update(UpdateStep { step_id, title, status, note })),
        1 => Just(Move::Read),
    ]
}

/// Its number, title, status and notes.
type StepRow = (u32, String, StepStatus, Vec<String>);

/// The plan as its description tells it, without any of the code above: what it is for, whether it
/// is completed, its steps.
#[derive(Default)]
struct Model {
    plan: Option<(String, bool, Vec<StepRow>)>,
}

impl Model {
    /// Says what becomes of a move: the word of the refusal, else nothing.
    fn go(&mut self, made: &Move) -> Option<&'static str> {
        let bad = |text: &str| match text.trim().chars().count() {
            0 => Some("empty"),
            501.. => Some("too_long"),
            _ => None,
        };
        match made {
            Move::Setup(setup) => {
                let all = std::iter::once(&setup.objective).chain(&setup.initial_steps);
                if let Some(word) = all.into_iter().find_map(|text| bad(text)) {
                    return Some(word);
                }
                let steps = setup.initial_steps.iter().zip(1..);
                let steps = steps
                    .map(|(title, id)| (id, title.trim().to_owned(), StepStatus::Pending, vec![]));
                self.plan = Some((setup.objective.trim().to_owned(), false, steps.collect()));
                None
            }
            Move::Add(add) => {
                let Some((_, completed, steps)) = &mut self.plan else { return Some("no_plan") };
                if *completed {
                    return Some("completed");
                }
                if add.steps.is_empty() {
                    return Some("no_steps");
                }
                if let Some(word) = add.steps.iter().find_map(|text| bad(text)) {
                    return Some(word);
                }
                for title in &add.steps {
                    let id = steps.len() as u32 + 1;
                    steps.push((id, title.trim().to_owned(), StepStatus::Pending, vec![]));
                }
                None
            }
            Move::Update(update) => {
                let Some((_, completed, steps)) = &mut self.plan else { return Some("no_plan") };
                if *completed {
                    return Some("completed");
                }
                let text_of = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
                let (title, note) = (text_of(&update.title), text_of(&update.note));
                if let Some(word) = title.iter().chain(&note).find_map(|text| bad(text)) {
                    return Some(word);
                }
                if title.is_none() && note.is_none() && update.status.is_none() {
                    return Some("nothing_to_update");
                }
                let Some(step) = steps.iter_mut().find(|step| step.0 == update.step_id) else {
                    return Some("unknown_step");
                };
                if let Some(title) = title {
                    step.1 = title.trim().to_owned();
                }
                step.2 = update.status.unwrap_or(step.2);
                step.3.extend(note.map(|note| note.trim().to_owned()));
                *completed = steps.iter().all(|step| step.2 == StepStatus::Done);
                None
            }
            Move::Read => self.plan.is_none().then_some("no_plan"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]
    #[test]
    fn plans_do_as_the_model_says(moves in proptest::collection::vec(moves(), 1..40)) {
        let (desk, mut model) = (Fixture::new(), Model::default());
        for made in &moves {
            let now = desk.session.latest::<Plan>();
            let now = now.as_ref();
            let (tool, arguments, word) = match made {
                Move::Setup(setup) => (0, serde_json::to_string(setup), Plan::setup(setup).err()),
                Move::Add(add) => (1, serde_json::to_string(add), Plan::add(now, add).err()),
                Move::Update(update) => {
                    (2, serde_json::to_string(update), Plan::update(now, update).err())
                }
                Move::Read => (3, Ok("{}".to_owned()), Plan::read(now).err()),
            };
            let result = desk.run(tool, &arguments.unwrap());
            let expected = model.go(made);
            prop_assert_eq!(word.as_ref().map(PlanError::code), expected);
            prop_assert_eq!(result.success, expected.is_none(), "{:?}", result);
            let plan = desk.session.latest::<Plan>();
            match (&plan, &model.plan) {
                (None, None) => {}
                (Some(plan), Some((objective, completed, steps))) => {
                    prop_assert_eq!(&plan.objective, objective);
                    prop_assert_eq!(plan.status == PlanStatus::Completed, *completed);
                    let found: Vec<_> = plan.steps.iter().map(|step| {
                        (step.step_id, step.title.clone(), step.status, step.notes.clone())
                    }).collect();
                    prop_assert_eq!(&found, steps);
                }
                (plan, _) => prop_assert!(false, "{:?}", plan),
            }
            if let (true, Some(value)) = (result.success, &result.value) {
                let given: Plan = serde_json::from_str(value.json.as_str()).unwrap();
                prop_assert_eq!(Some(given), plan, "the whole plan is given");
            }
        }
    }
}

#[test]
fn a_session_that_is_bound_twice_adds_each_step_once() {
    let desk = Fixture::new();
    let [setup, add, ..] = Planning::new(&desk.session).unwrap().tools();
    for (tool, arguments) in [(setup, r#"{"objective":"ship"}"#), (add, r#"{"steps":["test"]}"#)] {
        block_on(tool.run(arguments, &desk.context)).unwrap();
    }
    assert_eq!(desk.planning.plan().unwrap().steps.len(), 1);
}

#[test]
fn the_planning_section_and_its_tools_accept_no_overrides() {
    use crate::prompt::{OverrideFault, Overrides, Prompt, SectionOverride, ToolOverride};
    let section = Fixture::new().planning.section(Strategy::default());
    let prompt = Prompt::builder("tests", "planning").section(section).build().unwrap();
    let mut overrides = Overrides::default();
    let hash = prompt.section_hash("planning").unwrap();
    overrides.sections.insert("planning".into(), SectionOverride { hash, body: "Plan.".into() });
    for tool in Fixture::new().planning.tools() {
        let name = tool.spec().name;
        let hash = prompt.tool_hash(&name).unwrap();
        let description = Some("Other words.".to_owned());
        let changed =
            ToolOverride { hash, description, parameters: Default::default(), examples: None };
        overrides.tools.insert(name, changed);
    }
    let faults = prompt.check_overrides(&overrides).unwrap_err();
    assert_eq!(faults.len(), 5);
    assert!(faults.iter().all(|fault| fault.fault == OverrideFault::Closed), "{faults:?}");
}
